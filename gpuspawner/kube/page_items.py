"""Takes a list answer apart object by object while it arrives, of which only what is not understood yet is kept.

``json.loads`` on a page of 500 pods is one call of 50 ms and more in which the event loop stands still, and keeps all
of them in memory at once. Even to put its megabytes together into one text holds the loop up where memory is new.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


async def members(pieces: AsyncIterator[str]) -> AsyncIterator[tuple[str, object]]:
    """Yield the members of a JSON object in their order; those of the array ``items`` one by one, all under that name.

    An array ``items`` without elements is yielded as ``("items", [])``: a list that is empty is something else than an
    answer that has none.

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
            async for element in _elements(text):
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


async def _elements(text: _Text) -> AsyncIterator[object]:
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
            except RecursionError as error:
                raise self.error("nested too deeply") from error
            except ValueError:
                if not await self._read_on():
                    raise
                continue
            # A number may go on in the next piece.
            if end == len(self._text) and await self._read_on():
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
        """
        rest = self._text[self._at :]
        read, number = [rest], 0
        async for piece in self._pieces:
            read.append(piece)
            number += len(piece)
            if number and number >= len(rest):
                break
        self._text, self._at = "".join(read), 0
        return number > 0
