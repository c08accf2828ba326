"""Breaks right values files, each time in one place, and says where: every kind of mistake at every key it fits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

# The parser in C, where there is one: it is asked a thousand times whether two files say the same.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NULL = "tag:yaml.org,2002:null"
SECTION = ("hub", "config", "GPUSpawner")
# Below these, keys are names that admins give, so that another one is as right.
NAMED = {"images", "priorities", "gpus", "presets", "pools", "accelerators", "groups", "users", "environment", "labels"}
NAMED |= {"match"}

# Numbers without an upper limit.
_BELOW_A_MAXIMUM = {"min", "step"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One mistake.

    :param path: of what was changed, as it is called afterwards.
    :param lines: first and last line at which it may be told.
    """

    name: str
    text: str
    path: tuple[str, ...]
    lines: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A key of a values file, and what stands behind it.

    :param block: it begins its line, so that whole lines can be moved.
    """

    path: tuple[str, ...]
    key: Any
    value: Any
    block: bool
    lines: list[str]

    @property
    def first(self) -> int:
        return int(self.key.start_mark.line)

    @property
    def last(self) -> int:
        end = self.value.end_mark
        line = end.line - 1 if end.column == 0 or not self.lines[end.line][: end.column].strip() else end.line
        while line > self.first and not self.lines[line].strip():
            line -= 1
        return max(int(line), self.first)

    @property
    def after(self) -> int:
        """The next line with something on it, where a parser may be the first to see what is wrong."""
        rest = range(self.last + 1, len(self.lines))
        return next((line for line in rest if self.lines[line].split("#")[0].strip()), self.last + 1)

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.value, yaml.ScalarNode)

    @property
    def is_named(self) -> bool:
        return len(self.path) > 1 and self.path[-2] in NAMED

    def mutation(self, kind: str, text: str, *, path: tuple[str, ...] | None = None) -> Mutation:
        return Mutation(
            name=f"{kind}: {'.'.join(self.path)}",
            text=text,
            path=path or self.path,
            lines=(self.first + 1, self.after + 1),
        )

    def with_key(self, key: str) -> str:
        return _replaced(self.lines, self.key, key)

    def with_value(self, value: str) -> str:
        """Return the file with another value, on the line of the key where it was below it."""
        if self.is_scalar or self.value.flow_style:
            return _replaced(self.lines, self.value, value)
        kept = self.lines[self.first][: self.key.end_mark.column]
        return "".join([*self.lines[: self.first], f"{kept}: {value}\n", *self.lines[self.last + 1 :]])

    def with_lines(self, change: Any, *, of: range) -> str:
        lines = list(self.lines)
        for number in of:
            lines[number] = change(lines[number])
        return "".join(lines)


def mutations(text: str) -> Iterator[Mutation]:
    """Yield every mutation of a values file."""
    for spot in spots(text):
        yield from _of_key(spot)
        yield from _of_value(spot)
        if spot.block:
            yield from _of_lines(spot)


def spots(text: str) -> Iterator[Spot]:
    """Yield the keys of gpuspawner's section and above it."""
    lines = text.splitlines(keepends=True)
    yield from _spots(yaml.compose(text, Loader=yaml.SafeLoader), (), lines)


def _spots(node: Any, path: tuple[str, ...], lines: list[str]) -> Iterator[Spot]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        here = (*path, key.value)
        if here[:3] not in (SECTION, SECTION[:2], SECTION[:1]) and here[:2] != SECTION[:2]:
            continue
        before = lines[key.start_mark.line][: key.start_mark.column]
        yield Spot(path=here, key=key, value=value, block=not before.strip(), lines=lines)
        yield from _spots(value, here, lines)


def _of_key(spot: Spot) -> Iterator[Mutation]:
    name = spot.path[-1]
    if spot.is_named or spot.key.style:
        return
    typos = {
        "letter too many": f"{name}x",
        "letter missing": name[:-2] + name[-1],
        "letters swapped": name[:-2] + name[-1] + name[-2],
        "wrong case": name.swapcase(),
        "hyphen for underscore": name.replace("_", "-"),
        "capital": name[:1].upper() + name[1:],
    }
    for kind, wrong in typos.items():
        if wrong not in (name, ""):
            yield spot.mutation(kind, spot.with_key(wrong), path=(*spot.path[:-1], wrong))
    yield spot.mutation("colon missing", _without_colon(spot))


def _of_value(spot: Spot) -> Iterator[Mutation]:
    name = spot.path[-1]
    if spot.path[:3] != SECTION or spot.path == SECTION:
        return
    if spot.is_scalar:
        yield spot.mutation("mapping for a scalar", spot.with_value("{a: 1}"))
        if name not in ("gpus", "images") and spot.path[-2] != "match":
            yield spot.mutation("list for a scalar", spot.with_value("[[1]]"))
        if spot.value.tag != NULL:
            yield spot.mutation("null", spot.with_value(""))
        yield spot.mutation("unknown alias", spot.with_value("*nowhere"))
        yield spot.mutation("unknown tag", spot.with_value(f"!secret {spot.value.value or 1}"))
        yield spot.mutation("quote not closed", spot.with_value('"' + str(spot.value.value)))
        yield from _amounts(spot)
    elif isinstance(spot.value, yaml.SequenceNode):
        yield spot.mutation("mapping for a list", spot.with_value("{a: {b: 1}}"))
        yield spot.mutation("number for a list", spot.with_value("17"))
    else:
        yield spot.mutation("list for a mapping", spot.with_value("[[1]]"))
        yield spot.mutation("number for a mapping", spot.with_value("17"))


def _amounts(spot: Spot) -> Iterator[Mutation]:
    value, plain = spot.value.value, spot.value.style is None
    if plain and re.fullmatch(r"[0-9.]+[A-Za-z]", value):
        yield spot.mutation("unknown unit", spot.with_value(f"{value[:-1]}Q"))
        if spot.path[-1] in _BELOW_A_MAXIMUM:
            yield spot.mutation("impossible bound", spot.with_value(f"9000000{value[-1]}"))
        yield spot.mutation("negative", spot.with_value(f"-{value}"))
    elif plain and re.fullmatch(r"[0-9.]+", value):
        yield spot.mutation("word for a number", spot.with_value("many"))
        if spot.path[-1] not in ("value", "order"):
            yield spot.mutation("negative", spot.with_value(f"-{value}"))
            if spot.path[-1] in _BELOW_A_MAXIMUM:
                yield spot.mutation("impossible bound", spot.with_value("9000000"))
    elif value in ("true", "false") and plain:
        yield spot.mutation("word for true", spot.with_value("maybe"))
    elif spot.value.style and re.fullmatch(r"[0-9]+\.[0-9]+", value):
        yield spot.mutation("version without quotes", spot.with_value(value))


def _of_lines(spot: Spot) -> Iterator[Mutation]:
    own = range(spot.first, spot.last + 1)
    shifts: dict[str, str] = {"tab for spaces": spot.with_lines(lambda line: "\t" + line.lstrip(" "), of=own[:1])}
    if spot.key.start_mark.column:
        shifts["one space less"] = spot.with_lines(lambda line: line[1:], of=own[:1])
        shifts["one step out"] = spot.with_lines(lambda line: line[2:], of=own)
    shifts["one space more"] = spot.with_lines(lambda line: f" {line}", of=own[:1])
    yield from (spot.mutation(kind, text) for kind, text in shifts.items() if not _is_the_same(text, spot.lines))
    twice = list(spot.lines)
    twice[spot.last + 1 : spot.last + 1] = spot.lines[spot.first : spot.last + 1]
    length = spot.last - spot.first + 1
    found = spot.mutation("twice", "".join(twice))
    yield Mutation(name=found.name, text=found.text, path=found.path, lines=(found.lines[0], found.lines[1] + length))


def _without_colon(spot: Spot) -> str:
    lines = list(spot.lines)
    line, end = lines[spot.first], spot.key.end_mark.column
    lines[spot.first] = line[:end] + line[end:].replace(":", "", 1)
    return "".join(lines)


def _is_the_same(text: str, lines: list[str]) -> bool:
    """Tell whether two files say the same, as the only key of a mapping may stand anywhere below it."""
    try:
        return bool(yaml.load(text, LOADER) == _said("".join(lines)))
    except yaml.YAMLError:
        return False


@cache
def _said(text: str) -> Any:
    return yaml.load(text, LOADER)


def _replaced(lines: list[str], node: Any, new: str) -> str:
    text = "".join(lines)
    return text[: node.start_mark.index] + new + text[node.end_mark.index :]
