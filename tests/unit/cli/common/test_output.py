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
    assert (Paint.for_stream(Terminal()), Paint.for_stream(io.StringIO())) == (COLOURED, PLAIN)
    monkeypatch.setenv("NO_COLOR", "1")
    assert Paint.for_stream(Terminal()) == PLAIN
    assert (COLOURED.style_error("no"), PLAIN.style_error("no")) == ("\x1b[31mno\x1b[0m", "no")


def test_columns_are_as_wide_as_what_stands_in_them_and_nothing_controls_the_terminal():
    rows = [("a100", "3"), ("显卡", "12"), ("\x1b[31m", "1")]
    assert list(format_columns(rows, titles=("type", "free"), paint=PLAIN)) == [
        "type   free",
        "a100   3",
        "显卡   12",
        "?[31m  1",
    ]
