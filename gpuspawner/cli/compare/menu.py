"""What users can pick with one values file, and which picks of two files correspond.

A menu consists of profiles. A profile is an entry of a ``profile_list``, a preset of gpuspawner, or gpuspawner's form.
A profile has options, such as the memory; for each of them, the user picks one entry, such as 16 GB.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

UNLISTED = "--unlisted-choice"
"""Slug of the entry for which the user writes a text, such as the reference of an image."""
FORM = "--form"
"""Slug of the profile that stands for gpuspawner's form without a preset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """One of the entries from which the user picks in an option of a profile, such as 16 GB for the memory.

    :param slug: key in the values file, or :data:`UNLISTED` for a field in which the user writes a text.
    :param title: name that users read.
    :param is_default: whether the entry is selected if the user picks none.
    :param text: example of a text that the user may write; empty if none is known, or without a text field.
    :param pattern: regular expression that the text must match; empty = any text.
    """

    slug: str
    title: str
    is_default: bool = False
    text: str = ""
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuOption:
    """An option of a profile, from which the user picks one entry.

    :param name: key in the values file.
    :param title: name that users read.
    :param entries: at least one; an entry with the slug :data:`UNLISTED` (a text field) is last.
    """

    name: str
    title: str
    entries: tuple[MenuEntry, ...]

    @property
    def listed(self) -> tuple[MenuEntry, ...]:
        """The entries without the text field; if the option has no other entry, the text field."""
        return tuple(each for each in self.entries if each.slug != UNLISTED) or self.entries

    @property
    def unlisted(self) -> MenuEntry | None:
        """The text field, if the option also has other entries; else None."""
        return self.entries[-1] if len(self.listed) < len(self.entries) else None

    @property
    def default(self) -> MenuEntry:
        """The entry that is selected if the user picks none."""
        return next((each for each in self.listed if each.is_default), self.listed[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuProfile:
    """What the user picks first: an entry of a ``profile_list``, a preset, or gpuspawner's form.

    :param slug: key in the values file, or :data:`FORM`.
    :param title: name that users read.
    :param options: the options, in the order of the values file.
    """

    slug: str
    title: str
    options: tuple[MenuOption, ...] = ()

    @property
    def number(self) -> int:
        """How many different picks :meth:`get_pick` can return."""
        return self._number_listed + sum(option.unlisted is not None for option in self.options)

    @property
    def _number_listed(self) -> int:
        return math.prod(len(option.listed) for option in self.options)

    @property
    def default(self) -> Pick:
        """The pick with the default entry of each option."""
        return Pick(profile=self, entries=tuple(option.default for option in self.options))

    def find_pick(self, slugs: Mapping[str, object]) -> Pick:
        """Return the pick with the entries in ``slugs``, and with the default entry of each other option.

        :param slugs: name of an option → slug of its entry; unknown names and slugs have no effect.
        """
        pick = self.default
        for option in self.options:
            if entry := next((each for each in option.entries if each.slug == slugs.get(option.name)), None):
                pick = pick.replace(option.name, entry)
        return pick

    def get_pick(self, index: int) -> Pick:
        """Return one of the profile's picks.

        The first picks are the combinations of the entries in :attr:`MenuOption.listed`. Then follows a pick for each
        text field (:attr:`MenuOption.unlisted`), with the default entries of the other options.

        :param index: 0 to ``number - 1``.
        """
        if index >= self._number_listed:
            texts = [option for option in self.options if option.unlisted is not None]
            chosen = texts[index - self._number_listed]
            return self.default.replace(chosen.name, chosen.entries[-1])
        entries = []
        for option in reversed(self.options):
            index, place = divmod(index, len(option.listed))
            entries.append(option.listed[place])
        return Pick(profile=self, entries=tuple(reversed(entries)))


PickKey = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What a user picks: a profile, and one entry of each of the profile's options.

    :param profile: the picked profile.
    :param entries: the picked entry of each option, in the order of the profile's options.
    """

    profile: MenuProfile
    entries: tuple[MenuEntry, ...] = ()

    @property
    def chosen(self) -> Iterator[tuple[MenuOption, MenuEntry]]:
        """Each option of the profile with its picked entry."""
        return zip(self.profile.options, self.entries, strict=True)

    @property
    def key(self) -> PickKey:
        """The slug of the profile, followed by the slug of the picked entry of each option; unique in a menu."""
        return (self.profile.slug, *(entry.slug for entry in self.entries))

    @property
    def label(self) -> str:
        """Text that names the pick: ``GPU server · Memory: 16 GB``."""
        return " · ".join((self.profile.title, *(f"{option.title}: {entry.title}" for option, entry in self.chosen)))

    def replace(self, name: str, entry: MenuEntry) -> Pick:
        """Return a copy of the pick with a different entry of one option.

        :param name: name of the option.
        :param entry: the entry for this option.
        """
        entries = (entry if option.name == name else own for option, own in self.chosen)
        return Pick(profile=self.profile, entries=tuple(entries))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The picks of a menu that the program compares: all picks, or a random part of them.

    :param picks: the picks, in the order of the menu's profiles.
    :param total: how many picks the menu has.
    """

    picks: tuple[Pick, ...]
    total: int

    @property
    def is_complete(self) -> bool:
        """Whether the sample has all picks of the menu."""
        return len(self.picks) == self.total


def draw_sample(profiles: Sequence[MenuProfile], *, limit: int, seed: int) -> Sample:
    """Return all picks of a menu, or a random part of the picks if the menu has more picks than the limit.

    As far as the limit allows, the part contains each profile, and each entry of each option, at least once.

    :param profiles: the menu.
    :param limit: maximum number of picks.
    :param seed: seed of the random numbers.
    """
    total = sum(each.number for each in profiles)
    if total <= limit:
        picks = tuple(each.get_pick(index) for each in profiles for index in range(each.number))
        return Sample(picks=picks, total=total)
    chance = random.Random(seed)  # noqa: S311 - not for cryptography
    found = {pick.key: pick for profile in profiles for pick in _cover_entries(profile)}
    if len(found) > limit:
        keys = set(chance.sample(sorted(found), limit))
        return Sample(picks=tuple(pick for key, pick in found.items() if key in keys), total=total)
    ends = list(itertools.accumulate(each.number for each in profiles))
    while len(found) < limit:
        index = chance.randrange(total)
        place = next(number for number, end in enumerate(ends) if index < end)
        pick = profiles[place].get_pick(index - (ends[place] - profiles[place].number))
        found[pick.key] = pick
    order = {profile.slug: number for number, profile in enumerate(profiles)}
    return Sample(picks=tuple(sorted(found.values(), key=lambda pick: order[pick.profile.slug])), total=total)


def _cover_entries(profile: MenuProfile) -> Iterator[Pick]:
    """Yield picks that together contain each entry of each option of a profile."""
    yield profile.default
    for place in range(max((len(option.listed) for option in profile.options), default=0)):
        entries = (option.listed[place % len(option.listed)] for option in profile.options)
        yield Pick(profile=profile, entries=tuple(entries))
    for option in profile.options:
        if option.unlisted is not None:
            yield profile.default.replace(option.name, option.unlisted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedPicks:
    """The picks of the new menu that correspond to picks of the old menu.

    :param keys: :attr:`Pick.key` of each of these picks.
    :param entries: a triple for each entry in these picks: the profile's slug, the option's name, the entry's slug.
    """

    keys: set[PickKey] = field(default_factory=set)
    entries: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, pick: Pick) -> None:
        """Add a pick of the new menu that corresponds to a pick of the old menu.

        :param pick: the pick of the new menu.
        """
        self.keys.add(pick.key)
        self.entries.update((pick.profile.slug, option.name, entry.slug) for option, entry in pick.chosen)

    def list_missing(self, profiles: Sequence[MenuProfile], *, limit: int | None) -> Iterator[Pick]:
        """Yield picks of the new menu that correspond to no pick of the old menu.

        If the new menu has at most ``limit`` picks, the method yields all such picks. Otherwise it yields only
        examples:

        - For a profile without a corresponding pick: its pick with the default entries.
        - For any other profile: for each entry in no corresponding pick, a pick with this entry and the other options'
          default entries.

        :param profiles: the new menu.
        :param limit: maximum number of picks in a menu for a complete result; None = always yield examples.
        """
        if limit is not None and sum(each.number for each in profiles) <= limit:
            picks = (each.get_pick(index) for each in profiles for index in range(each.number))
            yield from (pick for pick in picks if not self._has(pick))
            return
        for profile in profiles:
            if all(key[0] != profile.slug for key in self.keys):
                yield profile.default
                continue
            for option in profile.options:
                for entry in option.entries:
                    if (profile.slug, option.name, entry.slug) not in self.entries:
                        yield profile.default.replace(option.name, entry)

    def _has(self, pick: Pick) -> bool:
        texts = [(option, entry) for option, entry in pick.chosen if entry.slug == UNLISTED]
        # For a text field, any pick with it is enough: get_pick() combines the field only with the default entries of
        # the other options, and these defaults may differ between the menus.
        return pick.key in self.keys or (
            bool(texts) and all((pick.profile.slug, each.name, UNLISTED) in self.entries for each, _ in texts)
        )


class MenuMatch:
    """Finds, for a pick of an old menu, the corresponding pick of a new menu.

    Profiles, options and entries correspond if their keys are equal, else if their titles are equal and unique.

    :param old: the old menu.
    :param new: the new menu.
    """

    def __init__(self, old: Sequence[MenuProfile], new: Sequence[MenuProfile]) -> None:
        self._profiles = _match(old, new, key=lambda each: each.slug)

    def find(self, pick: Pick) -> Pick | None:
        """Return the corresponding pick, or None if there is none.

        An option that only the new menu has gets its default entry. If the pick has another entry than the default in
        an option that only the old menu has, return None.

        :param pick: a pick of the old menu.
        """
        profile = self._profiles.get(pick.profile.slug)
        if profile is None:
            return None
        options = _match(pick.profile.options, profile.options, key=lambda each: each.name)
        chosen = {}
        for option, entry in pick.chosen:
            counterpart = options.get(option.name)
            if counterpart is None:
                if entry != option.default:
                    return None
                continue
            found = _match(option.entries, counterpart.entries, key=lambda each: each.slug).get(entry.slug)
            if found is None:
                return None
            chosen[counterpart.name] = found
        entries = (chosen.get(option.name, option.default) for option in profile.options)
        return Pick(profile=profile, entries=tuple(entries))


class _Titled(Protocol):
    @property
    def title(self) -> str: ...


TitledT = TypeVar("TitledT", bound=_Titled)


def _match(old: Iterable[TitledT], new: Iterable[TitledT], *, key: Callable[[TitledT], str]) -> dict[str, TitledT]:
    """Return a mapping: key of an old object → corresponding new object. It lacks old objects that have none.

    The objects are profiles, options or entries. They correspond if their keys are equal, else if their titles are
    equal and unique.
    """
    old, by_key = list(old), {key(each): each for each in new}
    found = {key(each): by_key[key(each)] for each in old if key(each) in by_key}
    taken = {key(each) for each in found.values()}
    old_titles = _index_titles(each for each in old if key(each) not in found)
    new_titles = _index_titles(each for name, each in by_key.items() if name not in taken)
    for title, each in old_titles.items():
        if each is not None and (other := new_titles.get(title)) is not None:
            found[key(each)] = other
    return found


def _index_titles(found: Iterable[TitledT]) -> dict[str, TitledT | None]:
    """Return a mapping: title in lower case → object, or None if several objects have the title."""
    titles: dict[str, TitledT | None] = {}
    for each in found:
        title = each.title.strip().casefold()
        titles[title] = None if title in titles else each
    return titles
