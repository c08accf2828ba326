"""Pairs the choices of two values files, and compares the pods of each pair field by field."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from gpuspawner.cli.cluster.offline_spawner import share_connection
from gpuspawner.cli.diff.choices import UserOptions, count_choices, list_choices
from gpuspawner.cli.diff.sides import REFUSAL, Side, open_side
from gpuspawner.cli.values.chart_config import list_omissions
from gpuspawner.cli.values.helm_values import HelmValues
from gpuspawner.cli.values.trait_sources import locate_problems
from gpuspawner.core.errors import SettingsError
from gpuspawner.core.units.quantity import format_memory

_NO_HOST = "http://127.0.0.1:9"
"""API server's address for the client that KubeSpawner needs; the client never sends a request."""
_LONGEST = 120


class ChoiceOutcome(StrEnum):
    """What the new values file changes about one choice."""

    SAME = "same"
    REFUSED = "refused by both"
    DIFFERENT = "different"
    ONLY_OLD = "only old"
    ONLY_NEW = "only new"


class Difference(NamedTuple):
    """One field that differs, such as ``spec.nodeSelector.pool``, and its old and new value as text."""

    field: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceResult:
    """What the new values file changes about one choice.

    :param choice: text that names the choice.
    :param options: the user options of the choice; if both files have it, with the old file.
    """

    choice: str
    options: UserOptions
    outcome: ChoiceOutcome
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonReport:
    """The comparison of two values files.

    :param results: the tried choices of the old file, then those that only the new file has.
    :param totals: how many choices users have with the old file and with the new one.
    :param limit: how many choices of each file were tried at most.
    :param left_out: sentences about what is not compared.
    """

    results: tuple[ChoiceResult, ...]
    totals: tuple[int, int]
    limit: int
    left_out: tuple[str, ...]

    @property
    def counts(self) -> Mapping[ChoiceOutcome, int]:
        """Outcome → number of choices with this outcome; an outcome that no choice has is missing."""
        counts = Counter(result.outcome for result in self.results)
        return {outcome: counts[outcome] for outcome in ChoiceOutcome if counts[outcome]}

    @property
    def is_same(self) -> bool:
        """Whether no choice differs. A choice that the hub refuses with both files does not differ."""
        return self.counts.keys() <= {ChoiceOutcome.SAME, ChoiceOutcome.REFUSED}

    def serialize(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "choices": [
                {
                    "choice": result.choice,
                    "options": dict(result.options),
                    "outcome": result.outcome.value,
                    "differences": [difference._asdict() for difference in result.differences],
                }
                for result in self.results
            ],
            "counts": {outcome.value: number for outcome, number in self.counts.items()},
            "totals": dict(zip(("old", "new"), self.totals, strict=True)),
            "limit": self.limit,
            "left_out": list(self.left_out),
        }


def compare_values(old: HelmValues, new: HelmValues, *, limit: int) -> ComparisonReport:
    """Compare at most so many choices of two values files. The function needs no cluster, and runs its own event loop.

    :raises SettingsError: KubeSpawner or gpuspawner does not accept the values.
    """
    return asyncio.run(_compare(old, new, limit=limit))


async def _compare(old: HelmValues, new: HelmValues, *, limit: int) -> ComparisonReport:
    async with ApiClient(Configuration(host=_NO_HOST)) as client:
        with share_connection(CoreV1Api(client)):
            before, after = _open_side(old), _open_side(new)
            results = tuple([result async for result in _compare_choices(before, after, limit=limit)])
    left_out = (*before.left_out, *after.left_out, *list_omissions(old.chart), *list_omissions(new.chart))
    totals = count_choices(before.menus), count_choices(after.menus)
    return ComparisonReport(results=results, totals=totals, limit=limit, left_out=tuple(dict.fromkeys(left_out)))


def _open_side(values: HelmValues) -> Side:
    try:
        return open_side(values)
    except SettingsError as error:  # Name the file: the other one may be right.
        raise SettingsError(*(finding.problem for finding in locate_problems(error.problems, values))) from error


async def _compare_choices(old: Side, new: Side, *, limit: int) -> AsyncIterator[ChoiceResult]:
    for choice in islice(list_choices(old.menus), limit):
        options = choice.find_options(old.menus)
        counterpart = choice.find_counterpart(old.menus, new.menus)
        if counterpart is None:
            yield ChoiceResult(choice=choice.label, options=options, outcome=ChoiceOutcome.ONLY_OLD)
            continue
        before, after = await old.build(options), await new.build(counterpart.find_options(new.menus))
        outcome, differences = _judge_pods(before, after)
        yield ChoiceResult(choice=choice.label, options=options, outcome=outcome, differences=differences)
    for choice in islice(list_choices(new.menus), limit):
        if choice.find_counterpart(new.menus, old.menus) is None:
            options = choice.find_options(new.menus)
            yield ChoiceResult(choice=choice.label, options=options, outcome=ChoiceOutcome.ONLY_NEW)


def _judge_pods(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[ChoiceOutcome, tuple[Difference, ...]]:
    if REFUSAL in old or REFUSAL in new:  # Against a refusal, all fields of a pod would be new.
        old, new = ({REFUSAL: pod.get(REFUSAL)} for pod in (old, new))
    differences = tuple(_list_differences(old, new))
    return (
        ChoiceOutcome.DIFFERENT if differences else ChoiceOutcome.REFUSED if REFUSAL in old else ChoiceOutcome.SAME
    ), differences


def _list_differences(old: Any, new: Any, *, field: str = "") -> Iterator[Difference]:
    """Yield the fields in which two JSON values differ. Entries of a list are compared by name, else by position."""
    if old == new:
        return
    before, after = _index(old), _index(new)
    if before is None or after is None:
        yield Difference(field, _format(field, old), _format(field, new))
        return
    for key in dict.fromkeys((*before, *after)):
        path = f"{field}.{key}" if field else key
        yield from _list_differences(before.get(key), after.get(key), field=path)


def _index(value: Any) -> Any:
    """Return the parts of a mapping or list: name or position → part; None for any other value."""
    if not isinstance(value, list):
        return value if isinstance(value, Mapping) else None
    names = [str(part["name"]) if isinstance(part, Mapping) and "name" in part else "" for part in value]
    if "" in names or len({*names}) < len(names):
        return {str(position): part for position, part in enumerate(value)}
    # An environment variable is its value.
    return {str(part["name"]): part["value"] if part.keys() == {"name", "value"} else part for part in value}


def _format(field: str, value: Any) -> str:
    if value in (None, ""):
        return "absent"
    if field.endswith(".memory") and isinstance(value, int):
        return format_memory(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
