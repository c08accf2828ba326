"""Checks the link that opened a form, so that the form can ask whether to start the choice in the link."""

from __future__ import annotations

from typing import TypedDict

from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.fields import FilledFields
from gpuspawner.core.policy.admission import UnreadClusterError
from gpuspawner.core.request.options import parse_query
from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.config.traits import STARTS_FROM_LINKS
from gpuspawner.hub.metrics import registry
from gpuspawner.hub.request.context import LINK_PREFIX, FormDraft
from gpuspawner.hub.spawner_protocol import AdmittedSpawner


class LinkAttributes(TypedDict):
    """Attributes of :class:`~gpuspawner.core.form.views.FormView` about links; see there."""

    link_prefix: str
    links_start: bool
    asked: str | None


async def check_link(
    draft: FormDraft | None, spawner: AdmittedSpawner, *, offer: Offer, admission: AdmissionService
) -> None:
    """Store the problems of the link that opened the form in the draft; do nothing without such a link.

    :param draft: what the request sent; None if it sent nothing.
    :param spawner: the user's spawner.
    :param offer: what the hub offers now.
    :param admission: checks the link's choice; reserves nothing.
    """
    if draft is None or draft.link is None:
        return
    try:
        await admission.admit(spawner, parse_query(draft.link), offer=offer, is_start=False)
    except UnreadClusterError:
        pass  # The form says that the hub cannot read the cluster.
    except SelectionError as error:
        registry.count_refusal(error.code)
        draft.problems = error.problems


def describe_links(links: str, draft: FormDraft | None, *, filled: FilledFields) -> LinkAttributes:
    """Return the attributes of the form's view about links.

    :param links: the setting ``links``.
    :param draft: what the request sent, after :func:`check_link`; None if it sent nothing.
    :param filled: the contents of the form's fields.
    """
    is_asked = draft is not None and draft.link is not None and not draft.problems
    asked = filled.picked_preset if filled.is_preset_sent else ""
    return {
        "link_prefix": LINK_PREFIX,
        "links_start": links == STARTS_FROM_LINKS,
        "asked": asked if is_asked else None,
    }
