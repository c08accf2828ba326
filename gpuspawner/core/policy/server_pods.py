"""Derives a server's owner and GPUs from its pod.

gpuspawner annotates pods with the chosen GPU type, count and pools. Pods of other spawners lack these annotations: the
GPU type is then derived from the pod's resource requests and the labels of its node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.policy_model import Policy
from gpuspawner.core.cluster.pod_requests import compute_requests
from gpuspawner.core.json_access import as_dict, as_text, as_text_map
from gpuspawner.core.policy.usage import ServerUsage
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX

POOLS_ANNOTATION = f"{ANNOTATION_PREFIX}pools"
"""Annotation of a server's pod: slugs of its GPU pools (GPU limits shared by groups), comma-separated; may be empty."""

_GPU_ANNOTATION = f"{ANNOTATION_PREFIX}gpu"
_GPU_COUNT_ANNOTATION = f"{ANNOTATION_PREFIX}gpu-count"
_OWNER_ANNOTATION = "hub.jupyter.org/username"
"""KubeSpawner's annotation with the user name. The label of the same name has only a slug of the user name."""
_NAME_ANNOTATION = "hub.jupyter.org/servername"
_MAX_DIGITS = 6
"""Largest number of digits of the GPU count in a pod's annotation.

A longer count is read as 0, because Python raises an error for numbers with thousands of digits."""
_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod holds no resources; a pod that is being deleted still holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPod:
    """The parts of a server's pod that show which GPUs it holds.

    :param owner: name of the server's user.
    :param name: name of a named server; empty for the default server.
    :param uid: UID of the pod.
    :param annotated_gpu: slug of the chosen GPU type, None without the annotation.
    :param annotated_count: chosen number of GPUs, 0 without the annotation.
    :param pools: slugs of the server's GPU pools, None without the annotation.
    :param devices: extended resource → requested units.
    :param node: name of the pod's node; empty while the pod waits for one.
    :param selector: the pod's ``nodeSelector``.
    """

    owner: str
    name: str
    uid: str
    annotated_gpu: str | None = None
    annotated_count: int = 0
    pools: tuple[str, ...] | None = None
    devices: Mapping[str, int] = field(default_factory=dict)
    node: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)


def read_server_pod(raw: object, *, owned_by: tuple[str, str] | None = None) -> ServerPod | None:
    """Return a v1 Pod as a server's pod, or None if it has finished or belongs to no server.

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
        selector=as_text_map(spec.get("nodeSelector")),
    )


def read_pod_owner(raw: object) -> tuple[str, str]:
    """Return the names of user and server in the annotations of a v1 Pod; without a user name, both are empty.

    :param raw: the Pod as JSON.
    """
    notes = as_text_map(as_dict(as_dict(raw).get("metadata")).get("annotations"))
    owner = notes.get(_OWNER_ANNOTATION, "")
    return owner, notes.get(_NAME_ANNOTATION, "") if owner else ""


def build_server_usage(
    pod: ServerPod, catalog: Catalog, *, labels: Mapping[str, str] | None, groups: Collection[str] | None
) -> ServerUsage:
    """Return which GPUs a server holds, derived from its pod.

    :param pod: the server's pod.
    :param catalog: the catalog without any user's limits.
    :param labels: labels of the pod's node; None if unknown.
    :param groups: normalized groups of the pod's owner, for pods without the pools annotation. If the hub could not
        read them (None), the server counts towards the pools of all groups.
    """
    resources = {gpu.resource for gpu in (*catalog.gpus.values(), *catalog.hidden)}
    held = {name: number for name, number in pod.devices.items() if name in resources or find_vendor(name)}
    # If no requested resource is known to be a GPU, count the GPUs in the annotation, but at most the requested units
    # of extended resources.
    count = sum(held.values()) or min(pod.annotated_count, sum(pod.devices.values()))
    if not count:
        return ServerUsage(owner=pod.owner, name=pod.name)
    likely = _guess_types(pod, held, catalog=catalog, labels=labels)
    pools = pod.pools
    if pools is None:
        pools = _find_pools(catalog.policy, groups, slugs=likely)
    return ServerUsage(
        owner=pod.owner, name=pod.name, gpu=likely[0] if len(likely) == 1 else "", count=count, pools=pools
    )


def is_known_type(catalog: Catalog, slug: str) -> bool:
    """Return whether a GPU type is in the catalog's ``gpus`` or ``hidden``; False for a type that the admin removed.

    :param catalog: the catalog without any user's limits.
    :param slug: slug of the type, for example from a pod's annotation.
    """
    return slug in catalog.gpus or any(gpu.slug == slug for gpu in catalog.hidden)


def _parse_count(noted: str) -> int:
    is_number = len(noted) <= _MAX_DIGITS and noted.isascii() and noted.isdecimal()
    return int(noted) if is_number else 0


def _guess_types(
    pod: ServerPod, held: Collection[str], *, catalog: Catalog, labels: Mapping[str, str] | None
) -> tuple[str, ...]:
    if pod.annotated_gpu is not None and is_known_type(catalog, pod.annotated_gpu):
        return (pod.annotated_gpu,)
    types = [gpu for gpu in (*catalog.gpus.values(), *catalog.hidden) if gpu.resource in held and not gpu.members]
    # If the node's labels are unknown, the labels in the pod's node selector may show the GPU type.
    there = [gpu for gpu in types if gpu.matches_labels(pod.selector if labels is None else labels)]
    return tuple(gpu.slug for gpu in there or types)


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
        if (not slugs or pool.covers_any(slugs)) and (groups is None or not pool.groups.isdisjoint(groups))
    )
