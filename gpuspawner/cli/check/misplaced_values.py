"""What is written where nobody reads it: sections in the wrong place, keys that are no trait, values of a wrong type.

JupyterHub itself only warns of such, in a log, and goes on without.

Whether a trait takes a value that a file says, and in words what it takes.

Values of zero-to-jupyterhub below one key, and more of them below another one that its chart never gets.
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

from gpuspawner.cli.common.findings import Finding, KeyPath, Severity, describe_type, format_path
from gpuspawner.cli.values.chart_config import BASE_CHART_KEYS, CHART_KEYS
from gpuspawner.cli.values.helm_values import CHART_NAME, HUB_CONFIG_PATH, SETTINGS_PATH, HelmValues
from gpuspawner.cli.values.trait_sources import find_trait_source
from gpuspawner.cli.values.yaml_reader import LocatedValue
from gpuspawner.core.text.quoting import quote
from gpuspawner.hub.config.traits import SETTING_TRAITS
from gpuspawner.hub.kubespawner.private_api import validate_trait_value
from gpuspawner.hub.spawner import GPUSpawner

_BYTE_TRAITS = "a number of bytes, or a text such as 4G (K, M, G or T, without an i)"


class _TraitHolder(HasTraits):
    """Whose value is checked: a trait asks for an object that it is a trait of."""


def describe_expected_type(trait: Any, value: Any) -> str:
    """Return what a trait takes where it does not take a value, else nothing."""
    if isinstance(trait, Type):
        # Validating it would import whatever module the file names.
        return "" if isinstance(value, str) and value else "the name of a class"
    if _accepts(trait, value):
        return ""
    # Of which traitlets only knows that an int comes of it.
    return _BYTE_TRAITS if isinstance(trait, ByteSpecification) else str(trait.info()).replace("dict", "mapping")


def is_number_or_bool(trait: Any) -> bool:
    """Tell whether a trait is a number or a yes or no, in whose place hardly anybody writes a secret."""
    return isinstance(trait, Int | Float | Bool)


def _accepts(trait: Any, value: Any) -> bool:
    try:
        validate_trait_value(trait, value, owner=_TraitHolder())
    except (TraitError, TypeError, ValueError, LookupError, ArithmeticError):
        return False
    return True


_CLASSES = {"GPUSpawner": GPUSpawner, "KubeSpawner": KubeSpawner, "Spawner": Spawner, "JupyterHub": JupyterHub}
_NEAR = 0.8
_DEEPEST = 5
_FREE = frozenset(
    [
        "custom",
        "extraConfig",
        "extraFiles",
        "services",
        "loadRoles",
        "extraImages",
        "extraEnv",
        "labels",
        "extraLabels",
        "annotations",
        "extraAnnotations",
        "nodeSelector",
        "limits",
        "guarantees",
    ]
)
"""Keys below which the chart lets admins name things as they like."""
_OWN_KEYS = frozenset(SETTING_TRAITS) | {"spawner_class", "capacity_timeout", "dry_run", "language", "settings_files"}
_THE_CHARTS = {"singleuser": frozenset({"cpu", "memory"})}
"""Keys of the chart that are called as settings are."""

_CHARTS_KEY = "singleuser"
_OF_MORE_THAN_VALUES = frozenset({"node_affinity_required", "node_affinity_preferred"})
"""Traits for which the chart adds something of its own; it is particular about these itself."""


def find_unread_keys(values: HelmValues) -> Iterator[Finding]:
    """Yield one error for each section and key that nothing reads."""
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
                f"installed. A subclass of {SETTINGS_PATH[-1]} reads "
                f"{format_path(SETTINGS_PATH)} as well, which is checked"
            )
            place = values.locate(path, of_key=True)
            yield Finding(
                severity=Severity.WARNING, code="unchecked", path=format_path(path), message=message, place=place
            )
        elif not _is_ours(name) and name not in _OWN_KEYS and name != _find_subclass(values):
            yield from _check_unknown_section(name, path=path, values=values)


def _check_unknown_section(name: str, *, path: KeyPath, values: HelmValues) -> Iterator[Finding]:
    """Yield that nothing is configured by a name; other classes than those known here may be."""
    alike = [cls for cls in _CLASSES if _normalize(cls) == _normalize(name)]
    near = alike or difflib.get_close_matches(name, _CLASSES, n=1, cutoff=_NEAR)
    if near or not name[:1].isupper():
        hint = f" Did you mean {quote(near[0])}?" if near else ""
        message = f"is no section of JupyterHub's configuration: these are called as their classes.{hint}"
        yield _make_error(values, path, code="unknown_key", message=message)


def _list_unchecked_settings(name: str, section: LocatedValue, *, values: HelmValues) -> list[str]:
    """Return the settings in a section of a spawner that is an admin's own, none where it is no such section."""
    is_spawners = name == _find_subclass(values) or (name.endswith("Spawner") and not _is_ours(name))
    return (
        [key for key in section.value if key in SETTING_TRAITS]
        if is_spawners and isinstance(section.value, dict)
        else []
    )


def _check_section(name: str, section: LocatedValue, *, path: KeyPath, values: HelmValues) -> Iterator[Finding]:
    if not isinstance(section.value, dict):
        message = f"must be a mapping, not {describe_type(section.plain)}"
        yield _make_error(values, path, code="wrong_type", message=message)
        return
    cls = _CLASSES[name]
    traits = {**cls.class_traits(config=True), **(GPUSpawner.class_traits(config=True) if name != "JupyterHub" else {})}
    for key, entry in section.value.items():
        if key in traits:
            if (
                key not in (*SETTING_TRAITS, "settings_files") or entry.value is None
            ):  # what settings may hold is checked as the hub does
                # Sections of others hold tokens and passwords, which no log of a pipeline is to repeat.
                shown = name == SETTINGS_PATH[-1] or isinstance(traits[key], ByteSpecification)
                yield from _check_type(traits[key], entry.plain, path=(*path, key), values=values, shown=shown)
        elif name != SETTINGS_PATH[-1] and not _is_ours(key):
            near = difflib.get_close_matches(key, traits, n=1)
            message = f"{name} has no such trait.{f' Did you mean {quote(near[0])}?' if near else ''}"
            yield _make_error(values, (*path, key), code="unknown_key", message=message)


def _check_chart_types(values: HelmValues) -> Iterator[Finding]:
    """Yield what the chart hands on to a trait that does not take it, so that no server could be made."""
    traits = GPUSpawner.class_traits(config=True)
    for name in {**CHART_KEYS, **BASE_CHART_KEYS}:
        said = find_trait_source(values, name)
        # What a nearer section says takes the chart's place, and is looked at there.
        if said is not None and said.path[len(values.root)] == _CHARTS_KEY and name not in _OF_MORE_THAN_VALUES:
            yield from _check_type(
                traits[name], said.value, path=said.path, values=values, shown=is_number_or_bool(traits[name])
            )


def _check_type(kind: Any, value: Any, *, path: KeyPath, values: HelmValues, shown: bool) -> Iterator[Finding]:
    """Yield that a value is not what a trait takes."""
    if wanted := describe_expected_type(kind, value):
        message = f"must be {wanted}, not {quote(value) if shown else describe_type(value)}"
        yield _make_error(values, path, code="wrong_type", message=message)


def _find_misplaced_sections(values: HelmValues) -> Iterator[Finding]:
    chart = values.find_value(values.root) if values.root else values.tree
    homes = {"gpuspawner": SETTINGS_PATH, "jupyterhub": (*HUB_CONFIG_PATH, "JupyterHub")}
    for path, entry in _iterate_mappings(chart, ()) if chart is not None else ():
        name = _normalize(str(path[-1]))
        home = homes.get(name) or (SETTINGS_PATH if _is_ours(str(path[-1])) else None)
        if home is None or path in (home, (*HUB_CONFIG_PATH, _find_subclass(values))):
            continue
        if name == "jupyterhub" and "spawner_class" not in entry.value:
            continue
        # Of a path that only differs in one key, that key is wrong.
        wrong = next((index for index, key in enumerate(path[: len(home)]) if key != home[index]), len(home))
        shown = path[: wrong + 1] if len(path) == len(home) else path
        message = f"is read by nobody here: this section belongs at {format_path(home)}"
        yield _make_error(values, (*values.root, *shown), code="misplaced", message=message)


def _iterate_mappings(written: LocatedValue, path: KeyPath) -> Iterator[tuple[KeyPath, LocatedValue]]:
    if not isinstance(written.value, dict) or path == SETTINGS_PATH or len(path) >= _DEEPEST:
        return
    for key, entry in written.value.items():
        if key not in _FREE and (isinstance(entry.value, dict) or (entry.value is None and _is_ours(key))):
            yield (*path, key), LocatedValue(value=entry.value or {}, place=entry.place, key=entry.key)
            yield from _iterate_mappings(entry, (*path, key))


def _find_misplaced_keys(values: HelmValues) -> Iterator[Finding]:
    """Yield settings that stand above their section, or beside it."""
    for place in ((), ("hub",), ("singleuser",), HUB_CONFIG_PATH, (*HUB_CONFIG_PATH, "JupyterHub")):
        own = _OWN_KEYS - _THE_CHARTS.get(place[-1] if place else "", frozenset())
        for key, value in values.get_chart_section(place).items():
            home = (*HUB_CONFIG_PATH, "JupyterHub") if key == "spawner_class" else SETTINGS_PATH
            if key not in own or place == home or not isinstance(value, Mapping | list | bool | int | float | str):
                continue
            message = f"is read by nobody here: it belongs at {format_path((*home, key))}"
            yield _make_error(values, (*values.root, *place, key), code="misplaced", message=message)


def _find_subclass(values: HelmValues) -> str | None:
    """Return the name of the spawner's class where it is an admin's own, which has a section of that name."""
    said = values.get_chart_section((*HUB_CONFIG_PATH, "JupyterHub")).get("spawner_class")
    module, _, name = said.rpartition(".") if isinstance(said, str) else ("", "", "")
    return name if module and module.partition(".")[0] not in ("gpuspawner", "kubespawner") else None


def _is_ours(key: str) -> bool:
    """Tell whether a key is meant to be the section's name."""
    name, own = _normalize(key), SETTINGS_PATH[-1].lower()
    return name == own or (
        name not in ("kubespawner", "spawner") and difflib.SequenceMatcher(None, name, own).ratio() > _NEAR
    )


def _normalize(key: str) -> str:
    return "".join(character for character in key.lower() if character.isalnum())


def _make_error(values: HelmValues, path: KeyPath, *, code: str, message: str) -> Finding:
    of_key = code != "wrong_type"
    return Finding(
        severity=Severity.ERROR,
        code=code,
        path=format_path(path),
        message=message,
        place=values.locate(path, of_key=of_key),
    )


_CHART_SECTIONS = ("hub", "singleuser")


def find_misplaced_values(values: HelmValues) -> Iterator[Finding]:
    """Yield the keys that hold values of the chart beside those that are looked at, or are to hold them.

    A chart around it may have the hub twice, under two names: that is legal, and only the first is looked at.
    """
    for depth in range(max(len(values.root), 1)):
        yield from _find_sibling_roots(values, values.root[:depth], root="".join(values.root[depth : depth + 1]))


def _find_sibling_roots(values: HelmValues, above: tuple[str, ...], *, root: str) -> Iterator[Finding]:
    """Yield those of one level.

    :param above: the keys of parent charts over it.
    :param root: the key that is looked at, empty where the chart's values are not below one.
    """
    for key, value in values.get_section(above).items():
        path = (*above, key)
        if key in (root, "custom") or (not root and key in _CHART_SECTIONS):
            continue
        if not isinstance(value, Mapping):
            yield from _check_root_value(values, path)
        elif key in _CHART_SECTIONS:
            message = (
                f"is read by nobody here: the chart's values are below {format_path(values.root)}, and so must this be"
            )
            yield _make_finding(values, path, severity=Severity.ERROR, message=message)
        elif _holds_the_chart(value):
            is_misspelt = key.lower() == (root or CHART_NAME).lower()
            known = f"those below {format_path(values.root)}" if root else "those at the top of the files"
            message = f"holds values of the chart as well, which are not looked at: {known} are. Is one misplaced?"
            severity = Severity.ERROR if is_misspelt else Severity.WARNING
            yield _make_finding(values, path, severity=severity, message=message)


def _check_root_value(values: HelmValues, path: tuple[str, ...]) -> Iterator[Finding]:
    """Yield that a key of a chart around it holds nothing that the chart could get."""
    before = len(path) == 1 and _holds_the_chart(values.lost.get(path[0], {}))
    if not before and path[-1].lower() != CHART_NAME:
        return
    value = values.get_section(path[:-1])[path[-1]]
    message = f"must be a mapping, not {describe_type(value)}: a chart around this one keeps its values below it"
    if value is None:
        message = "is null: the chart gets no values from below it"
    if before:
        message += ". What files before say there is taken away"
    code, severity = ("idle_null", Severity.WARNING) if value is None else ("wrong_type", Severity.ERROR)
    yield _make_finding(values, path, severity=severity, message=message, code=code)


def _holds_the_chart(value: Mapping[str, Any]) -> bool:
    hub = value.get(HUB_CONFIG_PATH[0])
    return (isinstance(hub, Mapping) and isinstance(hub.get(HUB_CONFIG_PATH[1]), Mapping)) or isinstance(
        value.get("singleuser"), Mapping
    )


def _make_finding(
    values: HelmValues, path: tuple[str, ...], *, severity: Severity, message: str, code: str = "misplaced"
) -> Finding:
    place = values.locate(path, of_key=True)
    return Finding(severity=severity, code=code, path=format_path(path), message=message, place=place)
