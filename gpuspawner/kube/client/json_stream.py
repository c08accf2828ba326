"""Parses the JSON of a list response, or splits a watch response into lines, while the response's chunks arrive.

``json.loads`` on a page of 500 pods blocks the event loop for at least 50 ms and keeps all pods in memory at once.
:func:`parse_members` yields one object at a time and keeps only the text that it has not parsed yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Maximum size of an unfinished line (in bytes) or of an unfinished JSON value (in characters). Kubernetes objects are
smaller: etcd accepts up to 1.5 MiB (``--max-request-bytes``), and an object's JSON is at most a few times as long."""


class LineTooLongError(Exception):
    """A line exceeds the allowed length, so the response is not a watch of Kubernetes objects."""


class LineSplitter:
    """Splits a byte stream into lines; a last line without a newline at its end is never yielded.

    :param longest_bytes: greatest number of bytes that an unfinished line may have.
    """

    def __init__(self, *, longest_bytes: int = MAX_LINE_BYTES) -> None:
        self._longest_bytes = longest_bytes
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether no unfinished line waits for the next chunk: the last chunk ended with a newline."""
        return not self._begun

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the non-empty lines that end in this chunk; the caller must exhaust the iterator.

        :param chunk: the next bytes of the stream.
        :raises LineTooLongError: the unfinished line has too many bytes.
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
    """Return the JSON of an object without ``metadata.managedFields``, which is half of a pod's bytes.

    The API server writes ``managedFields`` last in the metadata and ``spec`` right after the metadata. JSON escapes
    quotes in strings, so a search for a quoted key cannot match inside a string. If the function does not find both
    keys in this order, it returns the text unchanged.
    https://kubernetes.io/docs/reference/using-api/server-side-apply/#managed-fields

    :param text: JSON of an object or of a watch event, UTF-8.
    """
    begin = text.find(b',"managedFields":[')
    end = text.find(b']},"spec":{', begin)
    return text if begin < 0 or end < 0 else text[:begin] + text[end + 1 :]


_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|["\[\]{}]', re.DOTALL)
"""Matches a bracket, a complete string, or the opening quote of a string whose end has not arrived."""
_LONGEST_END = len("e+")
"""Maximum number of characters that ``raw_decode`` leaves unread at the end of a text that ends inside a number.

For ``1e+``, for example, ``raw_decode`` reads only the ``1``."""


async def parse_members(pieces: AsyncIterator[str]) -> AsyncGenerator[tuple[str, object], None]:
    """Yield the members of a JSON object in order, and the elements of its array ``items`` one at a time.

    Each element is yielded as ``("items", element)``. An empty array is yielded as ``("items", [])``, so that the
    caller can tell an empty array from a missing array. An element that is nested too deeply for Python is yielded as
    ``("items", None)``.

    :param pieces: the JSON text, cut into pieces at any position.
    :raises ValueError: the text is not a JSON object; members before the error have been yielded.
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
    def __init__(self, pieces: AsyncIterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0

    async def read_value(self) -> object:
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
            # The next piece may continue the number: of "1e+", raw_decode reads only the "1".
            is_cut = isinstance(value, int | float) and end + _LONGEST_END >= len(self._text)
            if is_cut and await self._read_more():
                continue
            self._at = end
            return value

    async def is_next(self, character: str) -> bool:
        return await self._peek() == character

    async def expect(self, character: str) -> None:
        if await self._peek() != character:
            raise self.make_error(f"no {character!r}")
        self._at += 1

    async def expect_end(self) -> None:
        if await self._peek():
            raise self.make_error("more after the end")

    def make_error(self, problem: str) -> ValueError:
        return json.JSONDecodeError(problem, self._text, self._at)

    async def _read_deep_value(self) -> object:
        """Parse a too deeply nested value again, but without ``managedFields``; return None if that fails, too."""
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
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not await self._read_more():
                return self._text[self._at : self._at + 1]

    async def _read_more(self) -> bool:
        """Append pieces until the unread text has doubled; return whether there was a piece to append.

        Because the text doubles, parsing a long value takes few attempts.
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
