"""The settings as JSON Schema (draft 7): for editors, and for Helm, which reads no later draft in all its versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuspawner.core.units.duration import duration_option
from gpuspawner.core.units.quantity import memory_option
from gpuspawner.settings.models import SettingsModel
from gpuspawner.settings.policy_checks import SLUG
from gpuspawner.settings.written import UNIT

DIALECT = "http://json-schema.org/draft-07/schema#"

_REFS = "#/definitions/{model}"
_SLUGGED = ("images", "priorities", "gpus", "presets", "pools", "accelerators")
_NEVER_NULL = "discover_gpus"
"""Its trait takes none; at every other key that need not be there, null says nothing."""
_NULL = {"type": "null"}
_SHOWN: dict[str, Callable[[int], object]] = {
    "cpu": lambda millis: millis // 1000 if millis % 1000 == 0 else millis / 1000,
    "memory": memory_option,
    "run_time": duration_option,
}


def settings_schema(others: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Return the schema of the section ``hub.config.GPUSpawner``.

    :param others: schemas of the keys there that are no settings, by name.
    """
    schema = SettingsModel.model_json_schema(ref_template=_REFS, by_alias=True)
    definitions = {name: _plain(model) for name, model in schema.pop("$defs").items()}
    section = _plain(schema)
    section["properties"][_NEVER_NULL] = _plain(schema["properties"][_NEVER_NULL])
    for name in _SLUGGED:
        section["properties"][name] = _slugged(section["properties"][name])
    section["properties"] |= {name: dict(value) for name, value in (others or {}).items()}
    return {"$schema": DIALECT, **section, "definitions": definitions}


def values_schema(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of values of zero-to-jupyterhub, or of a chart that has it below ``jupyterhub``.

    What is not gpuspawner's is left to the chart's own schema.

    :param section: as :func:`settings_schema` returns it.
    """
    definitions = dict(section["definitions"])
    own = {key: value for key, value in section.items() if key not in ("$schema", "definitions")}
    spawner_class = {"type": "string", "description": "gpuspawner.GPUSpawner"}
    config = {"JupyterHub": _object({"spawner_class": spawner_class}), "GPUSpawner": _nullable(_ref("GPUSpawner"))}
    hub = _object({"config": _object(config)})
    definitions |= {"GPUSpawner": own, "values": _object({"hub": hub})}
    return {
        "$schema": DIALECT,
        "title": "Helm values of zero-to-jupyterhub with gpuspawner",
        "type": "object",
        "properties": {"hub": hub, "jupyterhub": _ref("values")},
        "definitions": definitions,
    }


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": ["object", "null"], "properties": dict(properties)}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _REFS.format(model=name)}


def _plain(schema: Any) -> Any:
    """Return a schema with defaults as they are written, and without titles, which only repeat names."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    unit, required = _unit(schema), schema.get("required", ())
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            found = {name: _plain(each) for name, each in value.items()}
            plain[key] = {name: each if name in required else _nullable(each) for name, each in found.items()}
        elif key == "patternProperties":
            plain |= {key: {name: _nullable(_plain(each)) for name, each in value.items()}}
            plain["additionalProperties"] = False
        elif key == "additionalProperties" and isinstance(value, dict):
            plain[key] = _nullable(_plain(value))
        elif key == "default" and value is not None:
            plain[key] = _SHOWN[unit](value) if unit else value
        elif key not in ("title", "default", UNIT):
            plain[key] = _plain(value)
    if "$ref" in plain and len(plain) > 1:
        # Draft 7 knows nothing beside a reference.
        plain["allOf"] = [{"$ref": plain.pop("$ref")}]
    return plain


def _unit(schema: Mapping[str, Any]) -> str | None:
    found = [schema, *schema.get("anyOf", ())]
    return next((each[UNIT] for each in found if isinstance(each, dict) and UNIT in each), None)


def _nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that takes null as well."""
    if "anyOf" in schema:
        missing = [] if _NULL in schema["anyOf"] else [_NULL]
        return {**schema, "anyOf": [*schema["anyOf"], *missing]}
    beside = {key: value for key, value in schema.items() if key in ("description", "default", "examples")}
    return {**beside, "anyOf": [{key: value for key, value in schema.items() if key not in beside}, _NULL]}


def _slugged(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of a mapping by slug."""
    named = {"propertyNames": {"pattern": f"^{SLUG.pattern}$"}}
    return {
        **schema,
        "anyOf": [{**each, **named} if "additionalProperties" in each else each for each in schema["anyOf"]],
    }
