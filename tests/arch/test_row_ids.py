"""A failure's name says which row broke: each row of a ``parametrize`` is named by what it holds."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.arch.unnamed_rows import find_unnamed_rows
from tests.row_ids import MAX_CHARACTERS, describe_row_value


class Color(enum.Enum):
    RED = "red"


@dataclass
class Node:
    name: str
    gpus: int = 0
    labels: dict[str, str] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"cpu": 4, "gpu": None}, "cpu=4, gpu=None", id="mapping"),
        pytest.param({}, "{}", id="empty mapping"),
        pytest.param((1, ("a", 2)), "1, a, 2", id="nested tuple"),
        pytest.param(frozenset({"b", "a"}), "a, b", id="set in order"),
        pytest.param(Color.RED, "red", id="enum"),
        pytest.param(b"\xff", "\\\\xff", id="bytes"),
        pytest.param("two\nlines", "two\\nlines", id="line break"),
        pytest.param("", "empty", id="empty text"),
        pytest.param(Node("a", labels={"zone": "x"}), "Node(name=a, labels=zone=x)", id="dataclass"),
        pytest.param(partial(max, 3), "max, 3", id="partial"),
        pytest.param(ValueError("no"), "ValueError: no", id="error"),
        pytest.param(SimpleNamespace(slug="a100"), "a100", id="object with a slug"),
        pytest.param(datetime.timedelta(minutes=1), "0:01:00", id="duration"),
        pytest.param(object(), "object", id="object that says nothing"),
        pytest.param(7, None, id="number, which pytest names"),
    ],
)
def test_a_value_is_named_by_what_it_holds(value: object, expected: str | None):
    assert describe_row_value(value) == expected


def test_a_long_value_is_cut():
    found = describe_row_value("x" * 100) or ""
    assert (len(found), found[-4:]) == (MAX_CHARACTERS, "x...")


@pytest.mark.timeout(120)
def test_rows_that_are_only_numbered_are_found(tmp_path: Path):
    folder = tmp_path / "tests"
    folder.mkdir()
    rows = "import pytest\n@pytest.mark.parametrize('row', [[1], [2], [3], [4]])\ndef test_many(row): ...\n"
    few = "@pytest.mark.parametrize('row', [[1], [2], [3]])\ndef test_few(row): ...\n"
    named = "@pytest.mark.parametrize('row', [[1], [2], [3], [4]], ids=str)\ndef test_named(row): ...\n"
    (folder / "test_rows.py").write_text(rows + few + named)
    assert find_unnamed_rows(tmp_path) == ["tests/test_rows.py::test_many: 4 of 4"]
