"""Computes which GPUs servers use, and what a namespace's ResourceQuotas leave for one more server.

gpuspawner annotates pods with the chosen GPU type, the number of GPUs and the GPU pools (GPU limits shared by groups).
Pods of other spawners lack these annotations: :func:`~gpuspawner.core.catalog.pod_gpus.classify_pod` then tells the
type.

https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.catalog.pod_gpus import classify_pod
from gpuspawner.core.catalog.policy_model import Policy
from gpuspawner.core.cluster.decode_selectors import decode_node_affinity
from gpuspawner.core.cluster.model import NO_CONSTRAINTS, PodConstraints
from gpuspawner.core.cluster.pod_requests import compute_requests
from gpuspawner.core.json_access import as_dict, as_dicts, as_text, as_text_map
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
from gpuspawner.core.units.quantity import QuantityError, parse_millis, parse_whole_units


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUsage:
    """The GPUs of one server that has a pod or is being started.

    :param owner: name of the server's user.
    :param name: name of a named server; empty for the default server.
    :param gpu: slug of the GPU type, None without a GPU; empty if the type is unknown.
    :param count: number of GPUs that the server uses or waits for.
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

    :param left: resource → the smallest amount that a quota leaves: ``requests.nvidia.com/gpu`` and other extended
        resources in units, ``limits.cpu`` and ``requests.cpu`` in millicores, ``limits.memory`` and ``requests.memory``
        in bytes, ``pods`` as a number of pods. A missing resource has no limit.
    """

    left: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_no_pod_left(self) -> bool:
        """Whether the quotas leave no room for one more pod."""
        return self.left.get(_PODS, 1) < 1


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
    """Return what all servers use except the server that is about to start.

    :param person: name of the user whose server is about to start.
    :param servers: servers of all users.
    :param excluding: name of the server that is about to start; a pod of its earlier start is not counted.
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
"""Name of a resource in a ResourceQuota → another name with the same meaning, which this module uses instead."""
_AMOUNTS = frozenset({"limits.cpu", "requests.cpu", "limits.memory", "requests.memory"})
_REQUESTS = "requests."
_NOT_BEST_EFFORT = "NotBestEffort"
"""Scope that limits a quota to pods with requests or limits of CPU or memory.

Pods outside the scope request no CPU and no memory. Quotas of CPU or memory therefore count the same with this scope as
without it. This module ignores a quota of ``pods`` with this scope: it does not count all pods.
"""


def read_remaining_quota(raw: object) -> RemainingQuota | None:
    """Return what a namespace's ResourceQuotas leave, or None if none of them limits a resource that servers use.

    If several quotas limit the same resource, the result has the smallest amount that one of them leaves.

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

    The result has ``?``, an unknown scope, for a scope expression with an operator other than ``Exists``.
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


POOLS_ANNOTATION = f"{ANNOTATION_PREFIX}pools"
"""Annotation of a server's pod: slugs of its GPU pools (GPU limits shared by groups), comma-separated; may be empty."""

_GPU_ANNOTATION = f"{ANNOTATION_PREFIX}gpu"
_GPU_COUNT_ANNOTATION = f"{ANNOTATION_PREFIX}gpu-count"
_OWNER_ANNOTATION = "hub.jupyter.org/username"
"""KubeSpawner's annotation with the user name. The label of the same name has only a slug of the user name."""
_NAME_ANNOTATION = "hub.jupyter.org/servername"
_MAX_DIGITS = 6
"""Maximum number of digits of the GPU count in a pod's annotation.

A longer count is read as 0. Without a maximum, ``int()`` would raise an error for thousands of digits."""
_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod holds no resources; a pod that is being deleted still holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPod:
    """The parts of a server's pod that show which GPUs the server uses.

    :param owner: name of the server's user.
    :param name: name of a named server; empty for the default server.
    :param uid: UID of the pod.
    :param annotated_gpu: slug of the chosen GPU type, None without the annotation.
    :param annotated_count: chosen number of GPUs, 0 without the annotation.
    :param pools: slugs of the server's GPU pools, None without the annotation.
    :param devices: name of an extended resource → requested number.
    :param node: name of the pod's node; empty while the pod waits for one.
    :param constraints: the pod's node selector and required node affinity.
    """

    owner: str
    name: str
    uid: str
    annotated_gpu: str | None = None
    annotated_count: int = 0
    pools: tuple[str, ...] | None = None
    devices: Mapping[str, int] = field(default_factory=dict)
    node: str = ""
    constraints: PodConstraints = NO_CONSTRAINTS


def read_server_pod(raw: object, *, owned_by: tuple[str, str] | None = None) -> ServerPod | None:
    """Return a v1 Pod as a server's pod, or None if the pod has finished or belongs to no server.

    :param raw: the Pod as JSON.
    :param owned_by: names of the user and the server in the hub's database; None = read them from the annotations.
    """
    pod = as_dict(raw)
    metadata, spec, status = as_dict(pod.get("metadata")), as_dict(pod.get("spec")), as_dict(pod.get("status"))
    notes = as_text_map(metadata.get("annotations"))
    owner, name = owned_by or read_pod_owner(pod)
    if not owner or status.get("phase") in _FINISHED_PHASES:
        return None
    return ServerPod(
        owner=owner,
        name=name,
        uid=as_text(metadata.get("uid")),
        annotated_gpu=notes.get(_GPU_ANNOTATION),
        annotated_count=_parse_count(notes.get(_GPU_COUNT_ANNOTATION, "")),
        pools=tuple(filter(None, notes[POOLS_ANNOTATION].split(","))) if POOLS_ANNOTATION in notes else None,
        devices={name: number for name, number in compute_requests(spec, status).items() if "/" in name},
        node=as_text(spec.get("nodeName")),
        constraints=PodConstraints(
            node_selector=as_text_map(spec.get("nodeSelector")), node_terms=decode_node_affinity(spec)
        ),
    )


def read_pod_owner(raw: object) -> tuple[str, str]:
    """Return the names of the user and the server in a v1 Pod's annotations; without a user name, both are empty.

    :param raw: the Pod as JSON.
    """
    notes = as_text_map(as_dict(as_dict(raw).get("metadata")).get("annotations"))
    owner = notes.get(_OWNER_ANNOTATION, "")
    return owner, notes.get(_NAME_ANNOTATION, "") if owner else ""


def build_server_usage(
    pod: ServerPod, catalog: Catalog, *, labels: Mapping[str, str] | None, groups: Collection[str] | None
) -> ServerUsage:
    """Return which GPUs a server uses, derived from its pod.

    :param catalog: the catalog without any user's limits.
    :param labels: labels of the pod's node; None if unknown.
    :param groups: normalized groups of the pod's owner, for pods without the pools annotation. If the hub could not
        read the groups (None), the server counts towards the pools of all groups.
    """
    requested = classify_pod(pod.devices, catalog, constraints=pod.constraints, labels=labels)
    # If no requested resource is known to be a GPU, use the number of GPUs in the pod's annotation, but no more than
    # the pod requests of all extended resources.
    count = requested.count or min(pod.annotated_count, sum(pod.devices.values()))
    if not count:
        return ServerUsage(owner=pod.owner, name=pod.name)
    likely = () if requested.may_be_new else requested.types
    if pod.annotated_gpu is not None and is_known_type(catalog, pod.annotated_gpu):
        likely = (pod.annotated_gpu,)
    pools = pod.pools
    if pools is None:
        pools = _find_pools(catalog.policy, groups, slugs=likely)
    return ServerUsage(
        owner=pod.owner, name=pod.name, gpu=likely[0] if len(likely) == 1 else "", count=count, pools=pools
    )


def is_known_type(catalog: Catalog, slug: str) -> bool:
    """Return whether a catalog has a GPU type, even one that users cannot choose.

    :param catalog: the catalog without any user's limits.
    :param slug: slug of the type, for example from a pod's annotation.
    """
    return slug in catalog.gpus or any(gpu.slug == slug for gpu in catalog.hidden)


def _parse_count(noted: str) -> int:
    is_number = len(noted) <= _MAX_DIGITS and noted.isascii() and noted.isdecimal()
    return int(noted) if is_number else 0


def _find_pools(policy: Policy | None, groups: Collection[str] | None, *, slugs: Collection[str]) -> tuple[str, ...]:
    """Return the slugs of the GPU pools that a server counts towards.

    :param groups: groups of the server's user. If they are unknown (None), the result has the pools of all groups.
    :param slugs: the GPU types that the server may have. If they are unknown (empty), the result has the pools of all
        GPU types.
    """
    if policy is None:
        return ()
    return tuple(
        slug
        for slug, pool in policy.pools.items()
        if (not slugs or pool.covers_any(slugs)) and (groups is None or any(group in groups for group in pool.groups))
    )
