"""A spawner that requests are sent to, one after the other, and the judgement of each answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from gpuspawner.hub.spawner import GPUSpawner
from tests.fuzz.support.doors import Answer, Door, TurnedAwayError
from tests.fuzz.support.judge import (
    UNLISTED,
    is_about_fields,
    misread,
    misshown,
    strange,
    strange_profile,
    unnamed,
)
from tests.fuzz.support.sites import Site
from tests.fuzz.support.tally import ACCEPTED, REFUSED, SHOWN, TURNED_AWAY, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """One site's spawner.

    :param runner: of the loop that everything here belongs to; it runs while a request is answered and no longer.
    :param plain: KubeSpawner's own pod of the same person.
    :param build_plain: builds KubeSpawner's own pod of the same person for the user options of a profile.
    """

    runner: asyncio.Runner
    site: Site
    spawner: GPUSpawner
    plain: dict[str, Any]
    build_plain: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    _plain_pods: dict[str, dict[str, Any]] = field(default_factory=dict)

    def ask(self, door: Door, sent: bytes, *, tally: Tally) -> list[str]:
        """Send one request, count it, and return what is wrong with the answer."""
        if tally.spares(sent):
            return []
        was_broken, tally.is_broken = tally.is_broken, True
        try:
            # A context of its own, as each request of tornado has.
            answer = self.runner.run(door(self.spawner, sent), context=copy_context())
            outcome, faults = _outcome(answer), list(self._faults(answer))
        except TurnedAwayError:
            outcome, faults = TURNED_AWAY, []
        tally.is_broken = was_broken or bool(faults)
        tally.note(sent, outcome)
        return faults

    def _faults(self, answer: Answer) -> Iterator[str]:
        if answer.pod is not None and is_about_fields(self.site, answer.fields, answer.options):
            yield from strange(answer.pod, self.site, plain=self.plain)
        elif answer.pod is not None:
            if answer.fields is not None:
                yield from misread(answer.options, answer.fields)
            yield from strange_profile(answer.pod, self.site, plain=self._plain_of(answer.options))
        if answer.refused is not None:
            yield from unnamed(answer.refused, answer.names)
        if answer.page:
            yield from misshown(answer.page, answer.refused if answer.is_sent_back else None)

    def _plain_of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return KubeSpawner's pod of a profile, which does not depend on options that the profile lacks."""
        slug = options.get("profile") or self.site.profiles[0]["slug"]
        profile = next(profile for profile in self.site.profiles if profile["slug"] == slug)
        names = [name for option in profile.get("profile_options", {}) for name in (option, f"{option}{UNLISTED}")]
        read = {name: options[name] for name in ("profile", *names) if name in options}
        key = json.dumps(read)
        if key not in self._plain_pods:
            self._plain_pods[key] = self.runner.run(self.build_plain(read))
        return self._plain_pods[key]


def _outcome(answer: Answer) -> str:
    if answer.refused is not None:
        return REFUSED
    return SHOWN if answer.pod is None else ACCEPTED
