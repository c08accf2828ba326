"""The table of GPU models: the package's own data, with the admin's changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.platforms import parse_compute_capability
from gpuspawner.settings.gpu_entries import AcceleratorEntry

_GIB = 1024**3


@cache
def load_builtin_accelerators() -> Mapping[str, Accelerator]:
    """Return the models the package knows, by slug."""
    text = (files("gpuspawner") / "data" / "accelerators.json").read_text(encoding="utf-8")
    return {slug: _parse_accelerator(slug, raw) for slug, raw in json.loads(text)["accelerators"].items()}


def build_accelerator_table(changes: Mapping[str, AcceleratorEntry | None]) -> AcceleratorTable:
    """Return the built-in table with an admin's changes: fields replaced, models added or taken out."""
    models = dict(load_builtin_accelerators())
    for slug, change in changes.items():
        if change is None or not change.enabled:
            models.pop(slug, None)
        else:
            known = models.get(slug) or Accelerator(
                slug=slug, name=change.name or slug, vendor=change.vendor or "nvidia"
            )
            models[slug] = replace(known, **_convert_changes(change))
    return AcceleratorTable(models.values())


def _convert_changes(change: AcceleratorEntry) -> dict[str, Any]:
    """Return the fields an admin set, as the core's model holds them."""
    given = {name: getattr(change, name) for name in change.model_fields_set if getattr(change, name) is not None}
    given.pop("enabled", None)
    if "memory" in given:
        given["memory_bytes"] = given.pop("memory")
    if "labels" in given:
        given["labels"] = {source: tuple(names) for source, names in given["labels"].items()}
    return given


def _parse_accelerator(slug: str, raw: Mapping[str, Any]) -> Accelerator:
    """Return one entry of the data file; what no source confirms is left unknown."""
    known = {field.name for field in fields(Accelerator)}
    plain = {key: value for key, value in raw.items() if key in known}
    plain["labels"] = {source: tuple(names) for source, names in raw["labels"].items()}
    plain["fractional"] = tuple(raw.get("fractional", ()))
    plain["nvlink"] = tuple(raw.get("nvlink", ()))
    if "memory_gib" in raw and "memory_gib" not in raw.get("unverified", ()):
        plain["memory_bytes"] = raw["memory_gib"] * _GIB
    if "compute_capability" not in raw.get("unverified", ()):
        plain["compute"] = parse_compute_capability(raw.get("compute_capability", ""))
    return Accelerator(slug=slug, **plain)
