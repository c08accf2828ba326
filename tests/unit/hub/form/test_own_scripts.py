"""A script is the same program without what only its readers need; the script's own tests run on what is left of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpuspawner._resources import data_dir
from gpuspawner.hub.form.own_scripts import shortened

SAME = [
    # Words need what keeps them apart, and so do marks that would be another one together.
    "let a=typeof b in c;",
    "a=b+ +c;a=b- -c;a=b+ ++c;",
    "a=1 .x;",
    "a=b/ /c/.d;",
    "if(/a/ in b)return c;",
    # Texts, templates and regular expressions stay as they are.
    "a=\"b  //  c\\\"  d\"+'e  \\'  f';",
    "a=`b  ${c}  {  }  d`;",
    "a=`b  ${c.map(d=>`e  ${{f:1}.f}  `)}  g  ${h}`;",
    "a=`\\`  \\${b  }`;",
    'a=/b  \\/  [/  ]"/g;',
    "return/  /.test(b);",
    "a=(b)/c/d;a=b[0]/c/d;a=b/c/d;",
    # A statement may end with its line.
    "a++\nb",
    "a=b\nc",
    "if(a){}\nb()",
    "a(b)\n(c)",
    # More than one parameter, none, or a call: these brackets are needed.
    "a=(b,c)=>d;a=()=>d;a=([b])=>d;b(c);",
    "async(a)=>b",
]
SHORTER = [
    ("a = b ; // c", "a=b;"),
    ("/** A */\na = { b: 1, c: [2, 3] }\n", "a={b:1,c:[2,3]}"),
    ("a /* b */ = /* c\n */ d;", "a=d;"),
    ("a(\n  b,\n  c,\n)\n  .d;", "a(b,c,).d;"),
    ("if (a) {\n  b();\n} else {\n  c();\n}", "if(a){b()}else{c()}"),
    ("let a = `b ${ c + `d ${ e }` }  f` ;", "let a=`b ${c+`d ${e}`}  f`;"),
    ("a = (b) => c;\nd((e) => f);", "a=b=>c;d(e=>f);"),
    ("export function a() {\n  return `b` ;\n}", "function a(){return`b`}"),
    ("function a() {}\nfunction b() {}", "function a(){}function b(){}"),
    ("x = a\n  ? b\n  : c;", "x=a?b:c;"),
    ("const größe = 1 ;", "let größe=1;"),
    ("const a = 1;\nconst [b] = 2;\nlet c;\nd();\nconst e = 3;", "let a=1,[b]=2,c;d();let e=3;"),
    ("const a = () => {\n  const b = {};\n  const c = 1;\n};\nconst d = 2;", "let a=()=>{let b={},c=1},d=2;"),
    (
        "if (a) {\n  b;\n}\nconst c = 1;\nfor (const d of e) f;\nconst g = 2;",
        "if(a){b}let c=1;for(let d of e)f;let g=2;",
    ),
    ("const a = `${b}${c}`;\nconst d = `${[`${b}`]}  const `;", "let a=`${b}${c}`,d=`${[`${b}`]}  const `;"),
]


@pytest.mark.parametrize("source", SAME)
def test_what_means_something_stays(source: str):
    assert shortened(source) == f"{source}\n"


@pytest.mark.parametrize(("source", "short"), SHORTER)
def test_what_means_nothing_goes(source: str, short: str):
    assert shortened(source) == f"{short}\n"


def test_what_was_shortened_stays_so():
    for path in data_dir("templates").glob("*.js"):
        short = shortened(path.read_text())
        assert shortened(short) == short


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js 20 or newer on PATH")
def test_what_is_left_of_our_scripts_is_still_a_program(tmp_path: Path):
    for path in data_dir("templates").glob("*.js"):
        short = tmp_path / f"{path.stem}.mjs"
        short.write_text(shortened(path.read_text()))
        subprocess.run(["node", "--check", short], check=True, capture_output=True)
        assert len(short.read_text()) < 0.8 * len(path.read_text())
