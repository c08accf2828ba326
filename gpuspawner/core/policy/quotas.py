"""What ResourceQuotas leave for one more server, from the objects as the API server sends them.

https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from gpuspawner.core.policy.usage import RemainingQuota
from gpuspawner.core.rawjson import as_dict, as_dicts, as_text
from gpuspawner.core.units.quantity import QuantityError, parse_millis, parse_whole_units

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
