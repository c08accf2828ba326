from __future__ import annotations

import pytest

from gpuspawner.cli.doctor.diagnosis import (
    Diagnosis,
    DiagnosisSeverity,
    format_node_commands,
    load_rows,
    make_diagnosis,
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
    assert format_node_commands(["a", "b"], "do $node") == "do a\ndo b"
    assert format_node_commands(list("abcd"), "do $node") == "for node in a b c d; do\n  do $node\ndone"


def test_every_row_of_the_table_has_a_severity_and_three_texts():
    rows = load_rows().values()
    assert {tuple(sorted(row)) for row in rows} == {("fix", "severity", "what", "why")}
    assert {row["severity"] for row in rows} == {*DiagnosisSeverity}


def test_a_line_of_a_fix_stands_once_for_each_node_or_object():
    found = make_diagnosis("node-cordoned", nodes=["a", "b"])
    assert (found.code, found.severity, found.objects) == ("node-cordoned", "warning", ("a", "b"))
    assert found.what == "Nodes a, b: cordoned."
    assert found.fix == "# Once the work there is done:\nkubectl uncordon a\nkubectl uncordon b"
    case = make_diagnosis("preset-invalid", objects=["x", "y"], subject="Presets x, y", message="m")
    assert case.fix.splitlines() == [
        f"# Change or remove the preset: hub.config.GPUSpawner.presets.{one}" for one in "xy"
    ]
