"""Findings of ``doctor`` about a cluster, and functions that format texts of findings for several rules."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.text.wording import format_list

_MAX_NAMES = 3


class DiagnosisSeverity(StrEnum):
    """Severities of findings about a cluster, the worst first.

    Findings of ``gpuspawner check`` have other severities (:class:`gpuspawner.cli.common.findings.Severity`).
    """

    FAULT = "fault"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A finding about a cluster.

    :param severity: how bad the fault is.
    :param code: stable identifier for scripts.
    :param what: sentence that names the fault and the objects.
    :param why: sentence that names the consequence.
    :param fix: commands or YAML to copy, with comments behind ``#``.
    :param objects: names of all affected objects; ``what`` names only a few.
    """

    severity: DiagnosisSeverity
    code: str
    what: str
    why: str
    fix: str
    objects: tuple[str, ...] = ()

    def serialize(self) -> dict[str, object]:
        """Return the finding as a JSON object."""
        return {
            "severity": self.severity.value,
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "fix": self.fix,
            "objects": list(self.objects),
        }


def rank_diagnosis(finding: Diagnosis) -> tuple[int, str, tuple[str, ...], str]:
    """Return a key for ``sorted`` that puts the worst findings first."""
    return list(DiagnosisSeverity).index(finding.severity), finding.code, finding.objects, finding.what


def shorten_list(names: Collection[str]) -> str:
    """Return a text with at most three names and the number of the others."""
    return format_list(names, max_items=_MAX_NAMES)


def name_nodes(names: Collection[str]) -> str:
    """Return "Node a" or "Nodes a, b, …", the subject of a sentence."""
    return f"Node{'' if len(names) == 1 else 's'} {shorten_list(names)}"


def format_node_commands(names: Collection[str], command: str) -> str:
    """Return one line with the command for each node, or a shell loop for more than three nodes.

    :param command: a command with ``{node}`` in place of the node's name.
    """
    if len(names) <= _MAX_NAMES:
        return "\n".join(command.format(node=name) for name in names)
    return f"for node in {' '.join(names)}; do\n  {command.format(node='$node')}\ndone"
