"""What is said of one start while it lasts: found out once, told to any number of open pages.

Pages wait here and look at nothing themselves, so that a page costs what it is sent, and no more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpuspawner.core.catalog.catalogue import GPUType
from gpuspawner.core.progress.stages import Report
from gpuspawner.core.rawjson import as_dict, as_text
from gpuspawner.core.text.language import Language, get_language


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
