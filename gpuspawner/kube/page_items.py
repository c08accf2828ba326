"""Takes a list answer apart object by object, so that parsing a page of megabytes can be done in slices.

``json.loads`` on a page of 500 pods is one call of 50 ms and more in which the event loop stands still, and keeps all
of them in memory at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def members(text: str) -> Iterator[tuple[str, object]]:
    """Yield the members of a JSON object in their order; those of the array ``items`` one by one, all under that name.

    An array ``items`` without elements is yielded as ``("items", [])``: a list that is empty is something else than an
    answer that has none.

    :raises ValueError: ``text`` is no JSON object; what was before the mistake has been yielded then.
    """
    at = _expect(text, _space(text, 0), character="{")
    if text.startswith("}", at):
        _end(text, at + 1)
        return
    while True:
        name, at = _value(text, at)
        if not isinstance(name, str):
            raise _error("a name is no text", text=text, at=at)
        at = _expect(text, at, character=":")
        if name == "items" and text.startswith("[", at):
            elements = _Elements(text, at)
            for element in elements:
                yield name, element
            if not elements.count:
                yield name, []
            at = elements.at
        else:
            value, at = _value(text, at)
            yield name, value
        if text.startswith("}", at):
            _end(text, at + 1)
            return
        at = _expect(text, at, character=",")


class _Elements:
    """Iterates over the elements of a JSON array; afterwards ``at`` is where the text goes on."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at
        self.count = 0

    def __iter__(self) -> Iterator[object]:
        text, at = self._text, _expect(self._text, self.at, character="[")
        is_over = text.startswith("]", at)
        while not is_over:
            element, at = _value(text, at)
            self.count += 1
            yield element
            is_over = text.startswith("]", at)
            if not is_over:
                at = _expect(text, at, character=",")
        self.at = _space(text, at + 1)


def _value(text: str, at: int) -> tuple[object, int]:
    try:
        value, at = _DECODER.raw_decode(text, at)
    except RecursionError as error:
        raise _error("nested too deeply", text=text, at=at) from error
    return value, _space(text, at)


def _expect(text: str, at: int, *, character: str) -> int:
    if not text.startswith(character, at):
        raise _error(f"no {character!r}", text=text, at=at)
    return _space(text, at + 1)


def _end(text: str, at: int) -> None:
    if _space(text, at) != len(text):
        raise _error("more after the end", text=text, at=at)


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _error(problem: str, *, text: str, at: int) -> ValueError:
    return json.JSONDecodeError(problem, text, at)
