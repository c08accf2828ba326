"""The one gate that every choice passes, whichever way it came: form, link, REST API, or stored by the hub.

What comes out is all a start needs to know. Nothing is changed here, and nothing is asked of the cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuspawner.core.catalog.catalogue import Catalog, GPUType
from gpuspawner.core.catalog.policy_rules import Person
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.policy.allowance import Allowance, admit_options
from gpuspawner.core.policy.policy import find_gpu_pools
from gpuspawner.core.policy.server_pods import POOLS_ANNOTATION
from gpuspawner.core.request.placement import PodRequirements, place
from gpuspawner.core.request.selection import Selection, build_options, validate
from gpuspawner.hub.admission.room import has_cpu_node_room
from gpuspawner.hub.config.offers import Offer
from gpuspawner.hub.pod import gpu_resources
from gpuspawner.hub.pod.apply import AdminValues, PodChoice

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
    choice = PodChoice(placement=placement, resources=gpu_resources.list_gpu_resources(offer.catalogue))
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
