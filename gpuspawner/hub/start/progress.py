"""What is said of a start, as JupyterHub's page and API want it: one generator for each open page.

Texts that a site has set on KubeSpawner for this page keep their place: its patience message, and in newer versions the
words for an event and what is made of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from textwrap import dedent
from typing import Any

from gpuspawner.core.progress.stages import Report
from gpuspawner.core.text.language import ngettext, use_language
from gpuspawner.core.text.sentences import join_sentences
from gpuspawner.hub.start.cancelling import add_cancel_button
from gpuspawner.hub.start.following import ProgressFeed

ProgressEvent = dict[str, Any]
"""What JupyterHub sends to the page: ``progress``, ``message``, ``html_message``, ``raw_event``."""


async def stream_progress(spawner: Any, feed: ProgressFeed) -> AsyncGenerator[ProgressEvent]:
    """Yield what was said so far, and what is said until the start is over.

    :param spawner: the server's.
    """
    patience = _SlowStartReminder(spawner)
    seen, percent = 0, 0
    while True:
        is_over = feed.is_over
        for report in feed.reports[seen:]:
            percent = report.percent
            with use_language(feed.language):
                event = _build_event(spawner, report)
            yield event
        seen = len(feed.reports)
        if feed.percent > percent:
            percent = feed.percent
            yield {"progress": percent}
        if is_over:
            return
        if patience.is_due(feed.elapsed_s):
            with use_language(feed.language):
                event = _build_message(
                    spawner, join_sentences(_find_last_sentence(feed), patience.text(feed.elapsed_s))
                )
            yield event
        await feed.wait_for_news(timeout_s=patience.left_s(feed.elapsed_s))


class _SlowStartReminder:
    """When a page is told again that it takes a while, with the words of the site where it has some.

    :param spawner: says after how many seconds and how often.
    """

    def __init__(self, spawner: Any) -> None:
        self._timeout_s = spawner.start_timeout
        # KubeSpawner 7.0 has none of the three.
        self._pause_s = max(1.0, float(getattr(spawner, "slow_spawn_message_frequency", 0)))
        self._next_s = float(getattr(spawner, "slow_spawn_message_threshold", 0)) or float("inf")
        self._own = spawner.slow_spawn_message if _is_configured(spawner, "slow_spawn_message") else ""

    def is_due(self, elapsed_s: float) -> bool:
        return elapsed_s >= self._next_s

    def left_s(self, elapsed_s: float) -> float | None:
        return None if self._next_s == float("inf") else max(0.0, self._next_s - elapsed_s)

    def text(self, elapsed_s: float) -> str:
        self._next_s = elapsed_s + self._pause_s
        if self._own:
            # Newer KubeSpawners fill in the timeout as well.
            return dedent(self._own).format(seconds=int(elapsed_s), timeout=self._timeout_s)
        return ngettext(
            "The start has taken {number} second so far.",
            "The start has taken {number} seconds so far.",
            number=int(elapsed_s),
        )


def _find_last_sentence(feed: ProgressFeed) -> str:
    return feed.last.sentence if feed.last else ""


def _build_event(spawner: Any, report: Report) -> ProgressEvent:
    event = {"progress": report.percent, **_build_message(spawner, report.sentence)}
    if report.raw_event is None:
        return event
    return {**event, "raw_event": dict(report.raw_event), **_apply_site_formatter(spawner, report)}


def _build_message(spawner: Any, sentence: str) -> ProgressEvent:
    html = add_cancel_button(spawner, sentence)
    return {"message": sentence, "html_message": html} if html else {"message": sentence}


def _apply_site_formatter(spawner: Any, report: Report) -> ProgressEvent:
    """Return what the site's own formatter and hook make of an event, as KubeSpawner after 7.1 has them.

    KubeSpawner has a formatter whether or not anybody asked for one, so only one that is configured counts.
    """
    hook = spawner.decorate_progress_message if _is_configured(spawner, "decorate_progress_message") else None
    has_words = _is_configured(spawner, "event_formatter_class")
    if not has_words and hook is None:
        return {}
    event = {"involvedObject": {}, "type": "Normal", "message": report.sentence, **(report.raw_event or {})}
    try:
        text = _find_site_formatter(spawner).format_event(event) if has_words else report.sentence
        return {**_build_message(spawner, text), **(hook(spawner, event, text) if hook else {})}
    except Exception:  # the site's code; ours is as good
        spawner.log.exception("The site's words for an event of %s cannot be had", spawner._log_name)
        return {}


def _is_configured(spawner: Any, trait: str) -> bool:
    return spawner.has_trait(trait) and getattr(spawner, trait) not in (None, spawner.trait_defaults(trait))


def _find_site_formatter(spawner: Any) -> Any:
    made = getattr(spawner, "event_formatter", None)
    return spawner.event_formatter_class(parent=spawner) if made is None else made
