"""The cluster that examples of the documentation need: nodes for the types in them, and objects beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from devcluster import simulated
from devcluster.simulated import Pool
from tests.cluster.support import cloud as clouds
from tests.cluster.support.cloud import CLOUDS, Cloud, Expected

_FLEET = Path(__file__).parents[3] / "devcluster" / "fleet.yaml"
_OWN = "docs"
"""The file in clouds/docs with nodes for examples that stand on no overlay."""
_BASE = "gpuspawner"
_NVIDIA = "nvidia.com/gpu"
_MEMORY = "nvidia.com/gpu.memory"
_MIB = 2**20
_UNITS = {"M": 10**6, "G": 10**9, "T": 10**12}

Settings = Mapping[str, Any]


def named(settings: Settings) -> set[str]:
    """Return the slugs of the GPU types that settings name and offer."""
    found = {slug for slug, entry in _entries(settings, "gpus").items() if entry.get("enabled", True)}
    policy = settings.get("policy") or {}
    for rule in (
        policy.get("default") or {},
        *_entries(policy, "groups").values(),
        *_entries(policy, "users").values(),
    ):
        found |= set(_listed(rule.get("gpus", ())))
    for pool in _entries(settings, "pools").values():
        found |= set(pool.get("gpus", ()))
    found |= {entry["gpu"] for entry in _entries(settings, "presets").values() if entry.get("gpu")}
    found |= set(_entries(settings, "accelerators"))
    return found - {"*"} - hidden(settings)


def hidden(settings: Settings) -> set[str]:
    """Return the slugs of the GPU types that settings describe and do not offer."""
    return {slug for slug, entry in _entries(settings, "gpus").items() if not entry.get("enabled", True)}


def cloud_of(settings: Settings, *, over: Iterable[str]) -> Cloud:
    """Return the cluster that settings are for, and where servers with what they name must go.

    Where that is, labels and numbers of the nodes say, not the product. A type that is not described has the name of
    a pool.

    :param over: names of the files in ``helm-values`` that the settings stand on.
    """
    overlay = next((name for name in over if name != _BASE), "")
    base = clouds.load(overlay) if overlay else None
    there = base.there if base else simulated.load(_FLEET)
    more = CLOUDS / "docs" / f"{overlay or _OWN}.yaml"
    there = (*there, *(simulated.load(more) if more.exists() else ()))
    added = base.added if base else ()
    everywhere = (*there, *added)
    types = {slug: _expected(settings, slug, pools=everywhere) for slug in sorted(named(settings))}
    return Cloud(there=there, added=added, types=types, cpu=base.cpu if base else _without_gpu(everywhere))


def runtime_classes(settings: Iterable[Settings]) -> set[str]:
    """Return the RuntimeClasses that settings name."""
    entries = (entry for each in settings for entry in _entries(each, "gpus").values())
    return {entry["runtime_class"] for entry in entries if "runtime_class" in entry}


def priority_classes(settings: Iterable[Settings]) -> dict[str, int]:
    """Return the PriorityClasses that settings name, with their values."""
    entries = (entry for each in settings for entry in _entries(each, "priorities").values())
    return {entry["class"]: entry["value"] for entry in entries}


def _entries(settings: Settings, key: str) -> dict[str, Settings]:
    """Return the entries of a mapping that are there; null takes one out."""
    return {slug: entry for slug, entry in (settings.get(key) or {}).items() if entry is not None}


def _listed(gpus: str | Iterable[str]) -> Iterable[str]:
    return [gpus] if isinstance(gpus, str) else gpus


def _expected(settings: Settings, slug: str, *, pools: Iterable[Pool]) -> Expected:
    entry = _entries(settings, "gpus").get(slug, {})
    resource = entry.get("resource", _NVIDIA)
    found = {pool.name for pool in pools if _holds(settings, slug, pool=pool)}
    assert found, f"no node for {slug}"
    return Expected(pools=tuple(sorted(found)), resource=resource, count=1)


def _holds(settings: Settings, slug: str, *, pool: Pool) -> bool:
    """Tell whether a server with one GPU of a type may be on a pool's nodes."""
    entry = _entries(settings, "gpus").get(slug)
    if entry is None:
        return pool.name == slug
    if "any_of" in entry:
        return any(_holds(settings, member, pool=pool) for member in entry["any_of"])
    if not int(pool.allocatable.get(entry["resource"], "0")):
        return False
    if "min_memory" in entry:
        return int(pool.labels.get(_MEMORY, "0")) * _MIB >= _bytes(entry["min_memory"])
    match = {key: list(_listed(values)) for key, values in entry["match"].items() if values is not None}
    return all(pool.labels.get(key) in (values or [None]) for key, values in match.items())  # []: without the label


def _bytes(amount: str) -> int:
    return int(amount[:-1]) * _UNITS[amount[-1]]


def _without_gpu(pools: Iterable[Pool]) -> tuple[str, ...]:
    return tuple(pool.name for pool in pools if not any("/" in resource for resource in pool.allocatable))
