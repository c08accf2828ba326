from __future__ import annotations

from gpuspawner.cli.common.findings import (
    FilePosition,
    Finding,
    Severity,
    describe_type,
    format_findings,
    format_path,
    sort_findings,
)
from gpuspawner.cli.common.output import Paint

ERROR = Finding(severity=Severity.ERROR, code="c", path="a.b", message="is wrong", place=FilePosition("f", 2, 3))
HINT = Finding(severity=Severity.HINT, code="h", path="", message="helps", more="x: 1\ny: 2")


def test_findings_are_reported_as_a_file_is_read_and_once():
    early = Finding(severity=Severity.WARNING, code="c", path="z", message="m", place=FilePosition("f", 1, 9))
    assert sort_findings([HINT, ERROR, early, ERROR]) == [early, ERROR, HINT]


def test_a_line_begins_with_the_place_as_compilers_write_it():
    assert list(format_findings([ERROR, HINT], Paint(is_on=False))) == [
        "f:2:3: error: a.b: is wrong",
        "hint: helps",
        "    x: 1",
        "    y: 2",
    ]


def test_a_name_cannot_control_a_terminal():
    strange = Finding(
        severity=Severity.ERROR, code="c", path="a\x1b", message="m\x07", place=FilePosition("f\x1b", 1, 1)
    )
    assert list(format_findings([strange], Paint(is_on=False))) == ["f?:1:1: error: a?: m?"]


def test_programs_get_every_part():
    assert ERROR.serialize() == {
        "severity": "error",
        "code": "c",
        "file": "f",
        "line": 2,
        "column": 3,
        "path": "a.b",
        "message": "is wrong",
    }
    assert (HINT.serialize()["file"], HINT.serialize()["more"]) == (None, "x: 1\ny: 2")


def test_a_problem_has_the_place_in_its_path():
    assert (ERROR.problem.field, ERROR.problem.code, ERROR.problem.message) == ("f:2:3: a.b", "c", "is wrong")


def test_a_path_is_written_with_dots():
    assert format_path(("a", 0, "b\n")) == r"a.0.b\n"


def test_a_value_that_may_be_secret_is_named_by_its_type():
    values = (None, True, 1, 1.5, "secret", "", [1], {"a": 1})
    names = ["null", "a boolean", "a number", "a number", "a text", "an empty text", "a list", "a mapping"]
    assert [describe_type(value) for value in values] == names
