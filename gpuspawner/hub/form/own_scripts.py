"""The package's own scripts without what only readers of the source need: comments, marks and space without meaning.

A reader of JavaScript for our own files, not for anybody's: after a bracket that closes, a slash is taken for a
division, and no statement is empty. What is exported is so for tests alone, and what is constant for readers alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_WORD = re.compile(r"[\w$]+")
_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_TEXT = re.compile(r"""(["'])(?:(?!\1)[^\\\n]|\\.)*\1""")
_REGULAR = re.compile(r"/(?![*/])(?:[^\\/\[\n]|\\.|\[(?:[^\\\]\n]|\\.)*\])+/[a-z]*")
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)", re.DOTALL)
"""A part of a template literal: to its end, or to where an expression begins."""
_BEFORE_A_VALUE = frozenset({"await", "case", "in", "of", "return", "throw", "typeof"})
_GOES_ON_AFTER = frozenset(";{,([=<>&|?:*%!")
"""No statement ends with one of these, and so none ends at the line that does. ``+`` is not one: ``a++``."""
_GOES_ON_BEFORE = frozenset("});],.?:=<>&|*%")
"""No statement begins with one of these, so that a line break before it ends none; ``}`` ends one without."""
_BEGINS = frozenset({"async", "const", "for", "function", "if", "let", "return", "throw", "try"})
"""A statement begins with one of these, and the one before ends with a mark or the brace of its block."""


def shortened(source: str) -> str:
    """Return a script that means the same, with as little in it as our style allows."""
    spaces, pieces = _apart(source)
    pieces = _declared_together(pieces)
    written: list[str] = []
    for at, piece in enumerate(pieces):
        if _is_idle(pieces, at):
            # What stood before it now stands before the next one.
            if at + 1 < len(pieces):
                spaces[at + 1] = spaces[at] or spaces[at + 1]
            continue
        if written and spaces[at] and _is_needed(spaces[at], before=written[-1], after=piece):
            written.append(spaces[at])
        written.append(piece)
    return "".join([*written, "\n"])


def _apart(source: str) -> tuple[list[str], list[str]]:
    """Return all that is no space, and before it what was: a blank, a new line or nothing for each."""
    spaces, pieces = [""], list[str]()
    for piece in _pieces(source):
        if _SPACE.fullmatch(piece):
            spaces[-1] = "\n" if "\n" in piece else " "
        else:
            pieces.append(piece)
            spaces.append("")
    return spaces, pieces


def _declared_together(pieces: list[str]) -> list[str]:
    """Return the same pieces with ``let`` for ``const``; where one declaration follows another, a comma and nothing."""
    found = list(pieces)
    is_declared = [False]  # for each bracket that is open: whether the statement that we are in is a declaration
    for at, (before, piece) in enumerate(pairwise(["{", *pieces])):
        if before[0] in "})]":
            is_declared.pop()
        if before in {"{", "(", "["} or before.endswith("${"):
            is_declared.append(False)
        if piece not in {"const", "let"}:
            is_declared[-1] = is_declared[-1] and before != ";"
            continue
        if before == ";" and is_declared[-1]:
            found[at - 1 : at + 1] = [",", ""]
        else:
            found[at] = "let"
        is_declared[-1] = before in {"{", ";"}
    return found


def _is_idle(pieces: list[str], at: int) -> bool:
    """Tell whether a piece could as well be missing: a statement's last mark, brackets around a single parameter."""
    piece, following = pieces[at], pieces[at + 1 : at + 5]
    if piece in {"", ";"}:
        return not piece or following[:1] == ["}"]
    if piece == "export":
        return following[:1] == ["function"]
    if piece == "(":
        return _is_single(following) and (at == 0 or not _is_word(pieces[at - 1][-1]))
    return piece == ")" and pieces[max(at - 2, 0)] == "(" and _is_idle(pieces, at - 2)


def _is_single(following: list[str]) -> bool:
    return _WORD.fullmatch(following[0]) is not None and following[1:] == [")", "=", ">"]


def _is_needed(space: str, *, before: str, after: str) -> bool:
    """Tell whether two pieces would be something else without what is between them: a blank, or a new line."""
    last, first = before[-1], after[0]
    if space == "\n" and last not in _GOES_ON_AFTER and first not in _GOES_ON_BEFORE:
        return last != "}" or after not in _BEGINS
    if first == ".":
        return before.isdigit()
    return (_is_word(last, before) and _is_word(first)) or (last == first and first in "+-/")


def _is_word(letter: str, piece: str = "") -> bool:
    """Tell whether a letter goes on with the next one; a regular expression does, with its flags."""
    return _WORD.fullmatch(letter) is not None or _REGULAR.fullmatch(piece) is not None


def _pieces(source: str) -> Iterator[str]:
    """Yield words, texts, marks and what is between them, all of the source."""
    depths: list[int] = []  # of each template literal that is open: how many braces are, in its expression
    at, before = 0, ""
    while at < len(source):
        piece = _piece(source, at, before=before)
        if piece == "}" and depths and depths[-1] == 0:
            depths.pop()
            piece += _match(_TEMPLATE, source, at=at + 1)
        elif piece in ("{", "}") and depths:
            depths[-1] += 1 if piece == "{" else -1
        elif piece == "`":
            piece += _match(_TEMPLATE, source, at=at + 1)
        if piece.endswith("${"):
            depths.append(0)
        yield piece
        at += len(piece)
        before = before if _SPACE.fullmatch(piece) else piece


def _piece(source: str, at: int, *, before: str) -> str:
    """Return what begins at a place; of a template literal its first letter, and a mark alone."""
    kinds = [_SPACE, _WORD, _TEXT]
    if not before or before in _BEFORE_A_VALUE or not (before[-1] in ")]}`'\"" or _is_word(before[-1], before)):
        kinds.append(_REGULAR)
    return next((found for kind in kinds if (found := _match(kind, source, at=at))), source[at])


def _match(pattern: re.Pattern[str], source: str, *, at: int) -> str:
    found = pattern.match(source, at)
    return found.group() if found else ""
