"""One thing that is wrong with a cluster, as an admin is told of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.text.quoting import format_list

_MAX_NAMES = 3


class DiagnosisSeverity(StrEnum):
    """How bad the state of a cluster is, in the order it is told.

    That of :mod:`gpuspawner.cli.common.findings` is about files: an error there is what the hub refuses, and nothing
    runs yet.
    """

    FAULT = "fault"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing to look at in a cluster, with what helps: it has no place in a file, as those of ``check`` have.

    :param code: stable, for scripts.
    :param what: a sentence with what is wrong, and where.
    :param why: a sentence with what comes of it.
    :param fix: a command or YAML to copy; a ``#`` begins what only says something.
    :param objects: names of all nodes or other objects it is about, where the sentence names a few.
    """

    severity: DiagnosisSeverity
    code: str
    what: str
    why: str
    fix: str
    objects: tuple[str, ...] = ()

    def serialize(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "severity": self.severity.value,
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "fix": self.fix,
            "objects": list(self.objects),
        }


def rank_diagnosis(finding: Diagnosis) -> tuple[int, str, tuple[str, ...], str]:
    """Return what findings are sorted by: the worst first."""
    return list(DiagnosisSeverity).index(finding.severity), finding.code, finding.objects, finding.what


def shorten_list(names: Collection[str]) -> str:
    """Return a few names, and how many more there are."""
    return format_list(names, max_items=_MAX_NAMES)


def name_nodes(names: Collection[str]) -> str:
    """Return the beginning of a sentence about nodes."""
    return f"Node{'' if len(names) == 1 else 's'} {shorten_list(names)}"


def format_node_commands(names: Collection[str], command: str) -> str:
    """Return a command for each of some nodes; for more than a few once, with what to put in.

    :param command: with ``{node}`` in it.
    """
    if len(names) <= _MAX_NAMES:
        return "\n".join(command.format(node=name) for name in names)
    return f"for node in {' '.join(names)}; do\n  {command.format(node='$node')}\ndone"
