from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpuspawner._resources import data_dir
from gpuspawner.hub.own_templates import shortened

SCRIPT = """// What it is for.
/** What it does. */
function one() {
  // Why.
  return "/* no comment */ // none"; // stays
}
/**
 * Two lines.
 */
const two = 1;
"""
STYLE = """/* A file. */
.a {
  /* Over
     two lines. */
  color: red; /* stays */
  content: "/* no comment */";
}
"""


def test_a_script_loses_indentation_and_comments_on_lines_of_their_own():
    short = 'function one() {\nreturn "/* no comment */ // none"; // stays\n}\nconst two = 1;\n'
    assert shortened(SCRIPT, "x.js").lstrip("\n") == short


def test_a_style_sheet_does_too_and_loses_space_that_means_nothing():
    short = '.a{color:red;/* stays */\ncontent:"/* no comment */";}'
    assert shortened(STYLE, "x.css").lstrip("\n") == short


def test_a_style_sheet_keeps_the_space_that_stands_for_inside():
    style = "& :is(a, b) > c:hover { margin: 0 1px; }"
    assert shortened(style, "x.css") == "& :is(a,b) > c:hover{margin:0 1px;}"


def test_lines_of_html_keep_their_numbers():
    assert shortened("<p>\n\n  // a\n  /* b */\n</p>\n", "x.html") == "<p>\n\n// a\n/* b */\n</p>\n"


def test_none_of_our_scripts_has_text_over_several_lines():
    lines = [line for path in data_dir("templates").glob("*.js") for line in path.read_text().splitlines()]
    assert [line for line in lines if line.count("`") % 2] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js 20 or newer on PATH")
def test_what_is_left_of_our_scripts_is_still_a_program(tmp_path: Path):
    for path in data_dir("templates").glob("*.js"):
        short = tmp_path / f"{path.stem}.mjs"
        short.write_text(shortened(path.read_text(), path.name))
        subprocess.run(["node", "--check", short], check=True, capture_output=True)
        assert len(short.read_text()) < 0.85 * len(path.read_text())
