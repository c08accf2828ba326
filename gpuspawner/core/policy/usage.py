"""What is in use: the servers that exist or are being started, and what namespaces' quotas leave.

What ResourceQuotas leave for one more server, from the objects as the API server sends them.

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
    """One server whose pod exists, or that is being started.

    :param owner: name of the user it belongs to.
    :param name: of a named server, empty for a user's default one.
    :param gpu: slug of the GPU type it was started with, None without a GPU; empty where its pod does not say.
    :param count: GPUs it holds or waits for.
    :param pools: slugs of the pools that it counts towards, as they were when it was started.
    """

    owner: str
    name: str
    gpu: str | None = None
    count: int = 0
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingQuota:
    """What the ResourceQuotas of a namespace leave for one more server, the least of them.

    :param left: by resource as a ResourceQuota writes it: ``requests.nvidia.com/gpu`` and other extended resources,
        ``limits.cpu`` and ``requests.cpu`` in millicores, ``limits.memory`` and ``requests.memory`` in bytes, ``pods``.
        A quota's ``cpu`` and ``memory`` are the same as its requests of them. What is missing has no limit.
    """

    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What is in use besides the one server that is asked about.

    :param own: servers of the person it is for.
    :param pools: slug → GPUs that all servers together hold which count towards the pool; a missing one holds none.
    :param quota: None where there is none, or none that may be read.
    :param known: False while nobody can tell which servers there are.
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
    """Return what is in use besides one server of a person.

    :param person: name of the user whose server it is.
    :param servers: of everybody.
    :param excluding: name of the server that is asked about: what it holds from before, it need not get again.
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
"""What is a short word for something else."""
_AMOUNTS = frozenset({"limits.cpu", "requests.cpu", "limits.memory", "requests.memory"})
_REQUESTS = "requests."
_NOT_BEST_EFFORT = "NotBestEffort"
"""Scope of pods that request something, or limit it: what counts amounts of such pods alone counts them all."""


def read_remaining_quota(raw: object) -> RemainingQuota | None:
    """Return what the least of a namespace's quotas leaves; None where none counts what servers take.

    A quota for a part of all pods (those with a priority, or with a time limit) is left out: whether a server would be
    one of them is not known before it is made. Kubernetes itself refuses it then.

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
    used = as_dict(status.get("used"))  # a quota that was just made has no status yet
    for written, hard in as_dict(status.get("hard") or spec.get("hard")).items():
        name = _SHORT_NAMES.get(written, written)
        if not _is_counted(name) or (scopes and name == _PODS):
            continue
        most, taken = _parse_amount(name, hard), _parse_amount(name, used.get(written, 0))
        if most is not None and taken is not None:
            yield name, max(0, most - taken)


def _read_scopes(spec: Mapping[str, object]) -> set[str]:
    """Return which pods a quota is for; empty for all. An expression that is more than a name is a scope of its own."""
    listed = spec.get("scopes")
    named = (as_text(each) for each in listed) if isinstance(listed, list) else ()
    expressions = as_dicts(as_dict(spec.get("scopeSelector")).get("matchExpressions"))
    selected = (as_text(each.get("scopeName")) if each.get("operator") == "Exists" else "?" for each in expressions)
    return set(chain(named, selected))


def _is_counted(name: str) -> bool:
    """Tell whether servers take some of a resource: CPU, memory, pods, and extended resources by their requests."""
    if name in _AMOUNTS or name == _PODS:
        return True
    return name.startswith(_REQUESTS) and "/" in name


def _parse_amount(name: str, value: object) -> int | None:
    try:
        return parse_millis(value) if name.endswith(".cpu") else parse_whole_units(value)
    except QuantityError:
        return None
