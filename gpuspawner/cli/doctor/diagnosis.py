"""Findings of ``doctor`` about a cluster, with texts from ``data/diagnoses.yaml``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from string import Template

import yaml

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
        return {**asdict(self), "severity": self.severity.value, "objects": list(self.objects)}


@cache
def load_rows() -> Mapping[str, Mapping[str, str]]:
    """Return the table of findings: code, perhaps with a slash and the name of a case → severity and texts."""
    text = (files("gpuspawner") / "data" / "diagnoses.yaml").read_text(encoding="utf-8")
    rows: Mapping[str, Mapping[str, str]] = yaml.safe_load(text)
    return rows


def make_diagnosis(
    row: str,
    *,
    severity: DiagnosisSeverity | None = None,
    nodes: Collection[str] = (),
    objects: Collection[str] = (),
    **words: object,
) -> Diagnosis:
    """Return a finding with the texts of a row of the table.

    :param row: key of the row; the finding's code is the part before the slash.
    :param severity: instead of the row's.
    :param nodes: names of the affected nodes, which are also the finding's objects if it has no others.
    :param words: what the texts name with a dollar sign.
    """
    texts = load_rows()[row]
    affected = tuple(objects or nodes)
    known = {"nodes": name_nodes(nodes), **words, "node": "$node", "name": "$name"}
    what, why, fix = (Template(texts[part]).substitute(known) for part in ("what", "why", "fix"))
    return Diagnosis(
        severity=severity or DiagnosisSeverity(texts["severity"]),
        code=row.partition("/")[0],
        what=what,
        why=why,
        fix="\n".join(_repeat_lines(fix, nodes=nodes, objects=affected)),
        objects=affected,
    )


def _repeat_lines(fix: str, *, nodes: Collection[str], objects: Collection[str]) -> Iterator[str]:
    for line in fix.splitlines():
        if "$name" in line:
            yield from (line.replace("$name", name) for name in objects)
        else:
            yield format_node_commands(nodes, line) if "$node" in line else line


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

    :param command: a command with ``$node`` in place of the node's name.
    """
    if len(names) <= _MAX_NAMES:
        return "\n".join(command.replace("$node", name) for name in names)
    return f"for node in {' '.join(names)}; do\n  {command}\ndone"
