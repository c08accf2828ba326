from __future__ import annotations

import pytest

from gpuspawner.cli.doctor.finding import Finding, Severity, each_node, on_nodes, rank, some


def finding(severity: Severity, code: str = "c") -> Finding:
    return Finding(severity=severity, code=code, what="what", why="why", fix="fix", objects=("n",))


def test_the_worst_comes_first():
    found = [
        finding(Severity.NOTE),
        finding(Severity.WARNING),
        finding(Severity.FAULT, "b"),
        finding(Severity.FAULT, "a"),
    ]
    assert [(each.severity.value, each.code) for each in sorted(found, key=rank)] == [
        ("fault", "a"),
        ("fault", "b"),
        ("warning", "c"),
        ("note", "c"),
    ]


def test_json_has_all_of_it():
    assert finding(Severity.NOTE).as_json() == {
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
    assert on_nodes(names) == expected
    assert some(names) == expected.partition(" ")[2]


def test_a_command_is_repeated_for_a_few_nodes_and_a_loop_for_many():
    assert each_node(["a", "b"], "do {node}") == "do a\ndo b"
    assert each_node(list("abcd"), "do {node}") == "for node in a b c d; do\n  do $node\ndone"
