"""Puts settings over settings as Helm puts values files over each other.

Helm merges mappings key by key and takes everything else whole from the later file. A null stays in its place: it takes
out what a lower file says, and what reads the values takes it for nothing said
(https://helm.sh/docs/chart_template_guide/values_files/).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuspawner.core.errors import Problem, SettingsError

_DEEPEST = 12
"""Levels of nesting; settings have six, and a YAML anchor can make a mapping contain itself."""


def merge_values(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with others over them; a new key comes after those there are."""
    merged = dict(base)
    for key, value in overrides.items():
        if isinstance(value, Mapping):
            before = merged.get(key)
            merged[key] = merge_values(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def diff_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes some values of others when it is put over them; what is gone is null."""
    changed: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if inside := diff_values(old, value):
                changed[key] = inside
        elif key not in before or repr(old) != repr(value):  # True is not 1
            changed[key] = value
    return changed


def convert_to_plain(value: object, *, depth: int = _DEEPEST) -> object:
    """Return dicts and lists for whatever mappings and sequences a configuration system has.

    :raises SettingsError: they go deeper than settings can.
    """
    if depth == 0:
        message = f"settings are nested more than {_DEEPEST} deep"
        raise SettingsError(Problem(field="", code="bad_value", message=message))
    if isinstance(value, Mapping):
        return {key: convert_to_plain(entry, depth=depth - 1) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [convert_to_plain(entry, depth=depth - 1) for entry in value]
    return value
