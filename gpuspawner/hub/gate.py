"""The one gate that every choice passes, whichever way it came: form, link, REST API, or stored by the hub.

What comes out is all a start needs to know. Nothing is changed here, and nothing is asked of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuspawner.core.placement import place
from gpuspawner.core.selection import to_options, validate
from gpuspawner.hub.apply import AdminValues, Choice
from gpuspawner.hub.offers import Offer
from gpuspawner.hub.room import has_room


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A choice that was let through.

    :param options: user options in the form they are stored in.
    :param choice: what the pod must carry.
    """

    options: dict[str, object]
    choice: Choice


def admit(options: object, offer: Offer, *, base: AdminValues) -> Admission:
    """Check user options against what is offered and say what they mean for the pod.

    :param options: any JSON value.
    :param base: the admin's values of the spawner's traits.
    :raises SelectionError: with one problem for each field that is wrong.
    """
    catalogue = offer.catalogue
    selection = validate(options, catalogue)
    placement = place(selection, catalogue)
    if selection.gpu is None and has_room(placement, catalogue, inventory=offer.inventory, base=base):
        placement = place(selection, catalogue, cpu_node_has_room=True)
    resources = frozenset(gpu.resource for gpu in catalogue.gpus.values())
    return Admission(options=to_options(selection, catalogue), choice=Choice(placement=placement, resources=resources))
