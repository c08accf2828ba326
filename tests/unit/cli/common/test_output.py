from __future__ import annotations

import io
import json

import pytest
import yaml

from gpuspawner.cli.common.output import Paint, format_columns, write_result

PLAIN, COLOURED = Paint(is_on=False), Paint(is_on=True)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_result_is_written_in_the_format_asked_for(output: str):
    out = io.StringIO()
    write_result({"name": "grün"}, output=output, out=out, table=lambda _: ["name: grün"])
    read = json.loads if output == "json" else yaml.safe_load
    assert read(out.getvalue()) == {"name": "grün"}


def test_there_are_colours_only_in_a_terminal_that_has_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert (Paint.for_stream(Terminal()).is_on, Paint.for_stream(io.StringIO()).is_on) == (True, False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Paint.for_stream(Terminal()).is_on
    assert (COLOURED.style_error("no"), PLAIN.style_error("no")) == ("\x1b[31mno\x1b[0m", "no")


def test_columns_are_as_wide_as_what_stands_in_them_and_nothing_controls_the_terminal():
    rows = [("a100", "3"), ("显卡", "12"), ("\x1b[31m", "1")]
    assert list(format_columns(rows, titles=("type", "free"), paint=PLAIN)) == [
        "type   free",
        "a100   3",
        "显卡   12",
        "?[31m  1",
    ]


ROWS = [
    ("a100-80gb", "A100 80 GB", "nvidia.com/gpu", "", "a=b:NoSchedule (not tolerated), c=d:NoExecute"),
    ("t4", "T4", "nvidia.com/gpu", "16 GiB", ""),
]
TITLES = ("TYPE", "NAME", "RESOURCE", "MEMORY", "TAINTS")


@pytest.mark.parametrize("columns", [30, 60, 80, 200], ids=str)
def test_a_table_fits_the_terminal_and_keeps_every_word(columns: int):
    lines = list(format_columns(ROWS, titles=TITLES, paint=Paint(is_on=False, columns=columns)))
    words = [word for row in ROWS for cell in row for word in cell.split()]
    assert max(map(len, lines)) <= columns
    assert [word for word in " ".join(lines).split() if word in words] == words


def test_a_row_that_does_not_fit_is_a_block_with_titles():
    assert list(format_columns(ROWS, titles=TITLES, paint=Paint(is_on=False, columns=60))) == [
        "a100-80gb",
        "  name A100 80 GB resource nvidia.com/gpu",
        "    taints a=b:NoSchedule (not tolerated), c=d:NoExecute",
        "t4",
        "  name T4 resource nvidia.com/gpu memory 16 GiB",
    ]


def test_a_file_gets_whole_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert (Paint.for_stream(Terminal()).columns, Paint.for_stream(io.StringIO()).columns) == (40, None)
