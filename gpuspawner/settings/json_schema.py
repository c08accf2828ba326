"""Builds the JSON Schema of the settings for editors and Helm. Draft 7 is the newest that all versions of Helm read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuspawner.core.request.field_definitions import CPU, MEMORY, RUN_TIME
from gpuspawner.core.value_types import UNIT_KEY
from gpuspawner.settings.checks import SLUG_PATTERN
from gpuspawner.settings.models import SETTINGS, SLUG_SECTIONS

JSON_SCHEMA_DIALECT = "http://json-schema.org/draft-07/schema#"

_REFS = "#/definitions/{model}"
_NEVER_NULL = "discover_gpus"
"""The only optional key of the settings that must not be null: GPUSpawner's trait of the same name allows no None."""
_NULL = {"type": "null"}
_DEFAULT_FORMATTERS = {each.name: each.format_option for each in (CPU, MEMORY, RUN_TIME)}
"""Value of ``UNIT_KEY`` in a schema, such as ``memory`` → function that formats a default as admins write it."""


def build_settings_schema(others: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Return the schema of the section ``hub.config.GPUSpawner``.

    :param others: key → schema, for keys of the section that the settings do not have. They set other traits of the
        spawner.
    """
    schema = SETTINGS.json_schema(ref_template=_REFS, by_alias=True)
    definitions = {name: _simplify(model) for name, model in schema.pop("$defs").items()}
    section = _simplify(schema)
    section["properties"][_NEVER_NULL] = _simplify(schema["properties"][_NEVER_NULL])
    for name in SLUG_SECTIONS:
        section["properties"][name] = _require_slugs(section["properties"][name])
    section["properties"] |= {name: dict(value) for name, value in (others or {}).items()}
    return {"$schema": JSON_SCHEMA_DIALECT, **section, "definitions": definitions}


def build_values_schema(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a file with zero-to-jupyterhub's Helm values.

    The schema accepts the values at the top level of the file, or below the key ``jupyterhub`` (as in the values of a
    parent chart).

    The schema covers only gpuspawner's keys; zero-to-jupyterhub's chart has its own schema for the others.

    :param section: schema of the settings, as :func:`build_settings_schema` returns it.
    """
    definitions = dict(section["definitions"])
    own = {key: value for key, value in section.items() if key not in ("$schema", "definitions")}
    spawner_class = {"type": "string", "description": "gpuspawner.GPUSpawner"}
    config = {
        "JupyterHub": _make_object({"spawner_class": spawner_class}),
        "GPUSpawner": _allow_null(_make_ref("GPUSpawner")),
    }
    hub = _make_object({"config": _make_object(config)})
    definitions |= {"GPUSpawner": own, "values": _make_object({"hub": hub})}
    return {
        "$schema": JSON_SCHEMA_DIALECT,
        "title": "Helm values of zero-to-jupyterhub with gpuspawner",
        "type": "object",
        "properties": {"hub": hub, "jupyterhub": _make_ref("values")},
        "definitions": definitions,
    }


def _make_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": ["object", "null"], "properties": dict(properties)}


def _make_ref(name: str) -> dict[str, Any]:
    return {"$ref": _REFS.format(model=name)}


def _simplify(schema: Any) -> Any:
    """Return a schema in which defaults are written as in YAML and optional keys may be null.

    The result has no titles, because pydantic's titles only repeat the keys.
    """
    if isinstance(schema, list):
        return [_simplify(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    unit, required = _find_unit(schema), schema.get("required", ())
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            found = {name: _simplify(each) for name, each in value.items()}
            plain[key] = {name: each if name in required else _allow_null(each) for name, each in found.items()}
        elif key == "patternProperties":
            plain |= {key: {name: _allow_null(_simplify(each)) for name, each in value.items()}}
            plain["additionalProperties"] = False
        elif key == "additionalProperties" and isinstance(value, dict):
            plain[key] = _allow_null(_simplify(value))
        elif key == "default" and value is not None:
            plain[key] = _DEFAULT_FORMATTERS[unit](value) if unit else value
        elif key not in ("title", "default", UNIT_KEY):
            plain[key] = _simplify(value)
    if "$ref" in plain and len(plain) > 1:
        # Move ``$ref`` into ``allOf``, because draft 7 ignores all other keys beside ``$ref``.
        plain["allOf"] = [{"$ref": plain.pop("$ref")}]
    return plain


def _find_unit(schema: Mapping[str, Any]) -> str | None:
    found = [schema, *schema.get("anyOf", ())]
    return next((each[UNIT_KEY] for each in found if isinstance(each, dict) and UNIT_KEY in each), None)


def _allow_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        missing = [] if _NULL in schema["anyOf"] else [_NULL]
        return {**schema, "anyOf": [*schema["anyOf"], *missing]}
    beside = {key: value for key, value in schema.items() if key in ("description", "default", "examples")}
    return {**beside, "anyOf": [{key: value for key, value in schema.items() if key not in beside}, _NULL]}


def _require_slugs(schema: Mapping[str, Any]) -> dict[str, Any]:
    named = {"propertyNames": {"pattern": f"^{SLUG_PATTERN.pattern}$"}}
    return {
        **schema,
        "anyOf": [{**each, **named} if "additionalProperties" in each else each for each in schema["anyOf"]],
    }
