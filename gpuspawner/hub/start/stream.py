"""Broadcasts the progress of one start to all open pages, and waits until the server's port accepts connections.

The supervisor of a start publishes each report once, to a feed. Each open page reads the feed through its own
generator, which yields progress events in JupyterHub's format. The page also shows messages that the admin has set in
KubeSpawner: ``slow_spawn_message`` and, in newer versions, the messages of an event formatter and of a progress hook.

Each event has two descriptions of the start. gpuspawner's own page (``templates/hub/spawn_pending.html``) reads the
member ``gpuspawner``. JupyterHub's page, and clients of the REST API, read the messages.

The progress messages, which may be HTML, contain a cancel button:

- JupyterHub 5: on all progress pages, because the page itself has no button that stops a server.
- JupyterHub 6: only for named servers, because the page's own button stops the default server. gpuspawner hides
  that button there.

The page repeats each message in its log; gpuspawner hides the cancel button in this log.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from textwrap import dedent
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jupyterhub
from jupyterhub.utils import url_escape_path, url_path_join
from markupsafe import Markup

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.progress.model import Report, Stage
from gpuspawner.core.text.i18n import Language, get_language, gettext, use_language
from gpuspawner.core.text.wording import join_sentences
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.spawner_protocol import HubSpawner


class Alternative(NamedTuple):
    """Another choice that could start now, for a page of a server that waits.

    :param text: how the choice differs from the user's.
    :param url: link to the form that fills in the choice and starts nothing.
    """

    text: str
    url: str


@dataclass(slots=True, eq=False)
class ProgressFeed:
    """The progress of one start, which open pages read.

    :param gpu: the chosen GPU type; None before the hub has accepted the choice, and for a server without a GPU.
    :param lacks_events: whether the hub has no permission to read the pod's events.
    :param former_pod: uid of an earlier pod with the same name; empty for none.
    :param alternatives: other choices that could start now; empty if the server does not wait for room.
    :param is_over: whether the start has ended, so that no more reports follow.
    :param language: language of the user who starts the server, used on all pages.
    :param began_at: when the start began, if an earlier process of the hub began it; else None.
    """

    clock: Callable[[], float] = time.monotonic
    gpu: GPUType | None = None
    is_sent: bool = False
    lacks_events: bool = False
    former_pod: str = ""
    reports: list[Report] = field(default_factory=list)
    percent: int = 0
    alternatives: tuple[Alternative, ...] = ()
    is_over: bool = False
    language: Language = field(default_factory=get_language)
    began_at: datetime | None = None
    _began: float | None = None
    _resumed: float | None = None
    _news: asyncio.Future[None] | None = None
    _readers: int = 0
    _has_reader: asyncio.Event = field(default_factory=asyncio.Event)

    def note_pod_sent(self, former: Mapping[str, object] | None) -> None:
        """Record that the start sends its pod to the API server.

        :param former: JSON of an earlier pod with the same name, which KubeSpawner will delete; None if there is none.
        """
        self.is_sent = True
        self.former_pod = read_uid(former or {})

    def begin(self) -> None:
        """Begin to measure the duration of the start; call this when JupyterHub's ``start_timeout`` begins."""
        self._began = self.clock()
        self.language = get_language()

    def resume(self, began_at: datetime | None, *, elapsed_s: float) -> None:
        """Continue the feed of a start that an earlier process of the hub began.

        The earlier process has already sent the start's pod to the API server.

        :param began_at: when the start began, None if unknown.
        """
        self._resumed = self.clock()
        self._began = self._resumed - elapsed_s
        self.began_at = began_at
        self.is_sent = True

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier process of the hub began the start."""
        return self._resumed is not None

    @property
    def observed_s(self) -> float:
        """Seconds since the start began; for a resumed start, seconds since this process of the hub resumed it."""
        return self.elapsed_s if self._resumed is None else self.clock() - self._resumed

    @property
    def has_not_begun(self) -> bool:
        """Whether the start has not begun but still can; False if the start has ended without beginning."""
        return self._began is None and not self.is_over

    @property
    def last(self) -> Report | None:
        """The last report, or None before the first report."""
        return self.reports[-1] if self.reports else None

    @property
    def is_read(self) -> bool:
        """Whether a page reads the feed."""
        return self._has_reader.is_set()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start began, or 0 if it has not begun."""
        return 0.0 if self._began is None else self.clock() - self._began

    def publish(self, reports: Iterable[Report], *, percent: int) -> None:
        """Add reports, move the progress bar, and wake the waiting pages if anything has changed.

        :param percent: new position of the progress bar, which never moves back; smaller values have no effect.
        """
        before = len(self.reports), self.percent
        self.reports += reports
        self.percent = max(percent, self.percent)
        if (len(self.reports), self.percent) != before:
            self._wake()

    def suggest(self, alternatives: tuple[Alternative, ...]) -> None:
        """Replace the other choices that could start now, and wake the waiting pages if these have changed."""
        if alternatives != self.alternatives:
            self.alternatives = alternatives
            self._wake()

    def close(self) -> None:
        """Mark the start as over and wake the waiting pages."""
        self.is_over = True
        self._wake()

    async def wait_for_news(self, *, timeout_s: float | None) -> None:
        """Wait until a new report arrives, the progress bar moves, or the start is over."""
        if self.is_over:
            return
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._news], timeout=timeout_s)

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """Count a page as a reader of this feed while the ``with`` block runs."""
        self._readers += 1
        self._has_reader.set()
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._has_reader.clear()

    async def wait_for_reader(self, *, timeout_s: float) -> None:
        """Wait until at least one page reads the feed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._has_reader.wait()

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)


def read_uid(pod: Mapping[str, object]) -> str:
    """Return a pod's uid, or "" if the pod has none."""
    return as_text(as_dict(pod.get("metadata")).get("uid"))


ProgressEvent = dict[str, Any]
"""A progress event of JupyterHub. Its keys are some of ``progress``, ``message``, ``html_message``, ``raw_event``, and
``gpuspawner`` for gpuspawner's own page (:func:`build_status`).

Each event has a ``message``, like KubeSpawner's own events, because clients such as BinderHub require this key.
"""

PAGE_MEMBER = "gpuspawner"
"""Member of a progress event that gpuspawner's own page reads."""
_BAR_STEP = 5
"""Percentage points; if the bar has moved this far without a new message, the page gets the new position."""


async def stream_progress(spawner: HubSpawner, feed: ProgressFeed) -> AsyncGenerator[ProgressEvent]:
    """Yield progress events for one open page: all reports of a start, the past ones first, until the start is over."""
    reminder = _SlowStartReminder(spawner)
    seen, percent, shown = 0, 0, feed.alternatives
    with feed.read():
        # Look again after each event: while the page receives it, the feed may change.
        while True:
            if seen < len(feed.reports):
                report, seen = feed.reports[seen], seen + 1
                percent, shown = report.percent, feed.alternatives
                with use_language(feed.language):
                    event = _build_event(spawner, feed, report=report)
            elif feed.last is not None and (feed.percent >= percent + _BAR_STEP or feed.alternatives != shown):
                percent, shown = feed.percent, feed.alternatives
                with use_language(feed.language):
                    event = {"progress": percent, **_repeat_last(spawner, feed)}
            elif feed.is_over:
                return
            elif reminder.is_due(feed.elapsed_s):
                with use_language(feed.language):
                    event = _repeat_last(spawner, feed, note=reminder.text(feed.elapsed_s))
            else:
                await feed.wait_for_news(timeout_s=reminder.left_s(feed.elapsed_s))
                continue
            yield event


def build_status(feed: ProgressFeed, *, report: Report | None, timeout_s: float) -> dict[str, Any]:
    """Return what gpuspawner's page shows about a start, as JSON: the member ``gpuspawner`` of a progress event.

    - ``stage``, ``detail``, ``place``, ``is_alarm``: the report, in the current language and without times.
    - ``at``: when the report was made, in seconds since 1970 (UTC).
    - ``elapsed_s``, ``limit_s``: seconds since the start began, now, and until the hub gives up.
    - ``alternatives``: other choices that could start now, as ``[text, url]``.

    :param report: one of the feed's reports; None if there is none yet.
    :param timeout_s: seconds from the start's beginning until the hub gives up.
    """
    shown = report or Report(stage=Stage.CHECKING, sentence="", percent=0, since_s=feed.elapsed_s)
    at = datetime.now(UTC) - timedelta(seconds=max(0.0, feed.elapsed_s - shown.since_s))
    return {
        "stage": shown.stage.value,
        "detail": shown.detail or shown.sentence,
        "place": shown.place,
        "is_alarm": shown.is_alarm and not shown.lacks_room,
        "at": round(at.timestamp(), 1),
        "elapsed_s": round(feed.elapsed_s, 1),
        "limit_s": timeout_s,
        "alternatives": [list(each) for each in feed.alternatives],
    }


class _SlowStartReminder:
    """Tells when to show the admin's ``slow_spawn_message``; without one, none is ever due."""

    def __init__(self, spawner: HubSpawner) -> None:
        self._timeout_s = spawner.start_timeout
        # KubeSpawner 7.0 lacks slow_spawn_message, slow_spawn_message_frequency and slow_spawn_message_threshold.
        self._message = spawner.slow_spawn_message if _is_configured(spawner, "slow_spawn_message") else ""
        self._pause_s = max(1.0, float(getattr(spawner, "slow_spawn_message_frequency", 0)))
        first_s = float(getattr(spawner, "slow_spawn_message_threshold", 0))
        self._next_s = first_s if self._message and first_s else float("inf")

    def is_due(self, elapsed_s: float) -> bool:
        return elapsed_s >= self._next_s

    def left_s(self, elapsed_s: float) -> float | None:
        return None if self._next_s == float("inf") else max(0.0, self._next_s - elapsed_s)

    def text(self, elapsed_s: float) -> str:
        self._next_s = elapsed_s + self._pause_s
        # Fill in {seconds} and {timeout}, as newer versions of KubeSpawner do.
        return dedent(self._message).format(seconds=int(elapsed_s), timeout=self._timeout_s)


def _repeat_last(spawner: HubSpawner, feed: ProgressFeed, *, note: str = "") -> ProgressEvent:
    """Return an event with the last report, followed by a note if there is one."""
    last = feed.last
    status = build_status(feed, report=last, timeout_s=float(spawner.start_timeout))
    message = _build_message(spawner, join_sentences(last.sentence if last else "", note))
    return {**message, PAGE_MEMBER: {**status, "note": note} if note else status}


def _build_event(spawner: HubSpawner, feed: ProgressFeed, *, report: Report) -> ProgressEvent:
    status = build_status(feed, report=report, timeout_s=float(spawner.start_timeout))
    event = {"progress": report.percent, **_build_message(spawner, report.sentence), PAGE_MEMBER: status}
    if report.raw_event is None:
        return event
    own = _apply_site_formatter(spawner, report)
    if isinstance(own.get("message"), str):
        event[PAGE_MEMBER] = {**status, "detail": own["message"]}
    return {**event, "raw_event": dict(report.raw_event), **own}


def _build_message(spawner: HubSpawner, sentence: str) -> ProgressEvent:
    html = add_cancel_button(spawner, sentence)
    return {"message": sentence, "html_message": html} if html else {"message": sentence}


def _apply_site_formatter(spawner: HubSpawner, report: Report) -> ProgressEvent:
    """Return the fields that the admin's event formatter and progress hook give a progress event.

    Return an empty dict if the admin has configured neither, or if one of them raises an exception.
    """
    hook = spawner.decorate_progress_message if _is_configured(spawner, "decorate_progress_message") else None
    has_words = _is_configured(spawner, "event_formatter_class")
    if not has_words and hook is None:
        return {}
    event = {"involvedObject": {}, "type": "Normal", "message": report.sentence, **(report.raw_event or {})}
    try:
        text = _find_site_formatter(spawner).format_event(event) if has_words else report.sentence
        return {**_build_message(spawner, text), **(hook(spawner, event, text) if hook else {})}
    except Exception:  # log any exception: the admin's formatter or hook may raise one, which must not end the page
        spawner.log.exception("The site's words for an event of %s cannot be had", private_api.get_log_name(spawner))
        return {}


def _is_configured(spawner: HubSpawner, trait: str) -> bool:
    return spawner.has_trait(trait) and getattr(spawner, trait) not in (None, spawner.trait_defaults(trait))


def _find_site_formatter(spawner: HubSpawner) -> Any:
    made = getattr(spawner, "event_formatter", None)
    return spawner.event_formatter_class(parent=spawner) if made is None else made


_HAS_STOP_BUTTON = jupyterhub.version_info >= (6,)
"""Whether JupyterHub's progress page has a button that stops the default server."""

_HIDDEN = Markup("<style>#progress-log .gs-cancel,#stop-server-btn{display:none}</style>")
# After the DELETE, the button opens the user's home page: the progress page of a named server may answer 404.
_BUTTON = Markup(
    '<span class="gs-cancel"><br><button type="button" class="btn btn-danger btn-sm mt-2" value="{}" data-failed="{}"'
    " onclick=\"this.disabled=true;fetch(this.value+'?_xsrf='+jhdata.xsrf_token,{{method:'DELETE'}})"
    ".then(r=>{{if(!r.ok)throw r;location=jhdata.base_url+'home'}}).catch(()=>{{this.disabled=false;"
    "this.nextElementSibling.textContent=' '+this.dataset.failed}})\">{}</button>"
    '<span role="alert"></span></span>'
)


def add_cancel_button(spawner: HubSpawner, sentence: str) -> str:
    """Return a sentence as HTML with a cancel button, or "" if JupyterHub's own button stops the server."""
    if _HAS_STOP_BUTTON and not spawner.name:
        return ""
    failed = gettext("That did not work. Try again, or reload the page.")
    button = _BUTTON.format(build_api_path(spawner), failed, gettext("Cancel"))
    return str(Markup("{}{}{}").format(sentence, button, _HIDDEN))


def build_api_path(spawner: HubSpawner) -> str:
    """Return the path of a server in JupyterHub's REST API; a DELETE there stops the server."""
    server = ("servers", url_escape_path(spawner.name)) if spawner.name else ("server",)
    return str(url_path_join(spawner.hub.base_url, "api/users", spawner.user.escaped_name, *server))


LISTEN_POLL_S = 0.1
_CONNECT_S = 1.0


async def wait_until_listening(address: object, *, timeout_s: float) -> bool:
    """Wait until the server's port accepts connections, and return True.

    Return False after ``timeout_s``, or if the hub cannot reach the pod. While this function waits, gpuspawner can end
    the start if the server's container ends. JupyterHub itself would wait until ``http_timeout``.

    :param address: URL of the server, as KubeSpawner's ``start()`` returns it.
    """
    host, port = _parse_address(address)
    answer: bool | None = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, timeout_s)):
            while host and port and (answer := await _accepts_connections(host, port)) is False:  # noqa: ASYNC110
                await asyncio.sleep(LISTEN_POLL_S)
    return answer is True


async def _accepts_connections(host: str, port: int) -> bool | None:
    """Return True if a program in the pod listens on the port, False if none does yet, or None if the hub cannot tell.

    The result is None, for example, if a network policy drops packets.
    """
    try:
        async with asyncio.timeout(_CONNECT_S):
            # create_connection() takes half as long as asyncio.open_connection(), whose streams are not needed here.
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
    except ConnectionRefusedError:
        return False
    except OSError:
        return None
    transport.abort()
    return True


def _parse_address(address: object) -> tuple[str, int]:
    try:
        parts = urlsplit(address if isinstance(address, str) else "")
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:
        return "", 0
    return host, port
