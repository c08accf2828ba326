"""Computes which GPUs servers use, and what a namespace's ResourceQuotas leave for one more server.

https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from gpuspawner.core.json_access import as_dict, as_dicts, as_text
from gpuspawner.core.units.quantity import QuantityError, parse_millis, parse_whole_units


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUsage:
    """One server that has a pod or is being started.

    :param owner: name of the server's user.
    :param name: name of a named server; empty for the default server.
    :param gpu: slug of the GPU type, None without a GPU; empty if the type is unknown.
    :param count: GPUs that the server holds or waits for.
    :param pools: slugs of the GPU pools (GPU limits shared by groups) that the server counts towards.
    """

    owner: str
    name: str
    gpu: str | None = None
    count: int = 0
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingQuota:
    """What the ResourceQuotas of a namespace leave for one more server.

    :param left: resource → the least that any quota leaves of it: ``requests.nvidia.com/gpu`` and other extended
        resources in units, ``limits.cpu`` and ``requests.cpu`` in millicores, ``limits.memory`` and ``requests.memory``
        in bytes, ``pods`` as a number of pods. A missing resource has no limit.
    """

    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What all servers use except the server that is about to start.

    :param own: the other servers of the user whose server is about to start.
    :param pools: slug of a GPU pool → GPUs in use that count towards the pool; pools without GPUs in use are missing.
    :param quota: what ResourceQuotas leave; None without a ResourceQuota, or if the hub may not read ResourceQuotas.
    :param known: False while the hub cannot list its servers' pods.
    """

    own: tuple[ServerUsage, ...] = ()
    pools: Mapping[str, int] = field(default_factory=dict)
    quota: RemainingQuota | None = None
    known: bool = True


def sum_usage(
    person: str,
    servers: Iterable[ServerUsage],
    *,
    excluding: str,
    quota: RemainingQuota | None = None,
    known: bool = True,
) -> Usage:
    """Return what all servers use except one server of a user, which is about to start.

    :param person: name of the server's user.
    :param servers: servers of all users.
    :param excluding: name of the excluded server; a pod of an earlier start of this server is not counted.
    :param quota: what ResourceQuotas leave; None without a ResourceQuota, or if the hub may not read ResourceQuotas.
    :param known: False if ``servers`` may be incomplete.
    """
    others = [server for server in servers if (server.owner, server.name) != (person, excluding)]
    pools: Counter[str] = Counter()
    for server in others:
        for pool in server.pools:
            pools[pool] += server.count
    return Usage(
        own=tuple(server for server in others if server.owner == person), pools=dict(pools), quota=quota, known=known
    )


_PODS = "pods"
_SHORT_NAMES = {"cpu": "requests.cpu", "memory": "requests.memory", "count/pods": _PODS}
"""Name of a resource in a ResourceQuota → name by which this module counts it: ``cpu`` means ``requests.cpu``."""
_AMOUNTS = frozenset({"limits.cpu", "requests.cpu", "limits.memory", "requests.memory"})
_REQUESTS = "requests."
_NOT_BEST_EFFORT = "NotBestEffort"
"""Scope that limits a quota to pods with requests or limits of CPU or memory.

This module reads a quota of CPU or memory with this scope as if it had no scope: a pod outside the scope would add 0 to
the quota anyway. It ignores a quota of ``pods`` with this scope, because such a quota does not count every pod.
"""


def read_remaining_quota(raw: object) -> RemainingQuota | None:
    """Return the least that a namespace's ResourceQuotas leave, or None if none of them limits a server's resources.

    Quotas with a scope other than ``NotBestEffort`` (such as ``PriorityClass``) are ignored: the hub cannot know which
    pods are in the scope. The API server still enforces these quotas when the hub creates a pod.

    :param raw: ``items`` of a v1 ResourceQuotaList.
    """
    least: dict[str, int] = {}
    for each in as_dicts(raw):
        for name, number in _list_remaining(each):
            least[name] = min(number, least.get(name, number))
    return RemainingQuota(left=least) if least else None


def _list_remaining(raw: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    spec, status = as_dict(raw.get("spec")), as_dict(raw.get("status"))
    scopes = _read_scopes(spec)
    if not scopes <= {_NOT_BEST_EFFORT}:
        return
    used = as_dict(status.get("used"))  # A new ResourceQuota has no status yet: count nothing as used.
    for written, hard in as_dict(status.get("hard") or spec.get("hard")).items():
        name = _SHORT_NAMES.get(written, written)
        if not _is_counted(name) or (scopes and name == _PODS):
            continue
        most, taken = _parse_amount(name, hard), _parse_amount(name, used.get(written, 0))
        if most is not None and taken is not None:
            yield name, max(0, most - taken)


def _read_scopes(spec: Mapping[str, object]) -> set[str]:
    """Return the scopes of a ResourceQuota.

    ``?`` stands for a scope expression with another operator than ``Exists``; the caller ignores such a quota.
    """
    listed = spec.get("scopes")
    named = (as_text(each) for each in listed) if isinstance(listed, list) else ()
    expressions = as_dicts(as_dict(spec.get("scopeSelector")).get("matchExpressions"))
    selected = (as_text(each.get("scopeName")) if each.get("operator") == "Exists" else "?" for each in expressions)
    return set(chain(named, selected))


def _is_counted(name: str) -> bool:
    if name in _AMOUNTS or name == _PODS:
        return True
    return name.startswith(_REQUESTS) and "/" in name


def _parse_amount(name: str, value: object) -> int | None:
    try:
        return parse_millis(value) if name.endswith(".cpu") else parse_whole_units(value)
    except QuantityError:
        return None
