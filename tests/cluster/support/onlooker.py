"""A user who keeps an eye on one GPU type, through the form alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from tests.cluster.support.pages import visit


@dataclass(frozen=True, slots=True)
class Glance:
    """The statements of one form.

    :param details: the text under the counts.
    :param verdict: on one GPU of the type.
    """

    free: int | None
    total: int | None
    details: str
    outcome: str
    verdict: str

    @property
    def counts(self) -> tuple[int | None, int | None]:
        return self.free, self.total


class Onlooker:
    """One person at a form.

    :param url: address of the hub, without a slash at the end.
    :param choice: fields of the form, as a user would fill them in; its ``gpu`` is the watched type.
    """

    def __init__(self, url: str, name: str, *, choice: Mapping[str, str]) -> None:
        self._visitor = visit(url, name)
        self._choice = choice

    def look(self, path: str = "/hub/spawn") -> Glance:
        """Load the form anew."""
        page = self._visitor.get(path, choice=self._choice)
        slug = self._choice["gpu"]
        gpu, verdict = page.offered()[slug], page.island()["verdict"]
        return Glance(gpu["free"], gpu["total"], page.details(slug), verdict["outcome"], verdict["sentence"])

    @contextmanager
    def looking(self) -> Iterator[list[Glance]]:
        """Load the form again and again, in a thread, and collect what it says."""
        glances: list[Glance] = []
        is_over = threading.Event()

        def look_on() -> None:
            # A breath between two looks: the machine has few cores, and the race needs them.
            while not is_over.wait(0.05):
                glances.append(self.look())

        with ThreadPoolExecutor(1) as thread:
            watching = thread.submit(look_on)
            try:
                yield glances
            finally:
                is_over.set()
            watching.result()
