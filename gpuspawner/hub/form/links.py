"""Checks the link that opened a form, so that the form can ask whether to start the choice in the link."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TypedDict

from gpuspawner.core.errors import Problem, SelectionError
from gpuspawner.core.form.fields import FilledFields, list_form_fields
from gpuspawner.core.form.views import FactView
from gpuspawner.core.form.wording import list_facts
from gpuspawner.core.policy.admission import UnreadClusterError
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.field_definitions import GPU, GPU_COUNT, PRIORITY
from gpuspawner.core.request.options import LINK_FIELDS, parse_form, parse_query
from gpuspawner.core.request.selection import validate
from gpuspawner.core.text.i18n import gettext, gettext_lazy, ngettext
from gpuspawner.core.text.wording import format_list, sanitize_name
from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.config.traits import STARTS_FROM_LINKS
from gpuspawner.hub.metrics import registry
from gpuspawner.hub.request.context import LINK_PREFIX, FormDraft
from gpuspawner.hub.spawner_protocol import HubSpawner

_MAX_NAMES = 3
_NOT_LINKED = MappingProxyType(
    {
        "gpu": gettext_lazy("This link asks for a GPU that this hub doesn't have ({value}). Pick another."),
        "image": gettext_lazy("This link asks for an image that this hub doesn't have ({value}). Pick another."),
        "preset": gettext_lazy("This link asks for a preset that this hub doesn't have ({value}). Pick another."),
    }
)
"""Field → what the form says of a slug in a link that the hub does not offer."""
_NOT_OFFERED = MappingProxyType(
    {
        "gpu": gettext_lazy("This hub doesn't have the GPU {value}. Pick another."),
        "image": gettext_lazy("This hub doesn't have the image {value}. Pick another."),
        "preset": gettext_lazy("This hub doesn't have the preset {value}. Pick another."),
    }
)
"""The same for an address that fills in the form, whose user may have followed no link."""


class LinkAttributes(TypedDict):
    """Attributes of :class:`~gpuspawner.core.form.views.FormView` about links; see there."""

    link_prefix: str
    links_start: bool
    asked: str | None
    facts: tuple[FactView, ...]
    notes: tuple[str, ...]
    is_prefilled: bool


async def check_link(
    draft: FormDraft | None,
    spawner: HubSpawner,
    *,
    offer: Offer,
    allowance: Allowance,
    admission: AdmissionService,
) -> None:
    """Store the problems of the link that opened the form in the draft; do nothing without such a link.

    For a link that only fills in the form, check only whether the hub offers the choice: the form itself says what the
    user may not have now.

    :param draft: what the request sent; None if it sent nothing.
    :param admission: checks the link's choice; reserves nothing.
    """
    if draft is None or not draft.is_link or draft.problems or draft.profile:
        return  # the card of a profile shows whether it can start
    try:
        if draft.link is not None:
            await admission.admit(spawner, parse_query(draft.link), offer=offer, is_start=False)
        elif not offer.unread_reason:
            validate(parse_query({name: [text] for name, text in draft.typed.items()}), allowance.complete_catalog)
    except UnreadClusterError:
        pass  # The form says that the hub cannot read the cluster.
    except SelectionError as error:
        if draft.link is not None:
            registry.count_refusal(error.code)
        draft.problems = error.problems


def list_fixable_problems(
    draft: FormDraft | None, *, filled: FilledFields, allowance: Allowance
) -> tuple[Problem, ...]:
    """Return the problems of what the request sent; of a link's, only those that leave a wrong field in the form.

    :param draft: what the request sent, after :func:`check_link`; None if it sent nothing.
    """
    if draft is None or draft.profile:
        return ()  # the profile's card shows the problems
    if not _is_from_link(draft):
        return draft.problems
    wrong = _list_wrong_fields(filled, allowance)
    return tuple(_reword(problem, draft, allowance=allowance) for problem in draft.problems if problem.field in wrong)


def _is_from_link(draft: FormDraft) -> bool:
    return draft.is_link or bool(draft.ignored)


def _list_wrong_fields(filled: FilledFields, allowance: Allowance) -> set[str]:
    """Return the names of the form's fields that the user has to change before a start."""
    catalog = allowance.full_catalog if allowance.blocked else allowance.catalog
    names = list_form_fields(catalog)
    try:
        validate(parse_form({name: [text] for name, text in filled.values.items() if name in names}), catalog)
    except SelectionError as error:
        return names & {problem.field for problem in error.problems}
    return set()


def _reword(problem: Problem, draft: FormDraft, *, allowance: Allowance) -> Problem:
    """Return a problem in the user's words, without slugs."""
    return replace(problem, message=_explain(problem, draft, allowance=allowance) or problem.message)


def _explain(problem: Problem, draft: FormDraft, *, allowance: Allowance) -> str:
    """Return a problem in the user's words; "" if its own message is in these words."""
    name = problem.field
    value = sanitize_name(draft.typed.get(name, ""))
    if _is_repeated(name, draft):
        if name == GPU.name:
            return gettext("This link names two GPUs. Pick one.")
        return gettext("This link gives more than one value for a field ({name}). Check what the form has.", name=name)
    if name == GPU_COUNT.name and problem.code == "conflict":
        return gettext("This link gives a number of GPUs but no GPU. Pick a GPU.")
    if problem.code != "unknown_choice":
        return ""
    if name == PRIORITY.name and name not in list_form_fields(allowance.catalog):
        return gettext(
            "This link asks for a priority that this hub doesn't have ({value}). It is ignored.", value=value
        )
    texts = _NOT_OFFERED if draft.link is None else _NOT_LINKED
    return gettext(texts[name], value=value) if name in texts else ""


def _is_repeated(name: str, draft: FormDraft) -> bool:
    """Return whether a link gives different values for a field."""
    link = draft.link or {}
    texts = link.get(f"{LINK_PREFIX}{name}", link.get(name))
    return isinstance(texts, list) and len(set(texts)) > 1


def _list_notes(draft: FormDraft, *, filled: FilledFields, allowance: Allowance) -> tuple[str, ...]:
    """Return sentences about what a link asks for and the form has no field for."""
    ignored = [*map(sanitize_name, draft.ignored[:_MAX_NAMES]), *draft.ignored[_MAX_NAMES:]]
    unknown = ngettext(
        "This link has {number} field that this form doesn't know ({names}). It is ignored.",
        "This link has {number} fields that this form doesn't know ({names}). They are ignored.",
        number=len(draft.ignored),
        names=format_list(ignored, max_items=_MAX_NAMES),
    )
    fixable = {problem.field for problem in list_fixable_problems(draft, filled=filled, allowance=allowance)}
    others = [
        _reword(problem, draft, allowance=allowance)
        for problem in draft.problems
        if problem.field in ("", *LINK_FIELDS) and problem.field not in fixable
    ]
    return (*([unknown] if ignored else []), *(problem.message for problem in others))


def describe_links(
    links: str, draft: FormDraft | None, *, filled: FilledFields, allowance: Allowance
) -> LinkAttributes:
    """Return the attributes of the form's view about links.

    :param draft: what the request sent, after :func:`check_link`; None if it sent nothing.
    """
    profile = "" if draft is None else draft.profile
    asks = draft is not None and draft.link is not None and not draft.problems
    selection = filled.selection if asks and not profile else None
    return {
        "link_prefix": LINK_PREFIX,
        "links_start": links == STARTS_FROM_LINKS,
        # The form asks only about what it can show.
        "asked": profile if asks and profile else None if selection is None else "",
        "facts": () if selection is None else list_facts(selection, allowance),
        "notes": () if draft is None else _list_notes(draft, filled=filled, allowance=allowance),
        "is_prefilled": draft is not None and draft.is_link and links != STARTS_FROM_LINKS,
    }
