from __future__ import annotations

import io
import itertools
import string
from pathlib import Path

import pytest

from gpuspawner.cli.common.findings import FilePosition
from gpuspawner.cli.values.yaml_reader import MAX_INPUT_SIZE, YAMLDocument, read_file, read_yaml


def parse(text: str) -> YAMLDocument:
    return read_yaml(text.encode(), file="f")


def flaws(document: YAMLDocument) -> list[tuple[int, int, str, str]]:
    return [(each.place.line, each.place.column, each.path, each.message) for each in document.flaws if each.place]


def test_every_key_and_value_has_its_place():
    tree = parse("a:\n  b: [1, {c: x}]\n").tree
    inner = tree.value["a"].value["b"].value[1].value["c"]
    assert (inner.value, inner.place, inner.key) == ("x", FilePosition("f", 2, 14), FilePosition("f", 2, 11))


def test_what_begins_below_its_key_is_found_by_the_key():
    tree = parse("a:\n  b: 1\n").tree
    assert (tree.value["a"].shown, tree.value["a"].value["b"].shown) == (
        FilePosition("f", 1, 1),
        FilePosition("f", 2, 6),
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("n", False),
        ("Off", False),
        ("~", None),
        ("", None),
        ("017", 15),
        ("0x1F", 31),
        ("0b11", 3),
        ("-1_000", -1000),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("12.10", 12.1),
        ("08", 8.0),
        ("12:30", "12:30"),
        ("2026-10-01", "2026-10-01"),
        ("'yes'", "yes"),
        ("!!str 12", "12"),
        ("=", "="),
    ],
)
def test_scalars_are_what_helm_reads(text: str, value: object):
    found = parse(f"a: {text}").tree.value["a"].value
    assert (found, type(found)) == (value, type(value))


def test_keys_are_texts_as_helm_makes_them():
    document = parse("1: a\n'2': b\n")
    assert (document.tree.plain, document.flaws) == ({"1": "a", "2": "b"}, ())


@pytest.mark.parametrize(("key", "read"), [("on", "true"), ("1.10", "1.1"), ("0x10", "16")])
def test_a_key_that_is_read_as_another_is_reported(key: str, read: str):
    assert flaws(parse(f"a:\n  {key}: 1")) == [
        (2, 3, f"a.{key}", f"is read as {read!r}: write the key in quotes, {key!r}")
    ]


def test_a_key_that_is_written_twice_is_reported_with_the_first_line():
    document = parse("a: 1\nb: 2\na: 3\n1: x\n'1': z\n")
    assert flaws(document) == [
        (3, 1, "a", "is written twice, first on line 1: Helm drops the first"),
        (5, 1, "1", "is written twice, first on line 4: Helm drops the first"),
    ]
    assert document.tree.plain == {"a": 3, "b": 2, "1": "z"}


def test_merge_keys_take_over_what_is_not_said():
    text = "a: &a {p: 1, q: 1}\nb: &b {q: 2, r: 2}\nc: {<<: [*a, *b], r: 3}\nd:\n  <<: *b\n"
    plain = parse(text).tree.plain
    assert (plain["c"], plain["d"]) == ({"p": 1, "q": 1, "r": 3}, {"q": 2, "r": 2})


def test_a_character_that_does_not_exist_is_refused_at_its_place():
    assert [(line, column) for line, column, _, _ in flaws(parse('a: "\\U00110000"'))] == [(1, 7)]


def test_an_anchor_may_be_defined_anew():
    assert parse("a: &x 1\nb: &x 2\nc: *x\n").tree.plain["c"] == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &a {b: *a}", (1, 1, "", "is nested too deep")),
        ("a: {<<: 3}", (1, 9, "a.<<", "must be an alias of a mapping, or a list of them: << takes its keys over")),
        ("a: !secret x", (1, 4, "a", "has the tag !secret, which means nothing in values; leave it out")),
        ("~: 1", (1, 1, "", "has a key that is null, a mapping or a list; write a text with { or [ in quotes")),
        ("a: {{ .Values.x }}: 1", None),
        ("a: 1\n---\nb: 2\n", (3, 1, "", "is a second document in the file: Helm 3 reads only the first one")),
        ("- 1", (1, 1, "", "must hold a mapping, not a list")),
        ("text", (1, 1, "", "must hold a mapping, not 'text'")),
        (f"a: {'9' * 5000}", (1, 4, "a", f"is no number that can be read: '{'9' * 39}…'")),
    ],
)
def test_values_that_helm_does_not_read_as_meant_are_reported(text: str, told: tuple[int, int, str, str] | None):
    found = flaws(parse(text))
    assert found == [told] if told else found != []


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "a: 1\n---\n", "\ufeffa: 1"])
def test_nothing_is_wrong_with_what_is_empty(text: str):
    assert flaws(parse(text)) == []


def test_aliases_of_aliases_are_not_followed_without_end():
    letters = string.ascii_lowercase[:12]
    lines = [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in itertools.pairwise(letters)]
    document = parse("\n".join(["a: &a [x]", *lines]))
    assert flaws(document) == [(1, 1, "", "stands for more than 100,000 values: aliases of aliases multiply")]
    assert (document.is_read, document.tree.plain) == (False, {})


@pytest.mark.parametrize("text", ["a: " + "[" * 5000 + "]" * 5000, "a: " + "{a: " * 5000])
def test_endless_nesting_is_reported(text: str):
    document = parse(text)
    assert (len(document.flaws), document.is_read) == (1, False)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"a" * (MAX_INPUT_SIZE + 1), "has more than 4 MiB, so it was not read", id="too large"),
        pytest.param(b"a: \xff", "is no text in UTF-8: byte 4 fits nowhere", id="no text"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(content: bytes, told: str):
    document = read_yaml(content, file="f")
    assert (flaws(document), document.is_read) == ([(1, 1, "", told)], False)


def test_a_pipe_that_never_ends_is_read_no_further_than_is_allowed():
    assert not read_file("/dev/zero").is_read


def test_a_dash_is_the_standard_input(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: 1")))
    assert read_file("-").tree.value["a"].place == FilePosition("<stdin>", 1, 4)


def test_a_mark_of_the_order_of_bytes_is_no_part_of_the_text(tmp_path: Path):
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfa: \xc3\xa4")
    assert read_file(str(tmp_path / "a.yaml")).tree.plain == {"a": "\u00e4"}


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("a:\n\tb: 1", (2, 1), "found character '\\t' that cannot start any token"),
        ("a:\n  b: 1\n c: 2", (3, 2), "expected <block end>"),
        ("a: 1\n b: 2", (2, 3), "mapping values are not allowed here"),
        ("a:\n  c: 1\n  b 1\n\n# c\nd: 1", (3, 3), "could not find expected ':'"),
        ("a: [1, 2", (1, 4), "while parsing a flow sequence"),
        ('a: 1\nb: "x\nc: 1', (2, 4), "while scanning a quoted scalar"),
        ("a: *x", (1, 4), "found undefined alias 'x'"),
        ("a: 1\nb: \x01", (1, 1), "special characters are not allowed"),
    ],
)
def test_a_mistake_in_yaml_is_reported_at_its_place(text: str, place: tuple[int, int], told: str):
    (flaw,) = parse(text).flaws
    assert flaw.place is not None
    assert (flaw.place.line, flaw.place.column, flaw.code) == (*place, "bad_yaml")
    assert told in flaw.message


def test_quoted_text_cannot_control_a_terminal():
    (flaw,) = parse("a: *x\x1b[31m").flaws
    assert flaw.message.isprintable()
