from __future__ import annotations

import io
from pathlib import Path

import pytest

from gpuspawner.cli.values.yaml_reader import MAX_INPUT_SIZE, describe_decode_error, is_too_long, read_text


def test_a_file_is_text_with_or_without_a_mark_of_its_order(tmp_path: Path):
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: \xc3\xa4")
    assert read_text(str(file)) == "a: \u00e4"


def test_a_dash_is_the_standard_input(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("a: 1"))
    assert read_text("-") == "a: 1"


def test_what_never_ends_is_read_no_further_than_is_allowed():
    assert is_too_long(read_text("/dev/zero"))


def test_a_file_cut_off_within_a_character_is_too_long_and_no_wrong_text(tmp_path: Path):
    file = tmp_path / "a.yaml"
    file.write_text("\ufeff" + "a" * (MAX_INPUT_SIZE - 1) + "\u20ac")
    assert is_too_long(read_text(str(file)))
    file.write_text("a" * MAX_INPUT_SIZE)
    assert not is_too_long(read_text(str(file)))


def test_a_file_that_is_no_text_is_reported_with_the_byte(tmp_path: Path):
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: \xff")
    with pytest.raises(UnicodeDecodeError) as wrong:
        read_text(str(file))
    assert describe_decode_error(wrong.value) == "is no text in UTF-8: byte 4 fits nowhere"
