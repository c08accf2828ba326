"""Checks the settings when JupyterHub starts, and stops the hub if they are invalid. Provides ``configure()``.

JupyterHub creates spawners only when users log in, which is too late to report an invalid key to the admin. JupyterHub
imports ``spawner_class`` while it reads its configuration. The import registers a check, which runs when JupyterHub has
read its configuration.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

from jupyterhub.app import JupyterHub
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from gpuspawner._resources import data_dir
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.request.field_definitions import IMAGE
from gpuspawner.core.request.selection import OPTION_FIELDS
from gpuspawner.core.text.wording import quote
from gpuspawner.hub.config.traits import LINK_BEHAVIORS, SETTING_TRAITS, GPUSpawnerTraits
from gpuspawner.hub.form.home_page import HOME_PAGE_VARIABLE, HomePage
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.hub.request.languages import load_languages
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.endings import add_announcements
from gpuspawner.hub.start.waiting_page import PAGES_VARIABLE, WaitingPages
from gpuspawner.settings import Settings
from gpuspawner.settings.files import SettingsFile, attribute_problems, merge_settings_files, read_settings_files
from gpuspawner.settings.parsing import merge_values

CONFIG_SECTION = "GPUSpawner"

_SET_AFTER_CONFIG = ("cookie_secret", "session_factory")
"""Traits that JupyterHub sets after it has read its configuration. A change of one of them starts the check.

traitlets has no event that says that the whole configuration is read.

JupyterHub sets ``cookie_secret`` before it opens its database, unless the admin has configured this trait. JupyterHub
always sets ``session_factory``, but only after it has opened its database.
"""

_NOTHING: Mapping[str, Any] = {}

_watched: WeakSet[JupyterHub] = WeakSet()


def configure(c: Config, path_or_mapping: str | Path | Mapping[str, Any] = _NOTHING) -> None:
    """Make gpuspawner the hub's spawner; call this in a ``jupyterhub_config.py``.

    :param c: the configuration object in ``jupyterhub_config.py``.
    :param path_or_mapping: the settings as a mapping, as in the section ``GPUSpawner`` of Helm values; or the path of a
        YAML file with these settings, or of a folder of such files. Default: no settings.
    :raises SettingsError: the settings are invalid or unreadable; the error has one problem for each wrong key.
    """
    files, section = _read_given(path_or_mapping)
    for file in files:
        section = merge_values(section, file.content)
    c.JupyterHub.spawner_class = "gpuspawner.GPUSpawner"
    for name, value in section.items():
        c[CONFIG_SECTION][name] = value
    _check(c, given=files)


def _read_given(path_or_mapping: object) -> tuple[Sequence[SettingsFile], dict[str, Any]]:
    """Return the settings files and the mapping that the admin has passed to :func:`configure`; one of them is empty.

    :raises SettingsError: the argument is neither a path nor a mapping (for example None, from an unset environment
        variable), or the files are unreadable.
    """
    if isinstance(path_or_mapping, Mapping):
        return (), dict(path_or_mapping)
    if path_or_mapping != "" and isinstance(path_or_mapping, str | Path):
        return read_settings_files([str(path_or_mapping)], field=""), {}
    message = (
        "configure() takes the path of a YAML file or of a folder of them, or a mapping of settings, not"
        f" {quote(path_or_mapping)}. For several paths there is c.{CONFIG_SECTION}.settings_files."
    )
    raise SettingsError(Problem(field="", code="wrong_type", message=message))


def check_config(config: Mapping[str, Any], *, with_files: bool = True) -> None:
    """Check the gpuspawner settings in a configuration of JupyterHub.

    :param config: all sections of the configuration.
    :param with_files: whether to read ``settings_files``, which exist only in the hub's container.
    :raises SettingsError: the settings are invalid; the error has one problem for each wrong key.
    """
    _check(config, with_files=with_files)


def _check(config: Mapping[str, Any], *, with_files: bool = True, given: Sequence[SettingsFile] = ()) -> None:
    """Check the settings; raise a SettingsError whose problems name the files that set the wrong keys.

    If several files set a wrong key, the problem names the file with the highest precedence.

    :param given: the files that :func:`configure` has read, lowest precedence first.
    """
    merged = _merge_sections(config)
    unknown = [
        *_find_unknown_traits(_resolve_lazy_values(config.get(CONFIG_SECTION, {}))),
        *_find_unknown_language(merged.get("language", "")),
        *_find_unknown_links(merged.get("links", LINK_BEHAVIORS[0])),
        *_find_own_options(merged.get("extra_options", [])),
    ]
    problems = list(attribute_problems(SettingsError(*unknown), given).problems)
    try:
        _parse_settings(merged, with_files=with_files, given=given)
    except SettingsError as error:
        problems += error.problems
    if problems:
        raise SettingsError(*problems)


def watch_hub_config() -> None:
    """Register a check that runs once JupyterHub has read its configuration, and exits if the settings are invalid."""
    if not JupyterHub.initialized():
        return
    hub = JupyterHub.instance()
    if hub not in _watched:
        _watched.add(hub)
        hub.observe(lambda change: _check_or_exit(change.owner), names=_SET_AFTER_CONFIG)


def _check_or_exit(hub: JupyterHub) -> None:
    try:
        check_config(hub.config)
    except SettingsError as error:
        for problem in error.problems:
            place = f"hub.config.{CONFIG_SECTION}.{problem.field}" if problem.field else f"hub.config.{CONFIG_SECTION}"
            hub.log.critical("%s: %s", place, problem.message)
        hub.log.critical("The settings of gpuspawner are wrong, so the hub does not start.")
        # Raise SystemExit, not an Exception: for an Exception, traitlets would log a message that blames the trait
        # that JupyterHub is setting.
        raise SystemExit(1) from None
    hub.template_vars = {PAGES_VARIABLE: WaitingPages(), **add_announcements(hub.template_vars)}
    hub.template_paths = _add_template_folder(hub.template_paths, hubs=str(Path(hub.data_files_path) / "templates"))
    merged = _merge_sections(hub.config)
    _remember_files(merged, log=hub.log)
    hub.template_vars = {HOME_PAGE_VARIABLE: HomePage(), **hub.template_vars}


def _add_template_folder(paths: Sequence[str], *, hubs: str) -> list[str]:
    """Return JupyterHub's template folders with gpuspawner's own pages after the admin's folders.

    JupyterHub uses the first template of a name. So a template of the admin replaces gpuspawner's template of the same
    name, which replaces JupyterHub's.

    :param paths: value of ``JupyterHub.template_paths``.
    :param hubs: folder of JupyterHub's own templates, which JupyterHub appends if ``paths`` lacks it.
    """
    own = str(data_dir("templates") / "hub")
    others = [path for path in paths if path != own]
    at = others.index(hubs) if hubs in others else len(others)
    return [*others[:at], own, *others[at:]]


def _merge_sections(config: Mapping[str, Any]) -> Config:
    """Return the merged sections of ``GPUSpawner`` and its base classes, such as ``c.KubeSpawner``.

    A value for the derived class overrides a value for its base class.
    """
    merged = Config()
    for name in GPUSpawner.section_names():
        merged.merge(_resolve_lazy_values(config.get(name, {})))
    return merged


def _parse_settings(merged: Config, *, with_files: bool = True, given: Sequence[SettingsFile] = ()) -> Settings:
    base = {name: merged[name] for name in SETTING_TRAITS if merged.get(name) is not None}
    paths = merged.get("settings_files", [])
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise SettingsError(Problem(field="settings_files", code="wrong_type", message="must be a list of paths"))
    return merge_settings_files(base, paths if with_files else (), parse=parse_settings, source=given)[1]


def _remember_files(merged: Config, *, log: logging.Logger) -> None:
    """Cache the valid settings from the files; the hub goes on using them if the files become invalid later."""
    paths = merged.get("settings_files")
    if paths:
        configured = {name: merged[name] for name in SETTING_TRAITS if name in merged}
        base = GPUSpawnerTraits(config=Config({GPUSpawnerTraits.__name__: configured})).collect_settings()
        GPUSpawner.settings_files_cache.get_settings(paths, base, parse=GPUSpawner.offer_factory.parse, log=log)


def _find_unknown_traits(section: Mapping[str, Any]) -> Iterable[Problem]:
    """Yield a problem for each key that is not a trait; traitlets would only log a warning and ignore the key."""
    known = GPUSpawner.class_trait_names(config=True)
    for name in section:
        if name not in known:
            # Search gpuspawner's settings first. Among KubeSpawner's hundred traits, one nearly always has a similar
            # name, which the admin did not mean.
            near = difflib.get_close_matches(name, SETTING_TRAITS, n=1) or difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" The settings are {', '.join(SETTING_TRAITS)}."
            yield Problem(field=name, code="unknown_key", message=f"there is no such setting.{hint}")


def _find_unknown_language(tag: object) -> Iterable[Problem]:
    if tag and str(tag).lower() not in load_languages():
        known = ", ".join(language.tag for language in load_languages().values())
        yield Problem(
            field="language", code="unknown_choice", message=f"there is no {tag!r}. The languages are {known}."
        )


def _find_unknown_links(value: object) -> Iterable[Problem]:
    if value not in LINK_BEHAVIORS:
        message = f"must be {' or '.join(LINK_BEHAVIORS)}, not {quote(value)}"
        yield Problem(field="links", code="unknown_choice", message=message)


def _find_own_options(names: object) -> Iterable[Problem]:
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        yield Problem(field="extra_options", code="wrong_type", message="must be a list of names")
        return
    for index, name in enumerate(names):
        if name in OPTION_FIELDS and name != IMAGE.name:
            message = f"must not be {name!r}, which is an option of gpuspawner"
            yield Problem(field=f"extra_options.{index}", code="conflict", message=message)


def _resolve_lazy_values(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section in which traitlets' lazy values, such as ``c.X.y.update(…)``, are replaced by their results."""
    return {
        name: value.get_value({}) if isinstance(value, LazyConfigValue) else value for name, value in section.items()
    }
