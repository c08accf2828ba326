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
from gpuspawner.core.text.i18n import ENGLISH, use_language
from gpuspawner.hub.config.offer import ParsedSettings, make_settings_key
from gpuspawner.hub.trait_overrides import copy_nested
from gpuspawner.settings.files import compute_fingerprint, merge_settings_files
from gpuspawner.settings.merging import diff_values, merge_values

CHECK_INTERVAL_S = 1.0
_SETTLED_S = 1.0
"""Age of a change before it is read: an editor may be in the middle of writing, and half a file can be right YAML."""
_MAX_CACHED = 32
"""Different settings that are remembered; group overrides may give some users others than the rest."""

SettingsLogger = logging.Logger | logging.LoggerAdapter[Any]
ParseSettings = Callable[[Mapping[str, Any]], ParsedSettings]


class ReloadingSettings:
    """The settings of one hub: those of traits as they are configured, and files over them.

    :param paths: files and folders, the lowest first.
    :param base: what the traits say, for everybody.
    :param check_interval_s: seconds from one look at the files to the next.
    :param now: seconds since the epoch.
    :raises SettingsError: they are wrong; later on, the ones from before stay in use.
    """

    def __init__(
        self,
        paths: Sequence[str],
        base: Mapping[str, Any],
        *,
        parse: ParseSettings,
        log: SettingsLogger,
        check_interval_s: float = CHECK_INTERVAL_S,
        now: Callable[[], float] = lambda: datetime.now(UTC).timestamp(),
    ) -> None:
        self._paths, self._parse, self._log = tuple(paths), parse, log
        self._look_after_s, self._now = check_interval_s, now
        self._base: dict[str, Any] = copy_nested(dict(base))
        self._base_as_written = make_settings_key(self._base)
        self._own: dict[bytes | str, ParsedSettings] = {}
        self._problem = ""
        self._looked_at, (self._seen, _) = now(), compute_fingerprint(paths)
        self._merged, self._parsed = merge_settings_files(self._base, self._paths, parse=parse)
        self.read_at = now()

    @property
    def is_valid(self) -> bool:
        """Whether the files were right when they were last read."""
        return not self._problem

    def parse(self, raw: Mapping[str, Any]) -> ParsedSettings:
        """Return the settings of one spawner.

        :param raw: what its traits say. Where that is not what they are configured to be, somebody changed it for this
            person (a group override, a hook), which counts more than the files.
        :raises SettingsError: those changes are wrong.
        """
        self.reload_if_changed()
        as_written = make_settings_key(raw)
        if as_written == self._base_as_written:
            return self._parsed
        if as_written not in self._own:
            if len(self._own) >= _MAX_CACHED:
                self._own.clear()
            self._own[as_written] = self._parse(merge_values(self._merged, diff_values(self._base, raw)))
        return self._own[as_written]

    def reload_if_changed(self) -> None:
        """Read the files again if they have changed."""
        now = self._now()
        if 0 <= now - self._looked_at < self._look_after_s:
            return
        self._looked_at = now
        seen, youngest = compute_fingerprint(self._paths)
        if seen == self._seen or 0 <= now - youngest < _SETTLED_S:
            return
        read: tuple[dict[str, Any], ParsedSettings] | None = None
        problem = ""
        try:
            with use_language(ENGLISH):  # it is for the admin, whoever asked
                read = merge_settings_files(self._base, self._paths, parse=self._parse)
        except SettingsError as error:
            problem = str(error)
        if compute_fingerprint(self._paths)[0] != seen:
            return  # it went on changing: the next time
        self._seen, was_told, self._problem = seen, self._problem, problem
        if read is not None:
            self._replace(*read)
        elif problem != was_told:
            self._log.error("The settings stay as they were, because their files are wrong now: %s", problem)

    def _replace(self, merged: dict[str, Any], parsed: ParsedSettings) -> None:
        sections = ", ".join(diff_values(self._merged, merged)) or "nothing"
        self._log.info("The files of settings were read again. What changed: %s", sections)
        self._merged, self._parsed, self.read_at = merged, parsed, self._now()
        self._own.clear()


class SettingsFilesCache:
    """All settings with files that the hub's process has; mostly one.

    :param check_interval_s: seconds from one look at files to the next.
    """

    def __init__(self, *, check_interval_s: float = CHECK_INTERVAL_S) -> None:
        self._look_after_s = check_interval_s
        self._followed: OrderedDict[tuple[tuple[str, ...], bytes | str], ReloadingSettings] = OrderedDict()

    def __iter__(self) -> Iterator[ReloadingSettings]:
        """Iterate over those that there are."""
        return iter(tuple(self._followed.values()))

    def get_settings(
        self, paths: Sequence[str], base: Mapping[str, Any], *, parse: ParseSettings, log: SettingsLogger
    ) -> ReloadingSettings:
        """Return the settings of some files over some traits; whoever asks first has them read.

        :raises SettingsError: they are wrong, and have never been right.
        """
        key = (tuple(paths), make_settings_key(base))
        if key not in self._followed:
            self._followed[key] = ReloadingSettings(
                paths, base, parse=parse, log=log, check_interval_s=self._look_after_s
            )
        self._followed.move_to_end(key)
        if len(self._followed) > _MAX_CACHED:
            self._followed.popitem(last=False)
        return self._followed[key]
