"""Finds values without effect: misplaced sections, keys that name no trait, values that a trait rejects.

JupyterHub at most logs a warning about a misplaced key. The other modules of ``check`` read only the values below
:attr:`HelmValues.root`, the path of zero-to-jupyterhub's values (such as ``jupyterhub``). This module also reports
values of zero-to-jupyterhub outside this path.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from jupyterhub.app import JupyterHub
from jupyterhub.spawner import Spawner
from jupyterhub.traitlets import ByteSpecification
from kubespawner import KubeSpawner
from traitlets import Bool, Float, HasTraits, Int, TraitError, Type

from gpuspawner.cli.common.findings import Finding, Severity, describe_type, format_path
from gpuspawner.cli.values.chart_config import BASE_CHART_KEYS, CHART_KEYS
from gpuspawner.cli.values.helm_values import CHART_NAME, HUB_CONFIG_PATH, SETTINGS_PATH, HelmValues
from gpuspawner.cli.values.trait_sources import find_trait_source, make_finding
from gpuspawner.cli.values.yaml_reader import LocatedValue
from gpuspawner.core.json_access import KeyPath
from gpuspawner.core.text.wording import quote
from gpuspawner.hub.config.traits import SETTING_TRAITS
from gpuspawner.hub.kubespawner.private_api import validate_trait_value
from gpuspawner.hub.spawner import GPUSpawner

_BYTE_TRAITS = "a number of bytes, or a text such as 4G (K, M, G or T, without an i)"
_CLASSES = {"GPUSpawner": GPUSpawner, "KubeSpawner": KubeSpawner, "Spawner": Spawner, "JupyterHub": JupyterHub}
_NEAR = 0.8
_MAX_DEPTH = 5
_FREE_KEYS = frozenset(
    {"custom", "extraConfig", "extraFiles", "services", "loadRoles", "extraImages", "extraEnv", "labels", "extraLabels"}
    | {"annotations", "extraAnnotations", "nodeSelector", "limits", "guarantees"}
)
"""Names of chart sections in which the admin may choose any key; the search for misplaced sections skips them."""
_OWN_KEYS = frozenset(SETTING_TRAITS) | {
    "spawner_class",
    "capacity_timeout",
    "dry_run",
    "language",
    "links",
    "settings_files",
}
_SHARED_KEYS = {"singleuser": frozenset({"cpu", "memory"})}
"""Section of zero-to-jupyterhub's values → chart keys in it that have the same name as a setting of gpuspawner.

:func:`_find_misplaced_keys` does not report such a key in this section, because the chart reads it.
"""
_UNCHECKED_TRAITS = frozenset({"node_affinity_required", "node_affinity_preferred"})
"""Traits that this module does not check, because :mod:`gpuspawner.cli.values.chart_config` checks their values."""
_CHART_SECTIONS = ("hub", "singleuser")


class _TraitHolder(HasTraits):
    """Dummy owner of a trait, because the validation methods of traitlets need an owner as an argument."""


def _describe_expected_type(trait: Any, value: Any) -> str:
    """Return in words the type that a trait requires, or "" if the trait accepts the value.

    :param trait: a traitlets ``TraitType``.
    """
    if isinstance(trait, Type):  # don't validate a trait of type Type: traitlets would import the class in the value
        return "" if isinstance(value, str) and value else "the name of a class"
    try:
        validate_trait_value(trait, value, owner=_TraitHolder())
    except (TraitError, TypeError, ValueError, LookupError, ArithmeticError):
        # Replace traitlets' description of a ByteSpecification ("an int"): the trait also accepts texts such as 4G.
        return _BYTE_TRAITS if isinstance(trait, ByteSpecification) else str(trait.info()).replace("dict", "mapping")
    return ""


def find_unread_keys(values: HelmValues) -> Iterator[Finding]:
    """Yield a finding for each section, key or value that neither JupyterHub nor the chart can use."""
    yield from _find_misplaced_sections(values)
    yield from _find_misplaced_keys(values)
    yield from _check_chart_types(values)
    config = values.find_value((*values.root, *HUB_CONFIG_PATH))
    if config is None or not isinstance(config.value, dict):
        return
    for name, section in config.value.items():
        path = (*values.root, *HUB_CONFIG_PATH, name)
        if name in _CLASSES:
            yield from _check_section(name, section, path=path, values=values)
        elif unchecked := _list_unchecked_settings(name, section, values=values):
            message = (
                f"is not checked ({', '.join(unchecked)}): what a class of your own takes is known where it is "
                f"installed. A subclass of {SETTINGS_PATH[-1]} reads {format_path(SETTINGS_PATH)} as well, which is "
                "checked"
            )
            yield make_finding(values, path, severity=Severity.WARNING, code="unchecked", message=message, of_key=True)
        elif not _resembles_gpuspawner(name) and name not in _OWN_KEYS and name != _find_subclass(values):
            yield from _check_unknown_section(name, path=path, values=values)


def _list_unchecked_settings(name: str, section: LocatedValue, *, values: HelmValues) -> list[str]:
    """Return the keys of gpuspawner's settings in a section if it configures the admin's own spawner class; else []."""
    is_spawner = name == _find_subclass(values) or (name.endswith("Spawner") and not _resembles_gpuspawner(name))
    settings = section.value if is_spawner and isinstance(section.value, dict) else {}
    return [key for key in settings if key in SETTING_TRAITS]


def _check_unknown_section(name: str, *, path: KeyPath, values: HelmValues) -> Iterator[Finding]:
    alike = [cls for cls in _CLASSES if _normalize(cls) == _normalize(name)]
    near = alike or difflib.get_close_matches(name, _CLASSES, n=1, cutoff=_NEAR)
    if near or not name[:1].isupper():
        hint = f" Did you mean {quote(near[0])}?" if near else ""
        message = f"is no section of JupyterHub's configuration: these are called as their classes.{hint}"
        yield _make_error(values, path, code="unknown_key", message=message)


def _check_section(name: str, section: LocatedValue, *, path: KeyPath, values: HelmValues) -> Iterator[Finding]:
    if not isinstance(section.value, dict):
        message = f"must be a mapping, not {describe_type(section.plain)}"
        yield _make_error(values, path, code="wrong_type", message=message)
        return
    is_own = name == SETTINGS_PATH[-1]
    traits = _CLASSES[name].class_traits(config=True)
    if name != "JupyterHub":
        traits = {**traits, **GPUSpawner.class_traits(config=True)}
    for key, entry in section.value.items():
        if key in traits:
            # The module settings_errors checks gpuspawner's settings, except those that are null.
            if key not in (*SETTING_TRAITS, "settings_files") or entry.value is None:
                shown = is_own or isinstance(traits[key], ByteSpecification)
                yield from _check_type(traits[key], entry.plain, path=(*path, key), values=values, shown=shown)
        elif not is_own and not _resembles_gpuspawner(key):
            near = difflib.get_close_matches(key, traits, n=1)
            message = f"{name} has no such trait.{f' Did you mean {quote(near[0])}?' if near else ''}"
            yield _make_error(values, (*path, key), code="unknown_key", message=message)


def _check_chart_types(values: HelmValues) -> Iterator[Finding]:
    """Yield an error for each chart value that KubeSpawner's trait rejects, such as text in ``startTimeout``."""
    traits = GPUSpawner.class_traits(config=True)
    for name in sorted({**CHART_KEYS, **BASE_CHART_KEYS}.keys() - _UNCHECKED_TRAITS):
        source = find_trait_source(values, name)
        # If hub.config sets the trait, that value replaces the chart's value, and _check_section checks it.
        if source is not None and source.path[len(values.root)] == "singleuser":
            trait = traits[name]
            is_shown = isinstance(trait, Int | Float | Bool)  # a number or boolean is no secret
            yield from _check_type(trait, source.value, path=source.path, values=values, shown=is_shown)


def _check_type(trait: Any, value: Any, *, path: KeyPath, values: HelmValues, shown: bool) -> Iterator[Finding]:
    if expected := _describe_expected_type(trait, value):
        message = f"must be {expected}, not {quote(value) if shown else describe_type(value)}"
        yield _make_error(values, path, code="wrong_type", message=message)


def _find_misplaced_sections(values: HelmValues) -> Iterator[Finding]:
    chart = values.find_value(values.root) if values.root else values.tree
    homes = {"gpuspawner": SETTINGS_PATH, "jupyterhub": (*HUB_CONFIG_PATH, "JupyterHub")}
    for path, entry in _iterate_mappings(chart, ()) if chart is not None else ():
        name = _normalize(str(path[-1]))
        home = homes.get(name) or (SETTINGS_PATH if _resembles_gpuspawner(str(path[-1])) else None)
        if home is None or path in (home, (*HUB_CONFIG_PATH, _find_subclass(values))):
            continue
        if name == "jupyterhub" and "spawner_class" not in entry.value:
            continue
        # If the path is as long as the right path, probably one key is misspelled: end the shown path with that key.
        wrong = next((index for index, key in enumerate(path[: len(home)]) if key != home[index]), len(home))
        shown = path[: wrong + 1] if len(path) == len(home) else path
        message = f"is ignored here; move this section to {format_path(home)}"
        yield _make_error(values, (*values.root, *shown), code="misplaced", message=message)


def _iterate_mappings(parent: LocatedValue, path: KeyPath) -> Iterator[tuple[KeyPath, LocatedValue]]:
    if not isinstance(parent.value, dict) or path == SETTINGS_PATH or len(path) >= _MAX_DEPTH:
        return
    for key, entry in parent.value.items():
        is_empty_section = entry.value is None and _resembles_gpuspawner(key)
        if key not in _FREE_KEYS and (isinstance(entry.value, dict) or is_empty_section):
            yield (*path, key), LocatedValue(value=entry.value or {}, place=entry.place, key=entry.key)
            yield from _iterate_mappings(entry, (*path, key))


def _find_misplaced_keys(values: HelmValues) -> Iterator[Finding]:
    for place in ((), ("hub",), ("singleuser",), HUB_CONFIG_PATH, (*HUB_CONFIG_PATH, "JupyterHub")):
        own = _OWN_KEYS - _SHARED_KEYS.get(place[-1] if place else "", frozenset())
        for key, value in values.get_chart_section(place).items():
            home = (*HUB_CONFIG_PATH, "JupyterHub") if key == "spawner_class" else SETTINGS_PATH
            if key in own and place != home and isinstance(value, Mapping | list | bool | int | float | str):
                message = f"is ignored here; move it to {format_path((*home, key))}"
                yield _make_error(values, (*values.root, *place, key), code="misplaced", message=message)


def _find_subclass(values: HelmValues) -> str | None:
    spawner = values.get_chart_section((*HUB_CONFIG_PATH, "JupyterHub")).get("spawner_class")
    module, _, name = spawner.rpartition(".") if isinstance(spawner, str) else ("", "", "")
    return name if module and module.partition(".")[0] not in ("gpuspawner", "kubespawner") else None


def _resembles_gpuspawner(key: str) -> bool:
    name, own = _normalize(key), SETTINGS_PATH[-1].lower()
    return name == own or (
        name not in ("kubespawner", "spawner") and difflib.SequenceMatcher(None, name, own).ratio() > _NEAR
    )


def _normalize(key: str) -> str:
    return "".join(character for character in key.lower() if character.isalnum())


def _make_error(values: HelmValues, path: KeyPath, *, code: str, message: str) -> Finding:
    return make_finding(values, path, severity=Severity.ERROR, code=code, message=message, of_key=code != "wrong_type")


def find_misplaced_values(values: HelmValues) -> Iterator[Finding]:
    """Yield a finding for each key outside the root that contains values of zero-to-jupyterhub's chart.

    The root is :attr:`HelmValues.root`, the path of the chart's values, such as ``jupyterhub``. The severity depends on
    the key:

    - ``hub`` or ``singleuser``: an error.
    - A key that differs from the root only in case, such as ``JupyterHub``: an error.
    - Any other key: a warning, because a parent chart may include zero-to-jupyterhub under two keys.
    """
    for depth in range(max(len(values.root), 1)):
        above, root = values.root[:depth], "".join(values.root[depth : depth + 1])
        for key, value in values.get_section(above).items():
            if key in (root, "custom") or not isinstance(value, Mapping) or (not root and key in _CHART_SECTIONS):
                continue
            if key in _CHART_SECTIONS:
                severity, message = (
                    Severity.ERROR,
                    f"is ignored here; move it below {format_path(values.root)}, where the chart's values are",
                )
            elif _holds_chart_values(value):
                severity = Severity.ERROR if key.lower() == (root or CHART_NAME).lower() else Severity.WARNING
                known = f"those below {format_path(values.root)}" if root else "those at the top of the files"
                message = (
                    f"has values of the chart that are not checked: only {known} are. Is one of the two misplaced?"
                )
            else:
                continue
            yield make_finding(values, (*above, key), severity=severity, code="misplaced", message=message, of_key=True)


def _holds_chart_values(value: Mapping[str, Any]) -> bool:
    hub = value.get("hub")
    has_config = isinstance(hub, Mapping) and isinstance(hub.get("config"), Mapping)
    return has_config or isinstance(value.get("singleuser"), Mapping)
