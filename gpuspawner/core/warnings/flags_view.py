"""What admins are told about GPUs and presets, in words: for the form and for the hub's log. Both are in English."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuspawner.core.text.quoting import listing, name_of
from gpuspawner.core.warnings.flags import Flag

MOST_FLAGS = 20
"""Flags that are told one by one: strange labels can make any number of them."""
MOST_NAMES = 10
"""Nodes or presets of a flag that are named."""
_LONGEST_NAME = 253
"""Characters of a node's name in Kubernetes."""


class FlagView(NamedTuple):
    """One flag: the nodes, by name, and what is the matter with their GPUs; or the presets, and why they are away."""

    subject: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagsView:
    """All flags.

    :param summary: of how many presets and nodes, a sentence without its full stop.
    :param more: how many flags are left out of the list, as a sentence; empty where none is.
    """

    summary: str
    flags: tuple[FlagView, ...]
    more: str = ""


def flags_view(flags: Sequence[Flag]) -> FlagsView | None:
    """Return flags in words, None where there are none."""
    if not flags:
        return None
    left_out = len(flags) - MOST_FLAGS
    return FlagsView(
        summary=_summary(flags),
        flags=tuple(FlagView(_subject(flag), flag.message) for flag in flags[:MOST_FLAGS]),
        more=f"And {left_out} more of this kind." if left_out > 0 else "",
    )


_NOT_THERE = {True: "names a GPU type that is not there", False: "name GPU types that are not there"}


def _summary(flags: Sequence[Flag]) -> str:
    presets = len({name for flag in flags for name in flag.presets})
    nodes = len({name for flag in flags for name in flag.nodes})
    settings = len({name for flag in flags for name in flag.settings})
    parts = []
    if presets:
        parts.append(f"{_counted(presets, 'preset')} {'is' if presets == 1 else 'are'} not in the form")
    if nodes:
        parts.append(f"GPUs of {_counted(nodes, 'node')} are not offered or do not work")
    if settings:
        parts.append(f"{_counted(settings, 'setting')} {_NOT_THERE[settings == 1]}")
    return ", and ".join(parts)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _subject(flag: Flag) -> str:
    names = flag.names[:MOST_NAMES]
    shown = [name[:_LONGEST_NAME] if name.isprintable() else name_of(name) for name in names]
    named = listing([*shown, *flag.names[MOST_NAMES:]], longest=MOST_NAMES)
    if not flag.presets:
        return named
    return f"{'Preset' if len(flag.presets) == 1 else 'Presets'} {named}"
