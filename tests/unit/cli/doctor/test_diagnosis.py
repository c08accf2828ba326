from __future__ import annotations

import pytest

from gpuspawner.cli.doctor.diagnosis import (
    Diagnosis,
    DiagnosisSeverity,
    format_node_commands,
    name_nodes,
    rank_diagnosis,
    shorten_list,
)


def finding(severity: DiagnosisSeverity, code: str = "c") -> Diagnosis:
    return Diagnosis(severity=severity, code=code, what="what", why="why", fix="fix", objects=("n",))


def test_the_worst_comes_first():
    found = [
        finding(DiagnosisSeverity.NOTE),
        finding(DiagnosisSeverity.WARNING),
        finding(DiagnosisSeverity.FAULT, "b"),
        finding(DiagnosisSeverity.FAULT, "a"),
    ]
    assert [(each.severity.value, each.code) for each in sorted(found, key=rank_diagnosis)] == [
        ("fault", "a"),
        ("fault", "b"),
        ("warning", "c"),
        ("note", "c"),
    ]


def test_json_has_all_of_it():
    assert finding(DiagnosisSeverity.NOTE).serialize() == {
        "severity": "note",
        "code": "c",
        "what": "what",
        "why": "why",
        "fix": "fix",
        "objects": ["n"],
    }


@pytest.mark.parametrize(
    ("names", "expected"), [(["a"], "Node a"), (["a", "b"], "Nodes a, b"), (list("abcde"), "Nodes a, b, c and 2 more")]
)
def test_a_few_nodes_are_named_and_the_rest_counted(names: list[str], expected: str):
    assert name_nodes(names) == expected
    assert shorten_list(names) == expected.partition(" ")[2]


def test_a_command_is_repeated_for_a_few_nodes_and_a_loop_for_many():
    assert format_node_commands(["a", "b"], "do {node}") == "do a\ndo b"
    assert format_node_commands(list("abcd"), "do {node}") == "for node in a b c d; do\n  do $node\ndone"
