"""The one gate that every choice passes, whichever way it came: form, link, REST API, or stored by the hub.

What comes out is all a start needs to know. Nothing is changed here, and nothing is asked of the cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuspawner.core.catalog.catalogue import Catalogue, GPUType
from gpuspawner.core.catalog.policy_rules import Person
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.policy.allowance import Allowance, admitted
from gpuspawner.core.policy.policy import pools_for
from gpuspawner.core.policy.server_pods import POOLS
from gpuspawner.core.request.placement import Placement, place
from gpuspawner.core.request.selection import Selection, to_options, validate
from gpuspawner.hub.admission.room import has_room
from gpuspawner.hub.config.offers import Offer
from gpuspawner.hub.pod import gpu_resources
from gpuspawner.hub.pod.apply import AdminValues, Choice

_OPEN = frozenset({("gpu", "unknown_choice"), ("cpu", "unknown_field"), ("memory", "unknown_field")})
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
    choice: Choice
    gpu: GPUType | None = None
    gpu_count: int = 0
    pools: tuple[str, ...] = ()


def admit(options: object, offer: Offer, *, base: AdminValues, allowance: Allowance | None = None) -> Admission:
    """Check user options against what is offered, to whom it is offered, and say what they mean for the pod.

    :param options: any JSON value.
    :param base: the admin's values of the spawner's traits.
    :param allowance: what the person may have of the offer; None = all of it.
    :raises SelectionError: with one problem for each field that is wrong.
    :raises PolicyError: it is right, and not for this person, or not now.
    :raises UnreadClusterError: it cannot be told now.
    """
    allowance = allowance or Allowance(everything=offer.catalogue, person=Person(name=""))
    selection = _validated(options, offer, allowance=allowance)
    catalogue = allowance.reach
    placement = place(selection, catalogue)
    if selection.gpu is None and has_room(placement, catalogue, inventory=offer.inventory, base=base):
        placement = place(selection, catalogue, cpu_node_has_room=True)
    gpu = None if selection.gpu is None else offer.catalogue.gpus[selection.gpu]
    pools = pools_for(catalogue.policy, allowance.person, gpu=gpu)
    if catalogue.policy is not None and catalogue.policy.pools:
        placement = _annotated(placement, pools)
    choice = Choice(placement=placement, resources=gpu_resources.of_catalogue(offer.catalogue))
    return Admission(
        options=to_options(selection, catalogue),
        choice=choice,
        gpu=gpu,
        gpu_count=selection.gpu_count,
        pools=pools,
    )


def _annotated(placement: Placement, pools: Iterable[str]) -> Placement:
    """Return a placement whose pod says which pools it counts towards, also that there are none."""
    return replace(placement, annotations={**placement.annotations, POOLS: ",".join(pools)})


def _validated(options: object, offer: Offer, *, allowance: Allowance) -> Selection:
    try:
        return admitted(options, allowance)
    except SelectionError as error:
        if offer.unread and (_problems(error) & _OPEN or _is_count_open(error, options, offer=offer)):
            raise UnreadClusterError(*error.problems) from error
        raise


def _is_count_open(error: SelectionError, options: object, *, offer: Offer) -> bool:
    """Tell whether a number of GPUs is too large only for a type whose largest number comes from the cluster."""
    too_large = ("gpu_count", "out_of_range")
    if too_large not in _problems(error):
        return False
    try:
        validate(options, _unbounded(offer))
    except SelectionError as still:
        return too_large not in _problems(still)
    return True


def _unbounded(offer: Offer) -> Catalogue:
    gpus = {
        slug: replace(gpu, max_count=sys.maxsize) if slug in offer.uncounted else gpu
        for slug, gpu in offer.catalogue.gpus.items()
    }
    return replace(offer.catalogue, gpus=gpus)


def _problems(error: SelectionError) -> set[tuple[str, str]]:
    return {(problem.field, problem.code) for problem in error.problems}
