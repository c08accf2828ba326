"""Takes a list answer apart object by object while it arrives, of which only what is not understood yet is kept.

``json.loads`` on a page of 500 pods is one call of 50 ms and more in which the event loop stands still, and keeps all
of them in memory at once. Even to put its megabytes together into one text holds the loop up where memory is new.

Takes a stream of bytes apart into lines, whatever sizes it arrives in.

Leaves out of an object's JSON who wrote which of its fields: half of a pod's bytes, of which nothing is read.

https://kubernetes.io/docs/reference/using-api/server-side-apply/#managed-fields
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing

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


def strip_managed_fields(text: bytes) -> bytes:
    """Return an object, or an event with one, without ``metadata.managedFields``.

    The API server writes it as the last of the metadata, and ``spec`` next. Neither text can stand inside of a JSON
    string, where quotes are escaped. Where they are not found this way, nothing is left out.
    """
    begin = text.find(b',"managedFields":[')
    end = text.find(b']},"spec":{', begin)
    return text if begin < 0 or end < 0 else text[:begin] + text[end + 1 :]


_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|["\[\]{}]', re.DOTALL)
"""A bracket, a whole string, or the beginning of one that has no end yet."""
_LONGEST_END = len("e+")
"""Of a number that is cut: what may stand there that is none without what follows."""


async def parse_members(pieces: AsyncIterator[str]) -> AsyncGenerator[tuple[str, object], None]:
    """Yield the members of a JSON object in their order; those of the array ``items`` one by one, all under that name.

    An array ``items`` without elements is yielded as ``("items", [])``: a list that is empty is something else than an
    answer that has none.

    What is nested too deeply to be read is yielded as null: one such object takes no others away.

    :param pieces: the text, cut anywhere.
    :raises ValueError: it is no JSON object; what was before the mistake has been yielded then.
    """
    text = _JSONReader(pieces)
    await text.expect("{")
    is_over = await text.is_next("}")
    while not is_over:
        name = await text.read_value()
        if not isinstance(name, str):
            raise text.make_error("a name is no text")
        await text.expect(":")
        if name == "items" and await text.is_next("["):
            has_any = False
            async with aclosing(_parse_elements(text)) as elements:
                async for element in elements:
                    yield name, element
                    has_any = True
            if not has_any:
                yield name, []
        else:
            yield name, await text.read_value()
        is_over = await text.is_next("}")
        if not is_over:
            await text.expect(",")
    await text.expect("}")
    await text.expect_end()


async def _parse_elements(text: _JSONReader) -> AsyncGenerator[object, None]:
    await text.expect("[")
    is_over = await text.is_next("]")
    while not is_over:
        yield await text.read_value()
        is_over = await text.is_next("]")
        if not is_over:
            await text.expect(",")
    await text.expect("]")


class _JSONReader:
    """A text as far as it has arrived, without what was taken of it."""

    def __init__(self, pieces: AsyncIterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0

    async def read_value(self) -> object:
        """Take the next JSON value."""
        await self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                return await self._read_deep_value()
            except ValueError:
                if not await self._read_more():
                    raise
                continue
            # A number may go on in the next piece.
            is_cut = isinstance(value, int | float) and end + _LONGEST_END >= len(self._text)
            if is_cut and await self._read_more():
                continue
            self._at = end
            return value

    async def is_next(self, character: str) -> bool:
        """Tell whether this is what comes next, besides spaces."""
        return await self._peek() == character

    async def expect(self, character: str) -> None:
        """Take a character that has to come next."""
        if await self._peek() != character:
            raise self.make_error(f"no {character!r}")
        self._at += 1

    async def expect_end(self) -> None:
        """Make sure that nothing more comes."""
        if await self._peek():
            raise self.make_error("more after the end")

    def make_error(self, problem: str) -> ValueError:
        """Return an error about the place that was reached."""
        return json.JSONDecodeError(problem, self._text, self._at)

    async def _read_deep_value(self) -> object:
        """Take a value of which Python cannot read all: without its managers if that will do, else as null."""
        while (end := self._find_end()) is None:
            if not await self._read_more():
                raise self.make_error("nested too deeply")
        written, self._at = self._text[self._at : end], end
        try:
            value: object = json.loads(strip_managed_fields(written.encode(errors="replace")))
        except (ValueError, RecursionError):
            return None
        return value

    def _find_end(self) -> int | None:
        """Return where the value ends that begins with a bracket here, None where that has not arrived."""
        depth = 0
        for found in _BRACKET.finditer(self._text, self._at):
            sign = found.group()
            if sign == '"':
                return None
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(sign, 0)
            if not depth:
                return found.end()
        return None

    async def _peek(self) -> str:
        """Return the next character that is no space, empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not await self._read_more():
                return self._text[self._at : self._at + 1]

    async def _read_more(self) -> bool:
        """Read at least as much again as is there, so that a long value is not tried for each piece; False at the end.

        What was taken is dropped.

        :raises ValueError: what is there is longer than any object can be.
        """
        rest = self._text[self._at :]
        if len(rest) > MAX_LINE_BYTES:
            raise self.make_error("too long")
        read, number = [rest], 0
        async for piece in self._pieces:
            read.append(piece)
            number += len(piece)
            if number and number >= len(rest):
                break
        if number:
            self._text, self._at = "".join(read), 0
        return number > 0
