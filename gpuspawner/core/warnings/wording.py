"""What admins are told about GPUs and presets, in words: for the form and for the hub's log. Both are in English."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuspawner.core.text.quoting import format_list, sanitize_name
from gpuspawner.core.warnings.nodes import AdminWarning

MAX_WARNINGS = 20
"""Flags that are told one by one: strange labels can make any number of them."""
MAX_WARNING_NAMES = 10
"""Nodes or presets of a flag that are named."""
_MAX_NAME_LENGTH = 253
"""Characters of a node's name in Kubernetes."""


class WarningView(NamedTuple):
    """One flag: the nodes, by name, and what is the matter with their GPUs; or the presets, and why they are away."""

    subject: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningsView:
    """All flags.

    :param summary: of how many presets and nodes, a sentence without its full stop.
    :param more: how many flags are left out of the list, as a sentence; empty where none is.
    """

    summary: str
    flags: tuple[WarningView, ...]
    more: str = ""


def build_warnings_view(warnings: Sequence[AdminWarning]) -> WarningsView | None:
    """Return flags in words, None where there are none."""
    if not warnings:
        return None
    left_out = len(warnings) - MAX_WARNINGS
    return WarningsView(
        summary=_summarize_warnings(warnings),
        flags=tuple(WarningView(_format_subject(flag), flag.message) for flag in warnings[:MAX_WARNINGS]),
        more=f"And {left_out} more of this kind." if left_out > 0 else "",
    )


_MISSING_TYPES = {True: "names a GPU type that is not there", False: "name GPU types that are not there"}


def _summarize_warnings(flags: Sequence[AdminWarning]) -> str:
    presets = len({name for flag in flags for name in flag.presets})
    nodes = len({name for flag in flags for name in flag.nodes})
    settings = len({name for flag in flags for name in flag.settings})
    parts = []
    if presets:
        parts.append(f"{_format_count(presets, 'preset')} {'is' if presets == 1 else 'are'} not in the form")
    if nodes:
        parts.append(f"GPUs of {_format_count(nodes, 'node')} are not offered or do not work")
    if settings:
        parts.append(f"{_format_count(settings, 'setting')} {_MISSING_TYPES[settings == 1]}")
    return ", and ".join(parts)


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _format_subject(flag: AdminWarning) -> str:
    names = flag.names[:MAX_WARNING_NAMES]
    shown = [name[:_MAX_NAME_LENGTH] if name.isprintable() else sanitize_name(name) for name in names]
    named = format_list([*shown, *flag.names[MAX_WARNING_NAMES:]], max_items=MAX_WARNING_NAMES)
    if not flag.presets:
        return named
    return f"{'Preset' if len(flag.presets) == 1 else 'Presets'} {named}"
