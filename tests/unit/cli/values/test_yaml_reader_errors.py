from __future__ import annotations

import pytest

from gpuspawner.cli.values.yaml_reader import read_yaml


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("a:\n\tb: 1", (2, 1), "a tab stands where YAML takes spaces only"),
        ("a:\n  b: 1\n\tc: 2", (3, 1), "a tab stands where YAML takes spaces only"),
        ("a:\n  b: 1\n c: 2", (3, 2), "this does not fit the lines above: the indentation is wrong"),
        ("a: 1\n b: 2", (2, 3), "a colon stands where no key can be: the indentation is wrong"),
        ("a: b: c", (1, 5), "a text with a colon in it needs quotes"),
        ("a:\n  c: 1\n  b 1\n\n# c\nd: 1", (3, 3), "a key has no colon after it, or the indentation is wrong"),
        ("a: [1, 2", (1, 4), "a comma or a closing bracket is missing"),
        ("{a: 1", (1, 1), "a comma or a closing bracket is missing"),
        ('a: 1\nb: "x\nc: 1', (2, 4), "the closing mark of a quotation is missing"),
        ('a: "x\nb: "y"\n', (1, 4), "the closing mark of a quotation is missing, most likely of this one"),
        ("a: *x", (1, 4), "no anchor above has this name (found undefined alias 'x')"),
        ("a: @x", (1, 4), "a text that begins like this needs quotes"),
        ('a: "\\q"', (1, 6), "double quotes know no such escape"),
        ("a: 1\nb: \x01", (2, 4), "there is a control character"),
        ("a: }", (1, 4), "a value is missing"),
    ],
)
def test_a_mistake_is_reported_in_a_sentence_at_its_place(text: str, place: tuple[int, int], told: str):
    (flaw,) = read_yaml(text, file="f").flaws
    assert flaw.place is not None
    assert (flaw.place.line, flaw.place.column, flaw.message.startswith("is no YAML: ")) == (*place, True)
    assert told in flaw.message


def test_quoted_text_cannot_control_a_terminal():
    (flaw,) = read_yaml("a: *x\x1b[31m", file="f").flaws
    assert flaw.message.isprintable()
