"""The choices that users have with one values file, and the same choice with another file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

UserOptions = Mapping[str, object]
"""What JupyterHub stores of a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """A profile, a preset or the form, with the lists from which users pick one entry each.

    :param options: the user options that are the same for all choices of the menu.
    :param lists: name of a list → name of an entry → the user options of the entry; the default entry is first.
    """

    options: UserOptions = field(default_factory=dict)
    lists: Mapping[str, Mapping[str, UserOptions]] = field(default_factory=dict)


Menus = Mapping[str, Menu]
"""Name → menu. The name is for readers, too: ``profile gpu``, ``preset small`` or ``form``."""


@dataclass(frozen=True, slots=True)
class UserChoice:
    """What a user chooses: a menu, and an entry of each of its lists.

    :param menu: name of the menu.
    :param picks: name of a list → name of the picked entry.
    """

    menu: str
    picks: Mapping[str, str]

    @property
    def label(self) -> str:
        """Text that names the choice: ``profile gpu · size: large``."""
        return " · ".join((self.menu, *(f"{name}: {entry}" for name, entry in self.picks.items())))

    def find_options(self, menus: Menus) -> dict[str, object]:
        """Return the user options of the choice, which the menus have."""
        menu = menus[self.menu]
        entries = (menu.lists[name][entry] for name, entry in self.picks.items())
        return dict(itertools.chain(menu.options.items(), *(entry.items() for entry in entries)))

    def find_counterpart(self, own: Menus, other: Menus) -> UserChoice | None:
        """Return the same choice with another values file, or None if users do not have it there.

        It has the same entries of the same menu. A list that only one of the files has must stand at its default.
        """
        if self.menu not in other:
            return None
        before, after = own[self.menu].lists, other[self.menu].lists
        if any(entry not in after.get(name, [*before[name]][:1]) for name, entry in self.picks.items()):
            return None
        return UserChoice(
            self.menu, {name: self.picks.get(name, next(iter(entries))) for name, entries in after.items()}
        )


def list_choices(menus: Menus) -> Iterator[UserChoice]:
    """Yield all choices: first the defaults of each menu, then those that differ from them in one list, then in two."""
    for count in range(1 + max(len(menu.lists) for menu in menus.values())):
        for key, menu in menus.items():
            defaults = {name: next(iter(entries)) for name, entries in menu.lists.items()}
            for names in itertools.combinations(menu.lists, count):
                for entries in itertools.product(*([*menu.lists[name]][1:] for name in names)):
                    yield UserChoice(key, {**defaults, **dict(zip(names, entries, strict=True))})


def count_choices(menus: Menus) -> int:
    """Return how many choices :func:`list_choices` yields."""
    return sum(math.prod(map(len, menu.lists.values())) for menu in menus.values())
