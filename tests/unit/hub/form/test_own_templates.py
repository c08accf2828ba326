from __future__ import annotations

import pytest
from jinja2 import Environment

from gpuspawner.hub.form.own_templates import shortened

SCRIPT = """// What it is for.
/** What it does. */
function one() {
  // Why.
  return "/* no comment */ // none"; // beside it
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
  color: red; /* beside it */
  margin: -0.5rem 0.25rem 0 10.5px;
  content: "/* no comment: */  0.5";
}
"""


def test_a_script_loses_its_comments_and_the_space_that_means_nothing():
    short = 'function one(){return"/* no comment */ // none"}let two=1;\n'
    assert shortened(SCRIPT, "x.js") == short


def test_a_style_sheet_does_too():
    short = '.a{color:red;margin:-.5rem .25rem 0 10.5px;content:"/* no comment: */  0.5"}\n'
    assert shortened(STYLE, "x.css") == short


def test_a_style_sheet_keeps_the_space_that_stands_for_inside():
    style = "& :is(a, b) > c:hover { margin: 0 1px; }"
    assert shortened(style, "x.css") == "& :is(a,b)>c:hover{margin:0 1px}\n"


def test_lines_of_html_keep_their_numbers():
    assert shortened("<b>\n\n  // a\n  /* b */\n</b>\n", "x.html") == "<b>\n\n// a\n/* b */\n</b>\n"


def test_lines_that_are_left_out_keep_their_numbers():
    short = shortened("<div>\n  <p>a\n  <b>b</b>\n  </p>\n</div>{{ x.y }}\n", "x.html")
    assert short == "<div>{#\n#}<p>a\n<b>b</b>{#\n#}</p>{#\n#}</div>{{ x.y }}\n"
    assert short.count("\n") == 5
    assert Environment(trim_blocks=True).from_string(short).render(x={"y": 1}) == "<div><p>a\n<b>b</b></p></div>1"


@pytest.mark.parametrize(
    ("page", "short"),
    [
        ('<a class="x-1" id="y" hidden>', "<a class=x-1 id=y hidden>"),
        ('<a class="x y" id="">"z"</a>', '<a class="x y" id="">"z"</a>'),
        ('<a id="y"{% if z == "z" %} b="c"{% endif %}>', '<a id="y"{% if z == "z" %} b="c"{% endif %}>'),
        ('<a id="{{ f(x, y="z") }}" b="c">{{ f( y="z" ) }}', '<a id="{{ f(x, y="z") }}" b=c>{{ f( y="z" ) }}'),
        ('<a b="c"/>', '<a b="c"/>'),
    ],
)
def test_an_attribute_that_is_one_word_loses_its_quotes(page: str, short: str):
    assert shortened(page, "x.html") == short
