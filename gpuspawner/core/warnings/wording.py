"""Formats the warnings for admins about nodes, presets and settings, in English, for the form and the hub's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuspawner.core.text.wording import format_list, sanitize_name
from gpuspawner.core.warnings.nodes import AdminWarning, WarningKind

MAX_WARNINGS = 20
"""Maximum number of warnings that the form shows, or that the hub logs at once.

Without a maximum, unusual node labels could cause any number of warnings."""
MAX_WARNING_NAMES = 10
"""Largest number of nodes, presets or settings that one warning names."""
_MAX_NAME_LENGTH = 253
"""Largest number of characters of a node's name in Kubernetes."""


class WarningView(NamedTuple):
    """One warning for display.

    :param subject: names of the nodes, presets or settings that have the problem.
    :param sentence: the problem and its fix.
    """

    subject: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningsView:
    """Warnings for display: a summary, the first warnings, and the number of the others.

    :param summary: how many presets, nodes and settings have problems; a sentence without its period.
    :param flags: the first :data:`MAX_WARNINGS` warnings.
    :param more: a sentence with the number of warnings left out; empty if none is left out.
    """

    summary: str
    flags: tuple[WarningView, ...]
    more: str = ""


def build_warnings_view(warnings: Sequence[AdminWarning]) -> WarningsView | None:
    """Return warnings for display, or None if there are none.

    :param warnings: all warnings, in display order.
    """
    if not warnings:
        return None
    left_out = len(warnings) - MAX_WARNINGS
    return WarningsView(
        summary=_summarize_warnings(warnings),
        flags=tuple(WarningView(_format_subject(warning), warning.message) for warning in warnings[:MAX_WARNINGS]),
        more=f"And {left_out} more of this kind." if left_out > 0 else "",
    )


_SETTINGS_PROBLEMS = {
    WarningKind.POLICY: ("names a GPU type that is not there", "name GPU types that are not there"),
    WarningKind.DROPPED_GPUS: ("adds GPUs that no server gets", "add GPUs that no server gets"),
}
"""Kind of a warning about settings → how the summary continues after "1 setting", and after "2 settings"."""


def _summarize_warnings(warnings: Sequence[AdminWarning]) -> str:
    presets = len({name for warning in warnings for name in warning.presets})
    nodes = len({name for warning in warnings for name in warning.nodes})
    parts = []
    if presets:
        parts.append(f"{_format_count(presets, 'preset')} {'is' if presets == 1 else 'are'} not in the form")
    if nodes:
        parts.append(f"GPUs of {_format_count(nodes, 'node')} are not offered or do not work")
    for kind, (of_one, of_several) in _SETTINGS_PROBLEMS.items():
        settings = len({name for warning in warnings if warning.kind is kind for name in warning.settings})
        if settings:
            parts.append(f"{_format_count(settings, 'setting')} {of_one if settings == 1 else of_several}")
    return ", and ".join(parts)


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _format_subject(warning: AdminWarning) -> str:
    names = warning.names[:MAX_WARNING_NAMES]
    shown = [name[:_MAX_NAME_LENGTH] if name.isprintable() else sanitize_name(name) for name in names]
    named = format_list([*shown, *warning.names[MAX_WARNING_NAMES:]], max_items=MAX_WARNING_NAMES)
    if not warning.presets:
        return named
    return f"{'Preset' if len(warning.presets) == 1 else 'Presets'} {named}"
