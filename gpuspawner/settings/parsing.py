"""Merges and validates the admin's settings.

Settings are merged as Helm merges values files: mappings key by key; any other value of the later file replaces the
earlier one (https://helm.sh/docs/chart_template_guide/values_files/). A null at a key that the settings define means
"not set". A null instead of an entry, such as an image, removes the entry that a settings file of lower priority adds.
A null at an unknown key stays, so that validation rejects the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.text.wording import quote, sanitize_name
from gpuspawner.core.value_types import list_keys
from gpuspawner.settings.accelerators import build_accelerator_table, load_builtin_accelerators
from gpuspawner.settings.checks import check_member_overrides, check_presets, check_settings
from gpuspawner.settings.models import SETTINGS, SettingsModel
from gpuspawner.settings.validation_errors import DottedPaths, explain_validation_errors

_DEEPEST = 40
"""Greatest allowed depth of nesting in settings. The limit is necessary because a mapping may contain itself. The
settings need seven levels, and a ``kubespawner_override`` with containers, affinity or volumes about ten more."""


_OVERRIDE = "kubespawner_override"


class _WholeValue(dict[str, Any]):
    """A mapping that :func:`merge_values` puts in place of the old value, without merging the two."""


def merge_values(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return Helm values with overrides merged into them; new keys come last."""
    merged = dict(base)
    for key, value in overrides.items():
        if isinstance(value, _WholeValue):
            merged[key] = dict(value)
        elif isinstance(value, Mapping):
            existing = merged.get(key)
            merged[key] = merge_values(existing if isinstance(existing, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def diff_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the overrides that turn one mapping into another; a removed key is null.

    If a ``kubespawner_override`` has changed, the result contains all of it, not only the changed keys. In an override,
    null may be the value of a trait, so null cannot also mean that a key was removed.

    :param before: the values to start from.
    :param after: the values to reach with :func:`merge_values`.
    """
    changed: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if key == _OVERRIDE and isinstance(value, Mapping):
            if repr(old) != repr(value):
                changed[key] = _WholeValue(value)
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            if inside := diff_values(old, value):
                changed[key] = inside
        elif key not in before or repr(old) != repr(value):  # != would miss a change from 1 to True.
            changed[key] = value
    return changed


def convert_to_plain(value: object, *, depth: int = _DEEPEST) -> object:
    """Return settings in which all mappings, such as traitlets' ``Config``, are dicts, and all tuples are lists.

    :param depth: greatest allowed depth of nesting.
    :raises SettingsError: the settings are nested more deeply.
    """
    if depth == 0:
        message = f"settings are nested more than {_DEEPEST} deep"
        raise SettingsError(Problem(field="", code="bad_value", message=message))
    if isinstance(value, Mapping):
        return {key: convert_to_plain(entry, depth=depth - 1) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [convert_to_plain(entry, depth=depth - 1) for entry in value]
    return value


def find_emptied_mappings(raw: object) -> Iterator[Problem]:
    """Yield a problem for each GPU type whose ``match``, and each policy rule whose ``gpus``, has only null values.

    Nulls remove entries. An empty ``match`` would match all nodes, and an empty ``gpus`` would allow no GPU type, even
    if the admin has written ``t4:`` (null in YAML) to allow one.

    :param raw: settings before nulls are dropped.
    """
    for slug, entry in _list_entries(raw, "gpus"):
        if label := _find_removed_key(entry.get("match")):
            message = (
                f"asks for no label, because null takes out {label}; name the values that are allowed, or set"
                " match itself to null for all nodes that have the resource"
            )
            yield Problem(field=f"gpus.{sanitize_name(slug)}.match", code="bad_value", message=message)
    policy = raw.get("policy") if isinstance(raw, Mapping) else None
    rules = [("default", policy.get("default"))] if isinstance(policy, Mapping) else []
    rules += [
        (f"{part}.{sanitize_name(name)}", rule)
        for part in ("groups", "users")
        for name, rule in _list_entries(policy, part)
    ]
    for place, rule in rules:
        if slug := _find_removed_key(rule.get("gpus") if isinstance(rule, Mapping) else None):
            shown = '"*"' if slug == "*" else slug
            message = f"names no GPU type, because null takes one out; to allow one write {shown}: {{}}"
            yield Problem(field=f"policy.{place}.gpus", code="bad_value", message=message)


def _list_entries(raw: object, section: str) -> Iterator[tuple[object, Mapping[str, Any]]]:
    entries = raw.get(section) if isinstance(raw, Mapping) else None
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        if isinstance(entry, Mapping):
            yield name, entry


def _find_removed_key(entries: object) -> str:
    """Return the first key of the mapping ``entries`` if all its values are null.

    The result is "" if any value is not null, or if ``entries`` is empty or not a mapping.
    """
    if not isinstance(entries, Mapping) or any(entry is not None for entry in entries.values()):
        return ""
    return sanitize_name(next(iter(entries), ""))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """Validated settings, and the values built from them.

    :param model: the settings as the admin wrote them.
    :param configured: the catalog that they describe, without what the hub later adds from the cluster's nodes.
    :param table: the built-in table of GPU models with the admin's changes.
    """

    model: SettingsModel
    configured: ConfiguredCatalog
    table: AcceleratorTable

    @classmethod
    def parse(cls, raw: Mapping[str, object]) -> Settings:
        """Return validated settings.

        :param raw: key of the settings (``images``, ``gpus``, …) → section as parsed from YAML; an empty section equals
            a missing one.
        :raises SettingsError: settings are wrong; the error has one problem for each wrong YAML path.
        """
        try:
            model = SETTINGS.validate_python(_drop_empty_values(convert_to_plain(raw)))
        except ValidationError as error:
            raise SettingsError(*explain_validation_errors(error.errors(include_url=False), SettingsModel)) from None
        # A catalog can be built only from settings that check_settings() accepts.
        if problems := check_settings(model, frozenset(load_builtin_accelerators())):
            raise SettingsError(*problems)
        table = build_accelerator_table(model.accelerators)
        configured = model.build_catalog(table)
        if problems := [*check_member_overrides(configured), *check_presets(configured)]:
            raise SettingsError(*problems)
        return cls(model=model, configured=configured, table=table)

    @property
    def changed(self) -> frozenset[str]:
        """Keys of the settings that differ from their defaults."""
        defaults = SettingsModel()
        keys = list_keys(SettingsModel)
        return frozenset(key for key in keys if getattr(self.model, key) != getattr(defaults, key))


def _drop_empty_values(raw: object) -> object:
    if problems := list(find_emptied_mappings(raw)):
        raise SettingsError(*problems)
    if isinstance(raw, dict):
        return {key: value for key, value in raw.items() if key not in list_keys(SettingsModel) or value != {}}
    return raw


_MAX_ROUNDS = 12
"""How often settings are parsed to find all problems. There are four stages of checks, and each may need several rounds
until what depends on the removed parts is removed as well."""


_MAX_REMOVED = 100
"""Largest number of problems whose parts are removed. With more, the problems of one stage are enough."""


def find_all_problems(raw: Mapping[str, object], parse: Callable[[Mapping[str, object]], object]) -> list[Problem]:
    """Return the problems of settings from all stages of the checks, or [] if the settings are valid.

    A stage checks only settings that the stage before accepts. To find the problems of later stages as well, the
    function parses the settings again without the wrong parts. It leaves out problems that only follow from this.

    :param raw: the settings by key, as loaded from YAML.
    :param parse: parses settings, and raises a SettingsError with the problems of one stage.
    """
    problems: list[Problem] = []
    removed: list[str] = []
    rest: object = convert_to_plain(raw)
    for _ in range(_MAX_ROUNDS):
        try:
            parse(cast("Mapping[str, object]", rest))
        except SettingsError as error:
            problems += [problem for problem in error.problems if not _follows_from(problem, removed)]
            before = rest
            if len(error.problems) > _MAX_REMOVED:
                break
            for problem in error.problems:
                keys = _find_part(rest, problem.field)
                rest = _remove_key(rest, keys) if keys else rest
                removed += [problem.field, ".".join(map(str, keys))]
            if rest == before:
                break
        else:
            break
    return problems


def _follows_from(problem: Problem, removed: Iterable[str]) -> bool:
    """Return whether a problem may exist only because parts of the settings, with these paths, were removed."""
    return any(
        problem.field == path
        or path.startswith(f"{problem.field}.")
        or quote(path.rpartition(".")[2]) in problem.message
        or quote(path) in problem.message
        for path in filter(None, removed)
    )


def _find_part(raw: object, field: str) -> Sequence[str | int]:
    """Return the keys of the part of settings to remove for a problem; () for nothing.

    That is the part that the problem's ``field`` names. If this part is missing, or is an entry of a list, it is the
    whole mapping or list that should contain it.
    """
    keys, rest = DottedPaths(_list_parts).follow(field, raw)
    if len(keys) == 1 and "." in rest:
        return ()  # a section such as `gpus`, whose other entries may be right
    while keys and isinstance(keys[-1], int):
        keys = keys[:-1]
    return keys


def _remove_key(raw: object, keys: Sequence[str | int]) -> object:
    if not isinstance(raw, dict) or keys[0] not in raw:
        return raw
    first, *more = keys
    if more and not isinstance(raw[first], list):
        return {**raw, first: _remove_key(raw[first], more)}
    return {key: value for key, value in raw.items() if key != first}


def _list_parts(value: object) -> Iterator[tuple[str, str | int, object]]:
    if isinstance(value, Mapping):
        yield from ((sanitize_name(key), key, entry) for key, entry in value.items())
    elif isinstance(value, list):
        yield from ((str(place), place, entry) for place, entry in enumerate(value))
