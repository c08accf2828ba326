"""What is said of one start while it lasts: found out once, told to any number of open pages.

Pages wait here and look at nothing themselves, so that a page costs what it is sent, and no more.

What is said of a start, as JupyterHub's page and API want it: one generator for each open page.

Texts that a site has set on KubeSpawner for this page keep their place: its patience message, and in newer versions the
words for an event and what is made of them.

Waits for the program of a server that runs: until it listens, JupyterHub asks it for an answer and looks at nothing.

A program that ends meanwhile, for want of memory for example, would be asked until JupyterHub's time for that is up.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any, Protocol
from urllib.parse import urlsplit

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.progress.model import Report
from gpuspawner.core.text.i18n import Language, get_language, ngettext, use_language
from gpuspawner.core.text.wording import join_sentences
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.spawner_protocol import UserServer
from gpuspawner.hub.start.cancellation import add_cancel_button


@dataclass(slots=True, eq=False)
class ProgressFeed:
    """One start of one server, from its request on.

    :param gpu: the type chosen, None until that is known and for a server without one.
    :param is_sent: its pod was sent to the API server, at least once.
    :param lacks_events: the hub may not read what is reported of its pod.
    :param former_pod: uid of a pod of the same name that is not this start's, empty for none.
    :param reports: what was said, in its order.
    :param percent: how far the bar is.
    :param is_over: nothing more will be said.
    :param clock: monotonic seconds.
    :param language: of whoever starts the server; a page that only looks on does not say its own.
    """

    clock: Callable[[], float] = time.monotonic
    gpu: GPUType | None = None
    is_sent: bool = False
    lacks_events: bool = False
    former_pod: str = ""
    reports: list[Report] = field(default_factory=list)
    percent: int = 0
    is_over: bool = False
    language: Language = field(default_factory=get_language)
    _began: float | None = None
    _news: asyncio.Future[None] | None = None

    def note_pod_sent(self, former: Mapping[str, object] | None) -> None:
        """Note that the pod is being sent, and which pod of its name is there already: that one will be removed."""
        self.is_sent = True
        self.former_pod = read_uid(former or {})

    def begin(self) -> None:
        """Count seconds from now on: the hub's own timer of the start begins now as well."""
        self._began = self.clock()
        self.language = get_language()

    @property
    def has_not_begun(self) -> bool:
        """Whether it has not begun: pages that are open already wait for it."""
        return self._began is None and not self.is_over

    @property
    def last(self) -> Report | None:
        """What was said last, None where nothing was."""
        return self.reports[-1] if self.reports else None

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began, 0 before."""
        return 0.0 if self._began is None else self.clock() - self._began

    def publish(self, reports: Iterable[Report], *, percent: int) -> None:
        """Tell everybody who waits, where there is something to tell."""
        before = len(self.reports), self.percent
        self.reports += reports
        self.percent = max(percent, self.percent)
        if (len(self.reports), self.percent) != before:
            self._wake()

    def close(self) -> None:
        """Let nobody wait any longer."""
        self.is_over = True
        self._wake()

    async def wait_for_news(self, *, timeout_s: float | None) -> None:
        """Wait until there is something new, or for some seconds."""
        if self.is_over:
            return
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._news], timeout=timeout_s)

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)


def read_uid(pod: Mapping[str, object]) -> str:
    """Return a pod's uid, empty where it has none."""
    return as_text(as_dict(pod.get("metadata")).get("uid"))


ProgressEvent = dict[str, Any]
"""What JupyterHub sends to the page: ``progress``, ``message``, ``html_message``, ``raw_event``."""


class ProgressSpawner(UserServer, Protocol):
    """A server and what its site has set for the page of a start; traits of newer KubeSpawners may be missing.

    :ivar start_timeout: seconds that JupyterHub gives the start.
    """

    start_timeout: float
    slow_spawn_message: str
    decorate_progress_message: Callable[..., Any] | None
    event_formatter_class: Callable[..., Any]

    def has_trait(self, name: str) -> bool:
        """Return whether the spawner has a trait."""

    def trait_defaults(self, name: str) -> Any:
        """Return a trait's default."""


async def stream_progress(spawner: ProgressSpawner, feed: ProgressFeed) -> AsyncGenerator[ProgressEvent]:
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

    def __init__(self, spawner: ProgressSpawner) -> None:
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


def _build_event(spawner: ProgressSpawner, report: Report) -> ProgressEvent:
    event = {"progress": report.percent, **_build_message(spawner, report.sentence)}
    if report.raw_event is None:
        return event
    return {**event, "raw_event": dict(report.raw_event), **_apply_site_formatter(spawner, report)}


def _build_message(spawner: ProgressSpawner, sentence: str) -> ProgressEvent:
    html = add_cancel_button(spawner, sentence)
    return {"message": sentence, "html_message": html} if html else {"message": sentence}


def _apply_site_formatter(spawner: ProgressSpawner, report: Report) -> ProgressEvent:
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
        spawner.log.exception("The site's words for an event of %s cannot be had", private_api.get_log_name(spawner))
        return {}


def _is_configured(spawner: ProgressSpawner, trait: str) -> bool:
    return spawner.has_trait(trait) and getattr(spawner, trait) not in (None, spawner.trait_defaults(trait))


def _find_site_formatter(spawner: ProgressSpawner) -> Any:
    made = getattr(spawner, "event_formatter", None)
    return spawner.event_formatter_class(parent=spawner) if made is None else made


LISTEN_POLL_S = 0.1
_CONNECT_S = 1.0


async def wait_until_listening(address: object, *, timeout_s: float) -> None:
    """Return once a program listens at a server's address, or where nobody can tell.

    :param address: what KubeSpawner's start returned.
    :param timeout_s: seconds to wait at most.
    """
    host, port = _parse_address(address)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, timeout_s)):
            while host and port and await _is_refused(host, port):  # noqa: ASYNC110  # a program elsewhere
                await asyncio.sleep(LISTEN_POLL_S)


async def _is_refused(host: str, port: int) -> bool:
    """Tell whether the pod can be reached, and no program listens there.

    What swallows the question, as network policies do, will not answer the next one either.
    """
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    writer.close()
    return False


def _parse_address(address: object) -> tuple[str, int]:
    try:
        parts = urlsplit(address if isinstance(address, str) else "")
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:
        return "", 0
    return host, port
