"""Lines come out whole, however the bytes arrive."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.kube.watch.watch import LineSplitter


def fed(*chunks: bytes, longest_bytes: int = 100) -> list[bytes]:
    lines = LineSplitter(longest_bytes=longest_bytes)
    return [line for chunk in chunks for line in lines.feed(chunk)]


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line and line.strip())), st.data())
def test_lines_do_not_depend_on_where_the_stream_was_cut(sent: list[bytes], data: st.DataObject):
    stream = b"".join(line + b"\n" for line in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    assert fed(*chunks, longest_bytes=10_000) == sent


def test_empty_lines_are_left_out():
    assert fed(b"\n\r\n a\n\n") == [b" a"]


def test_the_rest_is_reported():
    lines = LineSplitter()
    assert list(lines.feed(b"a\nb")) == [b"a"]
    assert not lines.is_empty
    assert list(lines.feed(b"\n")) == [b"b"]
    assert lines.is_empty
