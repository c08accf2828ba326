"""What admins are told about GPUs, in words: for the form and for the hub's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuspawner.core.flags import Flag
from gpuspawner.core.quoting import listing, name_of

MOST_FLAGS = 20
"""Flags that are told one by one: strange labels can make any number of them."""
MOST_NODES = 10
"""Nodes of a flag that are named."""
_LONGEST_NAME = 253
"""Characters of a node's name in Kubernetes."""


class FlagView(NamedTuple):
    """One flag: the nodes, by name, and what is the matter with their GPUs."""

    nodes: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagsView:
    """All flags.

    :param summary: of how many nodes, a sentence without its full stop.
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
    nodes = {name for flag in flags for name in flag.nodes}
    return FlagsView(
        summary=f"GPUs of {len(nodes)} node{'' if len(nodes) == 1 else 's'} are not offered or do not work",
        flags=tuple(FlagView(_names(flag), flag.message) for flag in flags[:MOST_FLAGS]),
        more=f"And {left_out} more of this kind." if left_out > 0 else "",
    )


def _names(flag: Flag) -> str:
    names = flag.nodes[:MOST_NODES]
    shown = [name[:_LONGEST_NAME] if name.isprintable() else name_of(name) for name in names]
    return listing([*shown, *flag.nodes[MOST_NODES:]], longest=MOST_NODES)
