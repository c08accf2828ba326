from __future__ import annotations

from gpuspawner.cli.common.findings import Finding, Place, Severity, dotted, in_order, lines, type_name
from gpuspawner.cli.common.output import Paint

ERROR = Finding(severity=Severity.ERROR, code="c", path="a.b", message="is wrong", place=Place("f", 2, 3))
HINT = Finding(severity=Severity.HINT, code="h", path="", message="helps", more="x: 1\ny: 2")


def test_findings_are_told_as_a_file_is_read_and_once():
    early = Finding(severity=Severity.WARNING, code="c", path="z", message="m", place=Place("f", 1, 9))
    assert in_order([HINT, ERROR, early, ERROR]) == [early, ERROR, HINT]


def test_a_line_begins_with_the_place_as_compilers_write_it():
    assert list(lines([ERROR, HINT], Paint(is_on=False))) == [
        "f:2:3: error: a.b: is wrong",
        "hint: helps",
        "    x: 1",
        "    y: 2",
    ]


def test_a_name_cannot_control_a_terminal():
    strange = Finding(severity=Severity.ERROR, code="c", path="a\x1b", message="m\x07", place=Place("f\x1b", 1, 1))
    assert list(lines([strange], Paint(is_on=False))) == ["f?:1:1: error: a?: m?"]


def test_programs_get_every_part():
    assert ERROR.as_json() == {
        "severity": "error",
        "code": "c",
        "file": "f",
        "line": 2,
        "column": 3,
        "path": "a.b",
        "message": "is wrong",
    }
    assert (HINT.as_json()["file"], HINT.as_json()["more"]) == (None, "x: 1\ny: 2")


def test_a_problem_has_the_place_in_its_path():
    assert (ERROR.problem.field, ERROR.problem.code, ERROR.problem.message) == ("f:2:3: a.b", "c", "is wrong")


def test_a_path_is_written_with_dots():
    assert dotted(("a", 0, "b\n")) == r"a.0.b\n"


def test_a_value_that_may_be_secret_is_named_by_its_type():
    values = (None, True, 1, 1.5, "secret", "", [1], {"a": 1})
    names = ["null", "a boolean", "a number", "a number", "a text", "an empty text", "a list", "a mapping"]
    assert [type_name(value) for value in values] == names
