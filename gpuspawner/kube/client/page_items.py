"""Takes a list answer apart object by object while it arrives, of which only what is not understood yet is kept.

``json.loads`` on a page of 500 pods is one call of 50 ms and more in which the event loop stands still, and keeps all
of them in memory at once. Even to put its megabytes together into one text holds the loop up where memory is new.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from gpuspawner.kube.client.lines import LONGEST_LINE_BYTES
from gpuspawner.kube.client.managed_fields import without_managers

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|["\[\]{}]', re.DOTALL)
"""A bracket, a whole string, or the beginning of one that has no end yet."""
_LONGEST_END = len("e+")
"""Of a number that is cut: what may stand there that is none without what follows."""


async def members(pieces: AsyncIterator[str]) -> AsyncGenerator[tuple[str, object], None]:
    """Yield the members of a JSON object in their order; those of the array ``items`` one by one, all under that name.

    An array ``items`` without elements is yielded as ``("items", [])``: a list that is empty is something else than an
    answer that has none.

    What is nested too deeply to be read is yielded as null: one such object takes no others away.

    :param pieces: the text, cut anywhere.
    :raises ValueError: it is no JSON object; what was before the mistake has been yielded then.
    """
    text = _Text(pieces)
    await text.take("{")
    is_over = await text.follows("}")
    while not is_over:
        name = await text.value()
        if not isinstance(name, str):
            raise text.error("a name is no text")
        await text.take(":")
        if name == "items" and await text.follows("["):
            has_any = False
            async with aclosing(_elements(text)) as elements:
                async for element in elements:
                    yield name, element
                    has_any = True
            if not has_any:
                yield name, []
        else:
            yield name, await text.value()
        is_over = await text.follows("}")
        if not is_over:
            await text.take(",")
    await text.take("}")
    await text.end()


async def _elements(text: _Text) -> AsyncGenerator[object, None]:
    await text.take("[")
    is_over = await text.follows("]")
    while not is_over:
        yield await text.value()
        is_over = await text.follows("]")
        if not is_over:
            await text.take(",")
    await text.take("]")


class _Text:
    """A text as far as it has arrived, without what was taken of it."""

    def __init__(self, pieces: AsyncIterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0

    async def value(self) -> object:
        """Take the next JSON value."""
        await self._next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                return await self._deep()
            except ValueError:
                if not await self._read_on():
                    raise
                continue
            # A number may go on in the next piece.
            is_cut = isinstance(value, int | float) and end + _LONGEST_END >= len(self._text)
            if is_cut and await self._read_on():
                continue
            self._at = end
            return value

    async def follows(self, character: str) -> bool:
        """Tell whether this is what comes next, besides spaces."""
        return await self._next() == character

    async def take(self, character: str) -> None:
        """Take a character that has to come next."""
        if await self._next() != character:
            raise self.error(f"no {character!r}")
        self._at += 1

    async def end(self) -> None:
        """Make sure that nothing more comes."""
        if await self._next():
            raise self.error("more after the end")

    def error(self, problem: str) -> ValueError:
        """Return an error about the place that was reached."""
        return json.JSONDecodeError(problem, self._text, self._at)

    async def _deep(self) -> object:
        """Take a value of which Python cannot read all: without its managers if that will do, else as null."""
        while (end := self._end()) is None:
            if not await self._read_on():
                raise self.error("nested too deeply")
        written, self._at = self._text[self._at : end], end
        try:
            value: object = json.loads(without_managers(written.encode(errors="replace")))
        except (ValueError, RecursionError):
            return None
        return value

    def _end(self) -> int | None:
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

    async def _next(self) -> str:
        """Return the next character that is no space, empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not await self._read_on():
                return self._text[self._at : self._at + 1]

    async def _read_on(self) -> bool:
        """Read at least as much again as is there, so that a long value is not tried for each piece; False at the end.

        What was taken is dropped.

        :raises ValueError: what is there is longer than any object can be.
        """
        rest = self._text[self._at :]
        if len(rest) > LONGEST_LINE_BYTES:
            raise self.error("too long")
        read, number = [rest], 0
        async for piece in self._pieces:
            read.append(piece)
            number += len(piece)
            if number and number >= len(rest):
                break
        if number:
            self._text, self._at = "".join(read), 0
        return number > 0
