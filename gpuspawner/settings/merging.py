"""Merges settings as Helm merges values files.

Helm merges mappings key by key; any other value of the later file replaces the earlier one. A null stays in the result
and removes the earlier value when the settings are parsed (https://helm.sh/docs/chart_template_guide/values_files/).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuspawner.core.errors import Problem, SettingsError

_DEEPEST = 12
"""Levels of nesting. Settings have six; the limit stops a mapping that contains itself through a YAML anchor."""


def merge_values(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with overrides merged into them; new keys come last.

    :param base: values with lower priority.
    :param overrides: values with higher priority.
    """
    merged = dict(base)
    for key, value in overrides.items():
        if isinstance(value, Mapping):
            existing = merged.get(key)
            merged[key] = merge_values(existing if isinstance(existing, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def diff_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the overrides that turn one mapping into another; a removed key is null.

    :param before: the values to start from.
    :param after: the values to reach with :func:`merge_values`.
    """
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
    """Return dicts and lists in place of other mappings and sequences, such as traitlets' ``Config``.

    :param value: settings.
    :param depth: levels of nesting that are allowed.
    :raises SettingsError: the settings are nested deeper than that.
    """
    if depth == 0:
        message = f"settings are nested more than {_DEEPEST} deep"
        raise SettingsError(Problem(field="", code="bad_value", message=message))
    if isinstance(value, Mapping):
        return {key: convert_to_plain(entry, depth=depth - 1) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [convert_to_plain(entry, depth=depth - 1) for entry in value]
    return value
