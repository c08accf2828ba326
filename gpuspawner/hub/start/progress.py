"""What is said of a start, as JupyterHub's page and API want it: one generator for each open page.

Texts that a site has set on KubeSpawner for this page keep their place: its patience message, and in newer versions the
words for an event and what is made of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from textwrap import dedent
from typing import Any

from gpuspawner.core.progress.stages import Report
from gpuspawner.core.text.language import ngettext, speaking
from gpuspawner.core.text.sentences import paragraph
from gpuspawner.hub.start.cancelling import with_cancel
from gpuspawner.hub.start.following import Following

Event = dict[str, Any]
"""What JupyterHub sends to the page: ``progress``, ``message``, ``html_message``, ``raw_event``."""


async def told(spawner: Any, following: Following) -> AsyncGenerator[Event]:
    """Yield what was said so far, and what is said until the start is over.

    :param spawner: the server's.
    """
    patience = _Patience(spawner)
    seen, percent = 0, 0
    while True:
        is_over = following.is_over
        for report in following.reports[seen:]:
            percent = report.percent
            with speaking(following.language):
                event = _event(spawner, report)
            yield event
        seen = len(following.reports)
        if following.percent > percent:
            percent = following.percent
            yield {"progress": percent}
        if is_over:
            return
        if patience.is_due(following.elapsed_s):
            with speaking(following.language):
                event = _message(spawner, paragraph(_last(following), patience.text(following.elapsed_s)))
            yield event
        await following.news(timeout_s=patience.left_s(following.elapsed_s))


class _Patience:
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


def _last(following: Following) -> str:
    return following.last.sentence if following.last else ""


def _event(spawner: Any, report: Report) -> Event:
    event = {"progress": report.percent, **_message(spawner, report.sentence)}
    if report.raw_event is None:
        return event
    return {**event, "raw_event": dict(report.raw_event), **_of_the_site(spawner, report)}


def _message(spawner: Any, sentence: str) -> Event:
    html = with_cancel(spawner, sentence)
    return {"message": sentence, "html_message": html} if html else {"message": sentence}


def _of_the_site(spawner: Any, report: Report) -> Event:
    """Return what the site's own formatter and hook make of an event, as KubeSpawner after 7.1 has them.

    KubeSpawner has a formatter whether or not anybody asked for one, so only one that is configured counts.
    """
    hook = spawner.decorate_progress_message if _is_configured(spawner, "decorate_progress_message") else None
    has_words = _is_configured(spawner, "event_formatter_class")
    if not has_words and hook is None:
        return {}
    event = {"involvedObject": {}, "type": "Normal", "message": report.sentence, **(report.raw_event or {})}
    try:
        text = _formatter(spawner).format_event(event) if has_words else report.sentence
        return {**_message(spawner, text), **(hook(spawner, event, text) if hook else {})}
    except Exception:  # the site's code; ours is as good
        spawner.log.exception("The site's words for an event of %s cannot be had", spawner._log_name)
        return {}


def _is_configured(spawner: Any, trait: str) -> bool:
    return spawner.has_trait(trait) and getattr(spawner, trait) not in (None, spawner.trait_defaults(trait))


def _formatter(spawner: Any) -> Any:
    made = getattr(spawner, "event_formatter", None)
    return spawner.event_formatter_class(parent=spawner) if made is None else made
