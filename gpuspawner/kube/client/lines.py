"""Takes a stream of bytes apart into lines, whatever sizes it arrives in."""

from __future__ import annotations

from collections.abc import Iterator

MAX_LINE_BYTES = 16 * 1024 * 1024
"""An object in etcd has 1.5 MiB at most (its ``--max-request-bytes``); as JSON it is a few times that at worst."""


class LineTooLongError(Exception):
    """A line does not end; it is no event of a watch."""


class LineSplitter:
    """Collects bytes until a line is complete. What is left when the stream ends is no line."""

    def __init__(self, *, longest_bytes: int = MAX_LINE_BYTES) -> None:
        self._longest_bytes = longest_bytes
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Nothing of a line has arrived that is not complete."""
        return not self._begun

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in this chunk, without empty ones; has to be read to its end.

        :raises LineTooLongError: a line has more bytes than allowed.
        """
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*self._begun, end))
            self._begun, self._begun_bytes = [], 0
            if line.strip():
                yield line
        if rest:
            self._begun.append(rest)
            self._begun_bytes += len(rest)
        if self._begun_bytes > self._longest_bytes:
            raise LineTooLongError(f"more than {self._longest_bytes} bytes")
