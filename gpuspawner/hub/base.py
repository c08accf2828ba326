"""Keeps apart what the admin set on a spawner and what the user's choice put over it.

A spawner object lives longer than one start: after a failure JupyterHub may use it again, and an admin's hooks change
its traits between our two looks at them. So each trait is remembered with the value it had before (its base), new
values are made from the base alone, and at the beginning of the next start everything is as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Base", "fresh"]


def fresh(value: Any) -> Any:
    """Return a copy of nested dicts and lists; what they hold (functions, Kubernetes models) is shared."""
    if isinstance(value, dict):
        return {key: fresh(item) for key, item in value.items()}
    if isinstance(value, list):
        return [fresh(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remembered:
    """One trait.

    :param first: its value before the first assignment of this start.
    :param base: the value that the assigned one was made from.
    :param assigned: a copy of what was assigned, to see whether a hook changed it since.
    """

    first: Any
    base: Any
    assigned: Any


@dataclass(slots=True)
class Base:
    """The admin's values of one spawner's traits, whatever was put over them.

    :param owner: the spawner.
    """

    owner: Any
    _remembered: dict[str, _Remembered] = field(default_factory=dict)

    def __getitem__(self, trait: str) -> Any:
        """Return the admin's value of a trait: what it was, or what a hook has made of it since."""
        current = getattr(self.owner, trait)
        known = self._remembered.get(trait)
        return known.base if known is not None and current == known.assigned else current

    def assign(self, values: Mapping[str, Any]) -> None:
        """Put values over the base; a trait that was put over before and is not among them goes back to its base."""
        for trait, value in {**{name: self[name] for name in self._remembered}, **values}.items():
            base, known = self[trait], self._remembered.get(trait)
            first = known.first if known is not None else base
            self._remembered[trait] = _Remembered(first=first, base=base, assigned=fresh(value))
            setattr(self.owner, trait, fresh(value))

    def restore(self) -> None:
        """Give every trait the value it had before the first assignment."""
        for trait, known in self._remembered.items():
            setattr(self.owner, trait, known.first)
        self._remembered.clear()
