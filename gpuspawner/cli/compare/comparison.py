"""Compares two values files: which choices users have with each, which pods result, and who may have each choice.

The old side is the hub with the first values file, and the new side is the hub with the second one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from gpuspawner.cli.cluster.offline_spawner import share_connection
from gpuspawner.cli.compare.menu import UNLISTED, MenuMatch, Pick, ReachedPicks, draw_sample
from gpuspawner.cli.compare.pods import BY_DESIGN, Difference, list_differences
from gpuspawner.cli.compare.sides import HubAnswer, RefusedError, SettingsSide, Side, UncomparedError, open_side
from gpuspawner.cli.values.chart_config import list_omissions
from gpuspawner.cli.values.helm_values import HelmValues
from gpuspawner.cli.values.trait_sources import locate_problems
from gpuspawner.core.catalog.policy_model import Person, normalize_group
from gpuspawner.core.errors import SettingsError
from gpuspawner.core.text.wording import join_sentences

DEFAULT_LIMIT = 200
"""Default of ``--limit``: maximum number of choices of the old values file that the program compares."""
_MOST_PAIRED = 10
"""With at most this many groups, the comparison also checks a user in each pair of groups."""
_PATTERN = "text pattern"
_NO_HOST = "http://127.0.0.1:9"
"""API server's address for the client that KubeSpawner needs; the client never sends a request."""


class ChoiceOutcome(StrEnum):
    """What the new values file changes about one choice of a user."""

    SAME = "same"
    DIFFERS = "differs"
    WIDER = "wider access"
    NO_EQUIVALENT = "no equivalent"
    REMOVED = "removed"
    ADDED = "added"
    UNKNOWN = "not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicePair:
    """One choice as two sets of user options: for the hub with the old values file, and for the hub with the new one.

    :param label: text that names the choice.
    :param old_options: user options with the old file; empty = the user chooses nothing, None = the choice is new.
    :param new_options: user options with the new file; None = the new file has no equivalent of the choice.
    :param reason: text that says why there is no equivalent; may be empty.
    """

    label: str
    old_options: Mapping[str, object] | None
    new_options: Mapping[str, object] | None
    reason: str = ""


FindPair = Callable[[Mapping[str, object]], ChoicePair]
"""Function that takes a choice's user options for the old file, and adds the user options for the new file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceResult:
    """What the new values file changes about one choice of a user.

    :param pair: the choice, with its user options for both values files.
    :param outcome: what changes.
    :param differences: what differs between the two servers.
    :param gained: users who may have the choice only with the new file, such as ``group tutors``.
    :param lost: users who may have the choice only with the old file.
    :param reason: text that explains the outcome, such as why the choice has no equivalent; may be empty.
    """

    pair: ChoicePair
    outcome: ChoiceOutcome
    differences: tuple[Difference, ...] = ()
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    reason: str = ""

    @property
    def widens(self) -> bool:
        """Whether users may have something with the new file that they could not have with the old one.

        Also true if the regular expression for a text field is different: the new one may allow more texts.
        """
        return self.outcome in (ChoiceOutcome.WIDER, ChoiceOutcome.ADDED) or any(
            each.aspect == _PATTERN for each in self.differences
        )

    @property
    def changes_resources(self) -> bool:
        """Whether the server gets a different amount of CPU, memory or devices, or may run on different nodes."""
        return any(each.changes_resources for each in self.differences)

    @property
    def details(self) -> str:
        """Text that says what differs; empty if nothing does."""
        parts = [str(each) for each in self.differences]
        parts += [f"also for {each}" for each in self.gained]
        parts += [f"no longer for {each}" for each in self.lost]
        return "; ".join(filter(None, (*parts, self.reason)))

    def serialize(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "choice": self.pair.label,
            "old_options": None if self.pair.old_options is None else dict(self.pair.old_options),
            "new_options": None if self.pair.new_options is None else dict(self.pair.new_options),
            "outcome": self.outcome.value,
            "differences": [{"what": each.aspect, "old": each.old, "new": each.new} for each in self.differences],
            "gained": list(self.gained),
            "lost": list(self.lost),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonReport:
    """The comparison of two values files.

    :param results: the compared choices of the old file, in the file's order; then the choices that only the new file
        has and that a user may have.
    :param total: how many choices users have with the old file.
    :param tried: how many of the old file's choices were compared.
    :param seed: seed of the random sample, for files with too many choices.
    :param left_out: sentences about what is not compared.
    """

    results: tuple[ChoiceResult, ...]
    total: int
    tried: int
    seed: int
    left_out: tuple[str, ...] = ()

    @property
    def is_sampled(self) -> bool:
        """Whether only a part of the choices was compared."""
        return self.tried < self.total

    @property
    def counts(self) -> Mapping[ChoiceOutcome, int]:
        """Outcome → number of choices with this outcome; an outcome that no choice has is missing."""
        found = Counter(each.outcome for each in self.results)
        return {outcome: found[outcome] for outcome in ChoiceOutcome if found[outcome]}

    @property
    def is_same(self) -> bool:
        """Whether all choices are the same with both files."""
        return self.counts.keys() <= {ChoiceOutcome.SAME}

    def serialize(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "choices": [each.serialize() for each in self.results],
            "counts": {outcome.value: number for outcome, number in self.counts.items()},
            "total": self.total,
            "compared": self.tried,
            "seed": self.seed,
            "left_out": list(self.left_out),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which choices to compare, and how to find the equivalent of an old choice.

    :param find_pair: function that returns a choice with its user options for both files; None = find the equivalent by
        the keys and names in the files.
    :param is_conversion: whether the new file is a conversion of the old one. Choices without a counterpart then have
        the outcome "no equivalent" instead of "removed".
    :param old_is_helm: whether the hub gets the old file's values through Helm, which sorts the keys of mappings.
    :param limit: maximum number of choices to compare; if the old file has more, the program draws a random sample.
    :param seed: seed of the sample.
    """

    find_pair: FindPair | None = None
    is_conversion: bool = False
    old_is_helm: bool = True
    limit: int = DEFAULT_LIMIT
    seed: int = 0


def compare_values(old: HelmValues, new: HelmValues, *, scope: Scope | None = None) -> ComparisonReport:
    """Compare two values files and return a report. The function needs no cluster, and runs its own event loop.

    :param old: the values before a change.
    :param new: the values after it; for a converted file, the old values with the converted ones merged into them.
    :param scope: which choices to compare; None = the defaults of :class:`Scope`.
    :raises SettingsError: KubeSpawner or gpuspawner does not accept the values.
    """
    return asyncio.run(_compare(old, new, scope=scope or Scope()))


def _open_side(values: HelmValues, *, is_helm: bool = True) -> Side:
    try:
        return open_side(values, is_helm=is_helm)
    except SettingsError as error:  # Name the file: the other one may be right.
        raise SettingsError(*(finding.problem for finding in locate_problems(error.problems, values))) from error


async def _compare(old: HelmValues, new: HelmValues, *, scope: Scope) -> ComparisonReport:
    async with ApiClient(Configuration(host=_NO_HOST)) as client:
        with share_connection(CoreV1Api(client)):
            sides = _open_side(old, is_helm=scope.old_is_helm), _open_side(new)
            comparer = _Comparer(*sides, scope=scope)
            results = tuple([each async for each in comparer.compare()])
    by_design = (BY_DESIGN,) if any(isinstance(each, SettingsSide) for each in sides) else ()
    return ComparisonReport(
        results=results,
        total=comparer.sample.total + 1,
        tried=len(comparer.sample.picks) + 1,
        seed=scope.seed,
        left_out=(*by_design, *dict.fromkeys((*list_omissions(old.chart), *list_omissions(new.chart)))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _TriedPair:
    """A choice, and what a user picks for it in the menus of the old and the new file.

    ``old`` or ``new`` is None if that menu lacks the choice, or if the user chooses nothing.
    """

    pair: ChoicePair
    old: Pick | None = None
    new: Pick | None = None


class _Comparer:
    def __init__(self, old: Side, new: Side, *, scope: Scope) -> None:
        self._old, self._new, self._scope = old, new, scope
        self._match = MenuMatch(old.profiles, new.profiles)
        self.sample = draw_sample(old.profiles, limit=scope.limit, seed=scope.seed)
        self._persons = _list_persons(old, new)
        # For users who choose nothing, compare only the server of a user in all groups.
        self._person_of_all_groups = max(self._persons, key=lambda each: len(each.groups or ()))

    async def compare(self) -> Any:
        """Compare the choices one by one, and yield their results.

        Skip choices that only the new file offers and that no user may have.
        """
        nothing: Mapping[str, object] = {}
        pair = ChoicePair(label="No choice", old_options=nothing, new_options=nothing)
        if self._scope.find_pair is not None:
            pair = self._scope.find_pair(nothing)
        yield await self._compare_pair(_TriedPair(pair=pair))
        reached = ReachedPicks()
        for pick in self.sample.picks:
            tried = self._find_pair(pick)
            if tried.new is not None:
                reached.add(tried.new)
            yield await self._compare_pair(tried)
        limit = self._scope.limit if self.sample.is_complete else None
        for pick in reached.list_missing(self._new.profiles, limit=limit):
            options = self._new.make_options(pick)
            pair = ChoicePair(label=pick.label, old_options=None, new_options=options)
            result = await self._compare_pair(_TriedPair(pair=pair, new=pick))
            if result.outcome is not ChoiceOutcome.SAME:
                yield result

    def _find_pair(self, pick: Pick) -> _TriedPair:
        options = self._old.make_options(pick)
        if self._scope.find_pair is not None:
            pair = self._scope.find_pair(options)
            new = self._new.find_pick(pair.new_options) if pair.new_options is not None else None
            return _TriedPair(pair=pair, old=pick, new=new)
        new = self._match.find(pick)
        if new is not None:
            new = _copy_texts(pick, new)
        found = None if new is None else self._new.make_options(new)
        return _TriedPair(pair=ChoicePair(label=pick.label, old_options=options, new_options=found), old=pick, new=new)

    async def _compare_pair(self, tried: _TriedPair) -> ChoiceResult:
        pair = tried.pair
        try:
            old, old_refusal = await self._answer(self._old, pair.old_options)
            preferred = old.allowed if old is not None else frozenset()
            new, new_refusal = await self._answer(self._new, pair.new_options, preferred=preferred)
        except UncomparedError as error:
            return ChoiceResult(pair=pair, outcome=ChoiceOutcome.UNKNOWN, reason=str(error))
        if old is None and new is None:
            reason = join_sentences(*dict.fromkeys((old_refusal, new_refusal)))
            # A choice that only the new file has, and that the hub refuses, changes nothing for users.
            outcome = ChoiceOutcome.SAME if pair.old_options is None else ChoiceOutcome.UNKNOWN
            return ChoiceResult(pair=pair, outcome=outcome, reason=reason)
        if old is None and new is not None:
            return self._compare_new(pair, new, refusal=old_refusal)
        if new is None and old is not None and not old.allowed:
            return ChoiceResult(pair=pair, outcome=ChoiceOutcome.SAME, reason="No user may have it.")
        if new is None or old is None:
            outcome = ChoiceOutcome.NO_EQUIVALENT if self._scope.is_conversion else ChoiceOutcome.REMOVED
            return ChoiceResult(pair=pair, outcome=outcome, reason=pair.reason or new_refusal)
        return self._compare_answers(tried, old, new=new)

    async def _answer(
        self, side: Side, options: Mapping[str, object] | None, *, preferred: Iterable[int] = ()
    ) -> tuple[HubAnswer | None, str]:
        """Return the hub's answer for a choice, and why the hub refuses the choice ("" without a refusal).

        The answer is None if the hub refuses the choice, or if ``options`` is None.
        """
        if options is None:
            return None, ""
        try:
            persons = self._persons if options else (self._person_of_all_groups,)
            return await side.answer(options, persons, preferred=preferred), ""
        except RefusedError as error:
            return None, str(error)

    def _compare_new(self, pair: ChoicePair, new: HubAnswer, *, refusal: str) -> ChoiceResult:
        if not new.allowed:
            return ChoiceResult(pair=pair, outcome=ChoiceOutcome.SAME)
        if pair.old_options is None:
            gained, _ = self._describe_access(frozenset(), new.allowed)
            return ChoiceResult(pair=pair, outcome=ChoiceOutcome.ADDED, gained=gained)
        refused = Difference(aspect="start", old=refusal, new="starts")
        return ChoiceResult(pair=pair, outcome=ChoiceOutcome.DIFFERS, differences=(refused,))

    def _compare_answers(self, tried: _TriedPair, old: HubAnswer, *, new: HubAnswer) -> ChoiceResult:
        differences = list(_compare_patterns(tried))
        if old.server is not None and new.server is not None:
            differences += list_differences(old.server, new.server)
        gained, lost = self._describe_access(old.allowed, new.allowed) if tried.pair.old_options else ((), ())
        outcome = (
            ChoiceOutcome.WIDER if gained else ChoiceOutcome.DIFFERS if differences or lost else ChoiceOutcome.SAME
        )
        return ChoiceResult(pair=tried.pair, outcome=outcome, differences=tuple(differences), gained=gained, lost=lost)

    def _describe_access(self, old: frozenset[int], new: frozenset[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return two tuples of texts such as ``group a``: who gains a choice with the new file, and who loses it."""
        gained, lost = tuple(self._describe_persons(new - old)), tuple(self._describe_persons(old - new))
        if gained and len(new) == len(self._persons):
            gained = ("all other users" if old else "all users",)
        return gained, lost if new or not lost else ("any user",)

    def _describe_persons(self, numbers: Iterable[int]) -> Iterator[str]:
        """Yield texts such as ``group a`` for sample users.

        After ``group a``, omit sets of groups that contain it, such as ``groups a and b``.

        :param numbers: indexes in ``_persons``.
        """
        found = sorted((self._persons[number] for number in numbers), key=lambda each: len(each.groups or ()))
        users = dict.fromkeys(person.name for person in found if person.name)
        named: list[frozenset[str]] = []
        for person in found:
            groups = person.groups or frozenset()
            if not person.name and not any(each <= groups for each in named if each):
                named.append(groups)
                yield _describe_groups(sorted(groups))
        for user in users:
            # If the user is in `found` only with groups, the texts above cover the user.
            if not named or Person(name=user) in found:
                yield f"user {user}"


def _copy_texts(old: Pick, new: Pick) -> Pick:
    """Copy the text that the user writes, such as an image's reference, from the old menu's pick to the new one's.

    Return ``new`` unchanged if ``new`` has no text field, or if ``old`` has no text.
    """
    texts = [entry.text for entry in old.entries if entry.slug == UNLISTED and entry.text]
    entries = [(option, entry) for option, entry in new.chosen if entry.slug == UNLISTED]
    if not texts or not entries:
        return new
    option, entry = entries[0]
    return new.replace(option.name, type(entry)(slug=UNLISTED, title=entry.title, text=texts[0], pattern=entry.pattern))


def _compare_patterns(tried: _TriedPair) -> Iterator[Difference]:
    if tried.old is None or tried.new is None:
        return
    patterns = [[each.pattern for each in pick.entries if each.slug == UNLISTED] for pick in (tried.old, tried.new)]
    for old, new in itertools.zip_longest(*patterns, fillvalue=""):
        if old != new:
            yield Difference(aspect=_PATTERN, old=old or "any", new=new or "any")


def _list_persons(*sides: Side) -> Sequence[Person]:
    """Return sample users who stand for all users.

    - Without a name: one in no group, one in each group, one in each pair of groups (if there are at most
      :data:`_MOST_PAIRED` groups), and one in all groups.
    - Each user that a file names: once in no group, once in all groups.
    """
    groups = tuple(dict.fromkeys(normalize_group(group) for side in sides for group in side.groups))
    pairs = itertools.combinations(groups, 2) if len(groups) <= _MOST_PAIRED else ()
    sets = dict.fromkeys(frozenset(each) for each in ((), *((group,) for group in groups), *pairs, groups))
    users = dict.fromkeys(user for side in sides for user in side.users)
    ends = dict.fromkeys((frozenset[str](), frozenset(groups)))
    named = (Person(name=user, groups=each) for user in users for each in ends)
    return (*(Person(name="", groups=each) for each in sets), *named)


def _describe_groups(groups: Sequence[str]) -> str:
    if not groups:
        return "users of no group"
    *most, last = groups
    return f"groups {', '.join(most)} and {last}" if most else f"group {last}"
