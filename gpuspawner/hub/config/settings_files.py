"""Settings of traits with those of files over them, read again when the files change, without a restart of the hub.

Whoever asks for settings has the files looked at, at most once a second: a few calls of ``stat``. Where they changed,
all of them are read, and what is wrong with them leaves the settings as they were.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gpuspawner.core.errors import SettingsError
from gpuspawner.core.text.language import ENGLISH, speaking
from gpuspawner.hub.base import fresh
from gpuspawner.hub.config.offers import ParsedSettings, written
from gpuspawner.settings.files import fingerprint, put_over
from gpuspawner.settings.merging import changes, over

LOOK_AFTER_S = 1.0
_SETTLED_S = 1.0
"""Age of a change before it is read: an editor may be in the middle of writing, and half a file can be right YAML."""
_MOST = 32
"""Different settings that are remembered; group overrides may give some users others than the rest."""

Log = logging.Logger | logging.LoggerAdapter[Any]
Parse = Callable[[Mapping[str, Any]], ParsedSettings]


class FollowedSettings:
    """The settings of one hub: those of traits as they are configured, and files over them.

    :param paths: files and folders, the lowest first.
    :param base: what the traits say, for everybody.
    :param look_after_s: seconds from one look at the files to the next.
    :param now: seconds since the epoch.
    :raises SettingsError: they are wrong; later on, the ones from before stay in use.
    """

    def __init__(
        self,
        paths: Sequence[str],
        base: Mapping[str, Any],
        *,
        parse: Parse,
        log: Log,
        look_after_s: float = LOOK_AFTER_S,
        now: Callable[[], float] = lambda: datetime.now(UTC).timestamp(),
    ) -> None:
        self._paths, self._parse, self._log = tuple(paths), parse, log
        self._look_after_s, self._now = look_after_s, now
        self._base: dict[str, Any] = fresh(dict(base))
        self._base_as_written = written(self._base)
        self._own: dict[bytes | str, ParsedSettings] = {}
        self._problem = ""
        self._looked_at, (self._seen, _) = now(), fingerprint(paths)
        self._merged, self._parsed = put_over(self._base, self._paths, parse=parse)
        self.read_at = now()

    @property
    def is_good(self) -> bool:
        """Whether the files were right when they were last read."""
        return not self._problem

    def parse(self, raw: Mapping[str, Any]) -> ParsedSettings:
        """Return the settings of one spawner.

        :param raw: what its traits say. Where that is not what they are configured to be, somebody changed it for this
            person (a group override, a hook), which counts more than the files.
        :raises SettingsError: those changes are wrong.
        """
        self.look()
        as_written = written(raw)
        if as_written == self._base_as_written:
            return self._parsed
        if as_written not in self._own:
            if len(self._own) >= _MOST:
                self._own.clear()
            self._own[as_written] = self._parse(over(self._merged, changes(self._base, raw)))
        return self._own[as_written]

    def look(self) -> None:
        """Read the files again if they have changed."""
        now = self._now()
        if 0 <= now - self._looked_at < self._look_after_s:
            return
        self._looked_at = now
        seen, youngest = fingerprint(self._paths)
        if seen == self._seen or 0 <= now - youngest < _SETTLED_S:
            return
        read: tuple[dict[str, Any], ParsedSettings] | None = None
        problem = ""
        try:
            with speaking(ENGLISH):  # it is for the admin, whoever asked
                read = put_over(self._base, self._paths, parse=self._parse)
        except SettingsError as error:
            problem = str(error)
        if fingerprint(self._paths)[0] != seen:
            return  # it went on changing: the next time
        self._seen, was_told, self._problem = seen, self._problem, problem
        if read is not None:
            self._take(*read)
        elif problem != was_told:
            self._log.error("The settings stay as they were, because their files are wrong now: %s", problem)

    def _take(self, merged: dict[str, Any], parsed: ParsedSettings) -> None:
        sections = ", ".join(changes(self._merged, merged)) or "nothing"
        self._log.info("The files of settings were read again. What changed: %s", sections)
        self._merged, self._parsed, self.read_at = merged, parsed, self._now()
        self._own.clear()


class SettingsFiles:
    """All settings with files that the hub's process has; mostly one.

    :param look_after_s: seconds from one look at files to the next.
    """

    def __init__(self, *, look_after_s: float = LOOK_AFTER_S) -> None:
        self._look_after_s = look_after_s
        self._followed: OrderedDict[tuple[tuple[str, ...], bytes | str], FollowedSettings] = OrderedDict()

    def __iter__(self) -> Iterator[FollowedSettings]:
        """Iterate over those that there are."""
        return iter(tuple(self._followed.values()))

    def of(self, paths: Sequence[str], base: Mapping[str, Any], *, parse: Parse, log: Log) -> FollowedSettings:
        """Return the settings of some files over some traits; whoever asks first has them read.

        :raises SettingsError: they are wrong, and have never been right.
        """
        key = (tuple(paths), written(base))
        if key not in self._followed:
            self._followed[key] = FollowedSettings(paths, base, parse=parse, log=log, look_after_s=self._look_after_s)
        self._followed.move_to_end(key)
        if len(self._followed) > _MOST:
            self._followed.popitem(last=False)
        return self._followed[key]
