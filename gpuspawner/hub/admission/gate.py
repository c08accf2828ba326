"""The one gate that every choice passes, whichever way it came: form, link, REST API, or stored by the hub.

What comes out is all a start needs to know. Nothing is changed here, and nothing is asked of the cluster.

Tells whether a server without a GPU has room elsewhere than on a GPU node, as far as the admin's traits allow it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.cpu_room import has_room_on_cpu_node
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.policy.allowance import Allowance, admit_options
from gpuspawner.core.policy.rules import find_gpu_pools
from gpuspawner.core.policy.server_pods import POOLS_ANNOTATION
from gpuspawner.core.request.pod_requirements import PodRequirements, place
from gpuspawner.core.request.selection import Selection, build_options, validate
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.pod import overrides
from gpuspawner.hub.pod.trait_values import AdminValues, PodChoice

_PLACING_POD_FIELDS = frozenset(
    {"affinity", "nodeSelector", "node_selector", "nodeName", "node_name", "tolerations"}
    | {"resources", "overhead", "containers", "initContainers", "init_containers"}
)
"""Fields of ``extra_pod_config`` that have a say in where a pod fits; they are not interpreted here."""


def has_cpu_node_room(
    placement: PodRequirements, catalogue: Catalog, *, inventory: Inventory, base: AdminValues
) -> bool:
    """Tell whether the pod could run on a node without GPUs right now; False where that cannot be told.

    Only then may GPU nodes be ruled out altogether. An admin's node selector narrows what is looked at; an admin's
    required affinity is not interpreted here, and what pods need besides CPU and memory of the notebook's container is
    not counted, so with any of these the answer is False.
    """
    if base["node_affinity_required"] or _PLACING_POD_FIELDS & (base["extra_pod_config"] or {}).keys():
        return False
    if _needs_more(catalogue, base):
        return False
    selector = base["node_selector"] or {}
    nodes = [node for node in inventory.nodes or () if selector.items() <= dict(node.labels).items()]
    if not nodes:
        return False
    millis = placement.cpu_request_millis
    size = placement.memory_request_bytes
    return has_room_on_cpu_node(
        int((base["cpu_guarantee"] or base["cpu_limit"] or 0) * 1000) if millis is None else millis,
        (base["mem_guarantee"] or base["mem_limit"] or 0) if size is None else size,
        inventory=replace(inventory, nodes=tuple(nodes)),
        catalogue=catalogue,
        required=placement.required,
        tolerations=parse_admin_tolerations(base["tolerations"]),
    )


def _needs_more(catalogue: Catalog, base: AdminValues) -> bool:
    """Tell whether pods need something that is not counted; GPUs the admin gave them are taken away from them."""
    gpus = overrides.list_gpu_resources(catalogue)
    amounts = (base[f"extra_resource_{kind}"] for kind in ("limits", "guarantees"))
    if any(overrides.drop_gpu_resources(each, gpus) for each in amounts):
        return True
    others = (base[kind] for kind in ("extra_containers", "init_containers"))
    containers = [
        *(each for some in others for each in (some.values() if isinstance(some, dict) else some or [])),
        base["extra_container_config"] or {},
    ]
    # A container that asks for nothing needs nothing; zero-to-jupyterhub gives each pod such an init container.
    return any(
        container.get("resources") if isinstance(container, dict) else container.resources for container in containers
    )


def parse_admin_tolerations(admins: Any) -> tuple[Toleration, ...]:
    """Return an admin's tolerations as values; KubeSpawner takes a list of them or a dict."""
    entries = admins.values() if isinstance(admins, dict) else admins or []
    return tuple(
        Toleration(
            key=entry.get("key") or "",
            operator=entry.get("operator") or "Equal",
            value=entry.get("value") or "",
            effect=entry.get("effect") or "",
        )
        for entry in entries
        if isinstance(entry, dict)
    )


_OPEN_PROBLEMS = frozenset({("gpu", "unknown_choice"), ("cpu", "unknown_field"), ("memory", "unknown_field")})
"""Field and code of problems that the cluster's nodes may solve: they name GPU types, and bound CPU and memory.

Presets stand in the settings alone, so one that is not there is wrong whatever the cluster has.
"""


class UnreadClusterError(SelectionError):
    """A choice is wrong only as far as is known: the cluster's nodes, which cannot be read, may make it right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A choice that was let through.

    :param options: user options in the form they are stored in.
    :param choice: what the pod must carry.
    :param gpu: the GPU type, None for a server without one.
    :param gpu_count: how many of them.
    :param pools: slugs of the pools that the server counts towards.
    """

    options: dict[str, object]
    choice: PodChoice
    gpu: GPUType | None = None
    gpu_count: int = 0
    pools: tuple[str, ...] = ()


def admit_choice(options: object, offer: Offer, *, base: AdminValues, allowance: Allowance | None = None) -> Admission:
    """Check user options against what is offered, to whom it is offered, and say what they mean for the pod.

    :param options: any JSON value.
    :param base: the admin's values of the spawner's traits.
    :param allowance: what the person may have of the offer; None = all of it.
    :raises SelectionError: with one problem for each field that is wrong.
    :raises PolicyError: it is right, and not for this person, or not now.
    :raises UnreadClusterError: it cannot be told now.
    """
    allowance = allowance or Allowance(full_catalog=offer.catalogue, person=Person(name=""))
    selection = _validate(options, offer, allowance=allowance)
    catalogue = allowance.reachable_catalog
    placement = place(selection, catalogue)
    if selection.gpu is None and has_cpu_node_room(placement, catalogue, inventory=offer.inventory, base=base):
        placement = place(selection, catalogue, cpu_node_has_room=True)
    gpu = None if selection.gpu is None else offer.catalogue.gpus[selection.gpu]
    pools = find_gpu_pools(catalogue.policy, allowance.person, gpu=gpu)
    if catalogue.policy is not None and catalogue.policy.pools:
        placement = _annotate_pools(placement, pools)
    choice = PodChoice(placement=placement, resources=overrides.list_gpu_resources(offer.catalogue))
    return Admission(
        options=build_options(selection, catalogue),
        choice=choice,
        gpu=gpu,
        gpu_count=selection.gpu_count,
        pools=pools,
    )


def _annotate_pools(placement: PodRequirements, pools: Iterable[str]) -> PodRequirements:
    """Return a placement whose pod says which pools it counts towards, also that there are none."""
    return replace(placement, annotations={**placement.annotations, POOLS_ANNOTATION: ",".join(pools)})


def _validate(options: object, offer: Offer, *, allowance: Allowance) -> Selection:
    try:
        return admit_options(options, allowance)
    except SelectionError as error:
        if offer.unread_reason and (
            _list_problem_codes(error) & _OPEN_PROBLEMS or _is_count_open(error, options, offer=offer)
        ):
            raise UnreadClusterError(*error.problems) from error
        raise


def _is_count_open(error: SelectionError, options: object, *, offer: Offer) -> bool:
    """Tell whether a number of GPUs is too large only for a type whose largest number comes from the cluster."""
    too_large = ("gpu_count", "out_of_range")
    if too_large not in _list_problem_codes(error):
        return False
    try:
        validate(options, _remove_count_bounds(offer))
    except SelectionError as still:
        return too_large not in _list_problem_codes(still)
    return True


def _remove_count_bounds(offer: Offer) -> Catalog:
    gpus = {
        slug: replace(gpu, max_count=sys.maxsize) if slug in offer.uncounted else gpu
        for slug, gpu in offer.catalogue.gpus.items()
    }
    return replace(offer.catalogue, gpus=gpus)


def _list_problem_codes(error: SelectionError) -> set[tuple[str, str]]:
    return {(problem.field, problem.code) for problem in error.problems}
