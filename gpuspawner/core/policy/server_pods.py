"""Servers as their pods tell of them: whose each is, and the GPUs that it holds.

What a choice wrote on its pod is believed as far as it goes, and no further than what the pod asks for. A pod that was
started by another spawner, or before there were any rules, is told by what it asks for and where it runs.
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
"""Annotation of a server's pod: the pools that it counts towards, with commas between them; empty for none."""

_GPU_ANNOTATION = f"{ANNOTATION_PREFIX}gpu"
_GPU_COUNT_ANNOTATION = f"{ANNOTATION_PREFIX}gpu-count"
_OWNER_ANNOTATION = "hub.jupyter.org/username"
"""KubeSpawner's; the label of that name holds a slug, which does not always lead back to the name."""
_NAME_ANNOTATION = "hub.jupyter.org/servername"
_MAX_DIGITS = 6
"""Of a count; Python refuses to read a very long number."""
_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod holds nothing any more; one that is being deleted still does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPod:
    """What matters of the pod of a user's server.

    :param name: of a named server, empty for a user's default one.
    :param annotated_gpu: slug of the GPU type that was chosen, None where the pod does not say; so for
        ``annotated_count``.
    :param pools: slugs of the pools it counts towards, None where it does not say.
    :param devices: extended resource → number of units.
    :param node: name of the node it is bound to, empty while it waits.
    :param selector: labels that its node must have.
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
    """Return what matters of a v1 Pod, None when it has finished, or is no user's server.

    :param owned_by: names of its user and of its server, where the hub knows them; else the pod's own word counts.
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
    """Return the names of the user and of the server that a v1 Pod notes; both are empty where it notes no user."""
    notes = as_text_map(as_dict(as_dict(raw).get("metadata")).get("annotations"))
    owner = notes.get(_OWNER_ANNOTATION, "")
    return owner, notes.get(_NAME_ANNOTATION, "") if owner else ""


def build_server_usage(
    pod: ServerPod, catalogue: Catalog, *, labels: Mapping[str, str] | None, groups: Collection[str] | None
) -> ServerUsage:
    """Return the server that a pod stands for.

    :param labels: of the pod's node; None where they are not known.
    :param groups: of its owner, casefolded, for pods that do not say which pools they count towards; None where they
        could not be read: it counts towards all of them then.
    """
    resources = {gpu.resource for gpu in (*catalogue.gpus.values(), *catalogue.hidden)}
    held = {name: number for name, number in pod.devices.items() if name in resources or find_vendor(name)}
    # Of devices that are no GPUs by their name, the hub's own word says how many it took for GPUs.
    count = sum(held.values()) or min(pod.annotated_count, sum(pod.devices.values()))
    if not count:
        return ServerUsage(owner=pod.owner, name=pod.name)
    likely = _guess_types(pod, held, catalogue=catalogue, labels=labels)
    pools = pod.pools
    if pools is None:
        pools = _find_pools(catalogue.policy, groups, slugs=likely)
    return ServerUsage(
        owner=pod.owner, name=pod.name, gpu=likely[0] if len(likely) == 1 else "", count=count, pools=pools
    )


def is_known_type(catalogue: Catalog, slug: str) -> bool:
    """Tell whether there is a GPU type of a slug, offered or not; one that a pod notes may be gone since."""
    return slug in catalogue.gpus or any(gpu.slug == slug for gpu in catalogue.hidden)


def _parse_count(noted: str) -> int:
    is_number = len(noted) <= _MAX_DIGITS and noted.isascii() and noted.isdecimal()
    return int(noted) if is_number else 0


def _guess_types(
    pod: ServerPod, held: Collection[str], *, catalogue: Catalog, labels: Mapping[str, str] | None
) -> tuple[str, ...]:
    """Return the slugs of the types that a pod's GPUs may be of; more than one where it cannot be told."""
    if pod.annotated_gpu is not None and is_known_type(catalogue, pod.annotated_gpu):
        return (pod.annotated_gpu,)
    types = [gpu for gpu in (*catalogue.gpus.values(), *catalogue.hidden) if gpu.resource in held and not gpu.members]
    # A pod without a node says by its selector, if it says it at all, where it is going.
    there = [gpu for gpu in types if gpu.matches_labels(pod.selector if labels is None else labels)]
    return tuple(gpu.slug for gpu in there or types)


def _find_pools(policy: Policy | None, groups: Collection[str] | None, *, slugs: Collection[str]) -> tuple[str, ...]:
    """Return the pools of a person's server whose GPUs are of one of some types; none given = nobody can tell."""
    if policy is None:
        return ()
    return tuple(
        slug
        for slug, pool in policy.pools.items()
        if (not slugs or pool.covers_any(slugs)) and (groups is None or not pool.groups.isdisjoint(groups))
    )
