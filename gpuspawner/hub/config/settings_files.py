"""Merges settings files over the settings in the traits, and reloads changed files without a restart of the hub.

Whenever the hub uses the settings, it checks the files with ``stat``, but at most once a second. If changed files are
invalid, the hub keeps the previous settings.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gpuspawner.core.errors import SettingsError
from gpuspawner.core.text.i18n import ENGLISH, use_language
from gpuspawner.hub.config.offer import make_value_key
from gpuspawner.hub.trait_overrides import copy_nested
from gpuspawner.settings import Settings
from gpuspawner.settings.files import compute_fingerprint, merge_settings_files
from gpuspawner.settings.parsing import diff_values, merge_values

CHECK_INTERVAL_S = 1.0
_SETTLED_S = 1.0
"""Seconds that the hub waits after the last change of a file before it reads the file.

A program may still be writing the file, and a half-written file may be valid YAML."""
_MAX_CACHED = 32
"""Maximum number of entries in each cache. If ``group_overrides`` gives users different settings, each variant of the
settings needs an entry."""

SettingsLogger = logging.Logger | logging.LoggerAdapter[Any]
ParseSettings = Callable[[Mapping[str, Any]], Settings]


class ReloadingSettings:
    """The settings of one hub: the configured traits, overridden by the settings files.

    :param paths: files and folders, lowest priority first.
    :param base: settings in the configured traits, before group overrides and hooks change them for a user.
    :param parse: validates settings.
    :param log: logger for reloads and new problems.
    :param check_interval_s: seconds between two checks of the files.
    :param now: returns seconds since the epoch.
    :raises SettingsError: the settings are invalid at construction. A failed reload later only logs the problem.
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
        self._check_interval_s, self._now = check_interval_s, now
        self._base: dict[str, Any] = copy_nested(dict(base))
        self._base_key = make_value_key(self._base)
        self._per_spawner: dict[bytes | str, Settings] = {}
        self._problem = ""
        self._checked_at, (self._fingerprint, _) = now(), compute_fingerprint(paths)
        self._merged, self._parsed = merge_settings_files(self._base, self._paths, parse=parse)
        self.read_at = now()

    @property
    def is_valid(self) -> bool:
        """Whether the files were valid when they were last read."""
        return not self._problem

    def parse(self, raw: Mapping[str, Any]) -> Settings:
        """Return the settings of one spawner.

        A group override or a hook may have changed the spawner's traits for this user. These changes override the
        files; the files override all other values of the traits.

        :param raw: settings from the spawner's traits.
        :raises SettingsError: the settings with the user's changes are invalid.
        """
        self.reload_if_changed()
        key = make_value_key(raw)
        if key == self._base_key:
            return self._parsed
        if key not in self._per_spawner:
            if len(self._per_spawner) >= _MAX_CACHED:
                self._per_spawner.clear()
            self._per_spawner[key] = self._parse(merge_values(self._merged, diff_values(self._base, raw)))
        return self._per_spawner[key]

    def reload_if_changed(self) -> None:
        """Reload the files if they have changed."""
        now = self._now()
        if 0 <= now - self._checked_at < self._check_interval_s:
            return
        self._checked_at = now
        fingerprint, youngest = compute_fingerprint(self._paths)
        if fingerprint == self._fingerprint or 0 <= now - youngest < _SETTLED_S:
            return
        read: tuple[dict[str, Any], Settings] | None = None
        problem = ""
        try:
            with use_language(ENGLISH):  # errors are in English, because the admin reads them in the log
                read = merge_settings_files(self._base, self._paths, parse=self._parse)
        except SettingsError as error:
            problem = str(error)
        if compute_fingerprint(self._paths)[0] != fingerprint:
            return  # the files changed during reading; the next check reads them again
        self._fingerprint, previous_problem, self._problem = fingerprint, self._problem, problem
        if read is not None:
            self._replace(*read)
        elif problem != previous_problem:
            self._log.error("The settings stay as they were, because their files are wrong now: %s", problem)

    def _replace(self, merged: dict[str, Any], parsed: Settings) -> None:
        sections = ", ".join(diff_values(self._merged, merged)) or "nothing"
        self._log.info("The files of settings were read again. What changed: %s", sections)
        self._merged, self._parsed, self.read_at = merged, parsed, self._now()
        self._per_spawner.clear()


class SettingsFilesCache:
    """Caches one :class:`ReloadingSettings` for each combination of file paths and trait values.

    Usually there is only one combination.

    :param check_interval_s: seconds between two checks of the files.
    """

    def __init__(self, *, check_interval_s: float = CHECK_INTERVAL_S) -> None:
        self._check_interval_s = check_interval_s
        self._cache: OrderedDict[tuple[tuple[str, ...], bytes | str], ReloadingSettings] = OrderedDict()

    def __iter__(self) -> Iterator[ReloadingSettings]:
        """Iterate over the cached settings."""
        return iter(tuple(self._cache.values()))

    def get_settings(
        self, paths: Sequence[str], base: Mapping[str, Any], *, parse: ParseSettings, log: SettingsLogger
    ) -> ReloadingSettings:
        """Return the settings for file paths and trait values, from the cache if possible; otherwise read the files.

        :param paths: files and folders, lowest priority first.
        :param base: settings in the configured traits, before group overrides and hooks change them for a user.
        :raises SettingsError: the settings are invalid when the files are read for the first time.
        """
        key = (tuple(paths), make_value_key(base))
        if key not in self._cache:
            self._cache[key] = ReloadingSettings(
                paths, base, parse=parse, log=log, check_interval_s=self._check_interval_s
            )
        self._cache.move_to_end(key)
        if len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return self._cache[key]
