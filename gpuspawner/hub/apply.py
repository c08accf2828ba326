"""From a placement to values of KubeSpawner's traits: pure, and always made anew from the admin's values.

Kubernetes and KubeSpawner decide how the two are put together. Required node selector terms are alternatives, so
the placement's expressions go into each of them; everything else is appended, without repetitions, in the shape the
admin chose (since KubeSpawner 7 many lists may be dicts). https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpuspawner.core.catalogue import Toleration
from gpuspawner.core.placement import MatchExpression, Placement
from gpuspawner.hub.base import fresh

_KEY = "gpuspawner"
"""Begins the keys and names of what is added."""
_SHM = "gpuspawner-shm"
_SHM_PATH = "/dev/shm"  # noqa: S108 - where containers have their shared memory
_PREFERENCE_WEIGHT = 100


class AdminValues(Protocol):
    """The admin's value of each trait."""

    def __getitem__(self, trait: str) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is put over the admin's values.

    :param resources: extended resources that the catalogue offers. How many of them a pod gets is the user's choice
        alone: an admin's limit for one of them would add GPUs to it, or contradict it.
    """

    placement: Placement
    resources: frozenset[str] = frozenset()


def trait_values(choice: Choice, base: AdminValues) -> dict[str, Any]:
    """Return trait name → value for one start. The same traits each time, so that nothing of an earlier one stays."""
    placement = choice.placement
    return {
        **_amounts(placement, base),
        "image": placement.image,
        "extra_resource_limits": {
            **_without(base["extra_resource_limits"], choice.resources),
            **{name: str(number) for name, number in placement.extended_resources.items()},
        },
        "extra_resource_guarantees": _without(base["extra_resource_guarantees"], choice.resources),
        "node_selector": {**(base["node_selector"] or {}), **placement.node_selector},
        "node_affinity_required": _require(base["node_affinity_required"], placement.required),
        "node_affinity_preferred": _added(base["node_affinity_preferred"], _preferences(placement.avoided)),
        "tolerations": _added(base["tolerations"], [_toleration(each) for each in placement.tolerations]),
        "environment": {
            **_without(base["environment"], placement.removed_environment),
            **{name: literal(value) for name, value in placement.environment.items()},
        },
        "extra_annotations": {
            **(base["extra_annotations"] or {}),
            **{name: literal(value) for name, value in placement.annotations.items()},
        },
        "extra_pod_config": _pod_config(base["extra_pod_config"], placement.runtime_class),
        **_shared_memory(base["volumes"], base["volume_mounts"], size_bytes=placement.shm_bytes),
        "start_timeout": placement.start_timeout_s or base["start_timeout"],
    }


def literal(text: str) -> str:
    """Return a text that KubeSpawner's ``{…}`` expansion leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _amounts(placement: Placement, base: AdminValues) -> dict[str, Any]:
    """Return limits and guarantees in KubeSpawner's units: cores and bytes."""
    millis = {"cpu_limit": placement.cpu_limit_millis, "cpu_guarantee": placement.cpu_request_millis}
    size = {"mem_limit": placement.memory_limit_bytes, "mem_guarantee": placement.memory_request_bytes}
    return {
        **{name: base[name] if value is None else value / 1000 for name, value in millis.items()},
        **{name: base[name] if value is None else value for name, value in size.items()},
    }


def _without(mapping: Mapping[str, Any] | None, names: Iterable[str]) -> dict[str, Any]:
    unwanted = frozenset(names)
    return {name: value for name, value in (mapping or {}).items() if name not in unwanted}


def _added(admins: Any, entries: list[dict[str, Any]]) -> Any:
    """Return the admin's list, or dict of entries, with those added that it has not yet."""
    merged = fresh(admins) if admins else []
    known = list(merged.values()) if isinstance(merged, dict) else merged
    new = [entry for entry in entries if entry not in known]
    if not isinstance(merged, dict):
        return [*merged, *new]
    # KubeSpawner sorts by key; the key says whose entry it is, and differs from those that are there.
    return merged | {f"{_KEY}-{len(merged) + index}": entry for index, entry in enumerate(new)}


def _require(admins: Any, expressions: tuple[MatchExpression, ...]) -> Any:
    """Return the admin's required terms, each with the expressions; a term of its own where there is none."""
    terms = fresh(admins) if admins else []
    if not expressions:
        return terms
    wanted = [_expression(each) for each in expressions]
    if isinstance(terms, dict):
        return {key: _narrowed(term, wanted) for key, term in terms.items()}
    return [_narrowed(term, wanted) for term in terms] or [{"matchExpressions": wanted}]


def _narrowed(term: Any, wanted: list[dict[str, Any]]) -> Any:
    """Return a node selector term that demands more.

    An empty term selects no node at all; it would select some with expressions in it, so it stays empty.
    """
    if not isinstance(term, dict):
        # An admin's Python configuration may hold V1NodeSelectorTerm objects; what is inside is kept as it is.
        term = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
    expressions_key = "match_expressions" if "match_expressions" in term else "matchExpressions"
    own = list(term.get(expressions_key) or [])
    fields = term.get("matchFields") or term.get("match_fields")
    if not own and not fields:
        return term
    return {**term, expressions_key: [*own, *(each for each in wanted if each not in own)]}


def _expression(expression: MatchExpression) -> dict[str, Any]:
    values = {"values": list(expression.values)} if expression.values else {}
    return {"key": expression.key, "operator": expression.operator, **values}


def _preferences(avoided: tuple[MatchExpression, ...]) -> list[dict[str, Any]]:
    if not avoided:
        return []
    expressions = [_expression(each) for each in avoided]
    return [{"weight": _PREFERENCE_WEIGHT, "preference": {"matchExpressions": expressions}}]


def _toleration(toleration: Toleration) -> dict[str, str]:
    """Return a toleration as the API takes it: what is empty is left out."""
    fields = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: value for name, value in fields.items() if value}


def _pod_config(admins: Mapping[str, Any] | None, runtime_class: str | None) -> dict[str, Any]:
    """Return the admin's pod configuration with the type's runtime class, unless the admin set one for all pods."""
    config: dict[str, Any] = fresh(dict(admins or {}))
    if runtime_class is not None and not {"runtimeClassName", "runtime_class_name"} & config.keys():
        config["runtimeClassName"] = literal(runtime_class)
    return config


def _shared_memory(volumes: Any, mounts: Any, *, size_bytes: int | None) -> dict[str, Any]:
    """Return volumes and mounts with a /dev/shm in memory; an admin's own mount there stays the only one."""
    mounted = mounts.values() if isinstance(mounts, dict) else mounts or []
    if size_bytes is None or any(_mount_path(mount) == _SHM_PATH for mount in mounted):
        return {"volumes": fresh(volumes), "volume_mounts": fresh(mounts)}
    volume = {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": str(size_bytes)}}
    return {
        "volumes": _added(volumes, [volume]),
        "volume_mounts": _added(mounts, [{"name": _SHM, "mountPath": _SHM_PATH}]),
    }


def _mount_path(mount: Any) -> str | None:
    if isinstance(mount, Mapping):
        return mount.get("mountPath") or mount.get("mount_path")
    return getattr(mount, "mount_path", None)
