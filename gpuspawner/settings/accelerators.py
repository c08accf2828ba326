"""Reads the built-in table of GPU models, and applies the settings ``accelerators`` to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.software import parse_compute_capability
from gpuspawner.core.value_types import list_keys

_GIB = 1024**3


@cache
def load_builtin_accelerators() -> Mapping[str, Accelerator]:
    """Return the built-in GPU models by slug."""
    text = (files("gpuspawner") / "data" / "accelerators.json").read_text(encoding="utf-8")
    return {slug: _parse_accelerator(slug, raw) for slug, raw in json.loads(text)["accelerators"].items()}


def build_accelerator_table(changes: Mapping[str, Accelerator | None]) -> AcceleratorTable:
    """Return the built-in table with the admin's changes.

    :param changes: slug of a model → facts that replace those in the table or add the model; None removes the model.
    """
    models = dict(load_builtin_accelerators())
    for slug, change in changes.items():
        if change is None or not change.enabled:
            models.pop(slug, None)
        else:
            known = models.get(slug) or Accelerator(slug=slug, name=slug, vendor="nvidia")
            given = {name for name, key in list_keys(Accelerator).items() if (key.alias or name) in change.given}
            models[slug] = replace(known, **{name: getattr(change, name) for name in given})
    return AcceleratorTable(models.values())


def _parse_accelerator(slug: str, raw: Mapping[str, Any]) -> Accelerator:
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
