"""Finds similar choices for a start that waits or has failed; a link to each opens the form with the choice filled in.

:func:`add_alternatives` adds the links to the error that ends a start. :class:`AlternativesFinder` offers them on the
page of a server that waits.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import cast

from markupsafe import Markup

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.fields import try_validate
from gpuspawner.core.form.wording import describe_difference
from gpuspawner.core.request.options import split_options
from gpuspawner.core.request.selection import Selection, build_options, validate
from gpuspawner.core.text.i18n import gettext, use_language
from gpuspawner.core.text.wording import join_sentences, join_with_or
from gpuspawner.core.verdict.alternatives import MAX_ALTERNATIVES
from gpuspawner.hub.admission.profiles import ProfileSupport
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.form.live import find_startable_alternatives
from gpuspawner.hub.form.profiles import shows_cards
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.request.context import build_prefill_url, build_profile_url
from gpuspawner.hub.start.observer import WorkThrottle
from gpuspawner.hub.start.state import StartingSpawner
from gpuspawner.hub.start.stream import Alternative, ProgressFeed

_IMAGE_REASONS = frozenset({"image_not_found", "image_pull_denied", "invalid_image"})
_MEMORY_REASONS = frozenset({"out_of_memory"})
_SETUP_REASONS = frozenset({"container_config", "crashed", "hook_failed", "refused_by_admission"})
"""Codes of start failures for which no other choice in the spawn form is likely to help; the error names none."""

_WAITING_PAUSE_S = 15.0
"""Minimum number of seconds between two searches for one waiting server."""
_waiting_throttle = WorkThrottle(0.05)
"""Limits the searches for all waiting servers to 5 % of the event loop's time."""
_throttle = WorkThrottle(0.2)
"""Limits the searches for similar choices to 20 % of the event loop's time, because each search checks all nodes."""


async def add_alternatives(refused: RefusedStart, spawner: StartingSpawner, *, patience_s: float = 1.0) -> RefusedStart:
    """Return the error with links to similar choices; each link opens the spawn form with that choice filled in.

    Return the error unchanged if no similar choice is found.

    :param patience_s: maximum number of seconds to wait for the searches of other starts. If the wait would be longer,
        return the error unchanged.
    """
    named = await _find_named_alternatives(spawner, refused.code, throttle=_throttle, patience_s=patience_s)
    if not named:
        return refused
    sentence = refused.jupyterhub_message
    advice = gettext("Try {choices} instead.", choices=join_with_or([text for text, _ in named]))
    links = Markup("<br>").join(Markup('<a href="{}">{}</a>').format(link, text) for text, link in named)
    html = Markup("{}<br>{}<br>{}").format(sentence, gettext("You could choose this instead:"), links)
    return RefusedStart(
        join_sentences(sentence, advice), reason=refused.code, status_code=refused.status_code, html=str(html)
    )


class AlternativesFinder:
    """Searches now and then for choices that could start now, while a server waits and an open page shows its progress.

    :param feed: the progress feed of the start, which gets the choices.
    """

    def __init__(self, spawner: StartingSpawner, feed: ProgressFeed) -> None:
        self.spawner = spawner
        self.feed = feed
        self._next_s = 0.0

    async def update(self) -> None:
        """Search if a search is due; withdraw the choices if the server does not wait for room any more."""
        last, now_s = self.feed.last, self.feed.elapsed_s
        if last is None or not last.lacks_room:
            self.feed.suggest(())
            return
        if not self.feed.is_read or now_s < self._next_s:
            return
        with use_language(self.feed.language):
            found = await _find_named_alternatives(self.spawner, "", throttle=_waiting_throttle, patience_s=0)
        if found is not None:
            self._next_s = now_s + _WAITING_PAUSE_S
            self.feed.suggest(tuple(found))


async def _find_named_alternatives(
    spawner: StartingSpawner, reason: str, *, throttle: WorkThrottle, patience_s: float
) -> list[Alternative] | None:
    """Return similar choices, best first; None if the search would have to wait for more than ``patience_s`` seconds.

    The list is empty if the search fails. For a profile, the choices are other profiles.
    """
    try:
        if spawner.starts_profile:
            return await _find_other_profiles(spawner, reason, throttle=throttle, patience_s=patience_s)
        offer = await spawner.make_offer()
        allowance = await spawner.admission.find_allowance(spawner, offer, is_start=True)
        own = split_options(spawner.user_options, spawner.extra_options).own
        selection, reach = validate(own, allowance.complete_catalog), allowance.catalog
        if reason in _SETUP_REASONS:
            return []
        if reason in _IMAGE_REASONS:
            choices = _find_other_images(selection, reach)
        elif reason in _MEMORY_REASONS:
            choices = _find_more_memory(selection, reach)
        elif await throttle.wait(patience_s=patience_s):
            with throttle.measure():
                choices = await find_startable_alternatives(spawner, offer, selection=selection, reach=reach)
        else:
            return None
    except SelectionError:
        # Add no links: the settings have changed and no longer contain the user's choice.
        return []
    except Exception:  # log any exception: a failed search must not hide the start's error from the user
        spawner.log.exception("Cannot find other choices for %s", private_api.get_log_name(spawner))
        return []
    catalog = offer.catalog
    return [
        Alternative(describe_difference(each, selection, catalog=catalog), build_prefill_url(spawner, each))
        for each in choices[:MAX_ALTERNATIVES]
    ]


async def _find_other_profiles(
    spawner: StartingSpawner, reason: str, *, throttle: WorkThrottle, patience_s: float
) -> list[Alternative] | None:
    own = cast("ProfileSupport", spawner)
    if reason in _SETUP_REASONS | _IMAGE_REASONS | _MEMORY_REASONS or not shows_cards(own):
        return []
    if not await throttle.wait(patience_s=patience_s):
        return None
    with throttle.measure():
        offer = await spawner.make_offer()
        allowance = await spawner.admission.find_allowance(spawner, offer, is_start=True)
        others = await own.cards.find_startable(own, offer=offer, allowance=allowance)
    return [Alternative(name, build_profile_url(spawner, slug)) for slug, name in others[:MAX_ALTERNATIVES]]


def _find_other_images(selection: Selection, catalog: Catalog) -> tuple[Selection, ...]:
    others = (
        _validate(replace(selection, image=slug, custom_image=None), catalog)
        for slug in catalog.images
        if slug != selection.image or selection.custom_image is not None
    )
    return tuple(islice(filter(None, others), MAX_ALTERNATIVES))


def _find_more_memory(selection: Selection, catalog: Catalog) -> tuple[Selection, ...]:
    bounds, amount = catalog.memory, selection.memory_bytes
    if bounds is None or amount is None:
        return ()
    doubled = bounds.min + (min(2 * amount, bounds.max) - bounds.min) // bounds.step * bounds.step
    more = replace(selection, memory_bytes=doubled)
    return (more,) if doubled > amount and _validate(more, catalog) else ()


def _validate(selection: Selection, catalog: Catalog) -> Selection | None:
    return try_validate(build_options(selection, catalog), catalog)
