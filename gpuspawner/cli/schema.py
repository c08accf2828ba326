"""Print the JSON Schema of the settings, for editors and for Helm.

The schema (draft 7) describes a whole values file of zero-to-jupyterhub, or of a parent chart with zero-to-jupyterhub
below the key jupyterhub. With --section it describes only the section hub.config.GPUSpawner. An editor with the YAML
language server uses the schema if the first line of a values file names it:

  # yaml-language-server: $schema=values.schema.json

A schema checks keys, types and the notation of amounts. `gpuspawner check` finds more mistakes: defaults outside their
bounds, unknown slugs, duplicate keys.

examples:
  gpuspawner schema > values.schema.json
  gpuspawner schema --section
  gpuspawner schema --output yaml
"""

from __future__ import annotations

import argparse
from typing import Any, TextIO

from traitlets import Bool, Enum, Float, Integer, TraitType, Unicode

from gpuspawner.cli.common.output import OK, write_result
from gpuspawner.hub.config.traits import SETTING_TRAITS
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.settings.json_schema import build_settings_schema, build_values_schema

_TYPES: tuple[tuple[type[TraitType[Any, Any]], str], ...] = (
    (Bool, "boolean"),
    (Integer, "integer"),
    (Float, "number"),
    (Unicode, "string"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner schema``."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--values", action="store_true", help="of a whole values file (the default)")
    which.add_argument("--section", action="store_true", help="of what stands below hub.config.GPUSpawner")
    parser.add_argument("--output", choices=("json", "yaml"), default="json", help="format of the result (%(default)s)")


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Write the schema and return the exit code."""
    section = build_settings_schema(build_trait_schemas())
    write_result(
        section if arguments.section else build_values_schema(section),
        output=arguments.output,
        out=out,
        table=lambda _: (),
    )
    return OK


def build_trait_schemas() -> dict[str, dict[str, Any]]:
    """Return name → JSON Schema of each trait of GPUSpawner and KubeSpawner that is not one of gpuspawner's settings.

    :func:`.build_settings_schema` returns the schemas of the settings. The schema of a KubeSpawner trait accepts any
    value; only ``gpuspawner check`` validates the value.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, trait in sorted(GPUSpawner.class_traits(config=True).items()):
        if name in SETTING_TRAITS:
            continue
        own = trait.this_class is not None and trait.this_class.__module__.startswith("gpuspawner.")
        found[name] = _build_trait_schema(trait) if own else {"description": "A trait of KubeSpawner."}
    return found


def _build_trait_schema(trait: TraitType[Any, Any]) -> dict[str, Any]:
    kind = next((name for cls, name in _TYPES if isinstance(trait, cls)), None)
    sentence = " ".join(trait.help.split("::")[0].split()).split(". ")[0].rstrip(".")
    schema: dict[str, Any] = {"description": f"{sentence}."}
    if kind is not None:
        schema |= {"type": kind, "default": trait.default_value}
    if isinstance(trait, Enum):
        schema |= {"enum": list(trait.values or ()), "default": trait.default_value}
    return schema
