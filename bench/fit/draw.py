"""Random choices, all of one case from one seed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A source of choices that gives the same ones for the same seed, on every machine and version of Python.

    Weights are whole numbers so that no rounding decides.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311  # repeatable, and no secret

    def chance(self, percent: float) -> bool:
        """Return True in so many of a hundred cases."""
        return self._random.random() * 100 < percent

    def number(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return self._random.randint(least, most)

    def one(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self._random.randrange(len(choices))]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """Return one of the keys; a weight of 3 comes three times as often as a weight of 1."""
        return self._random.choices(list(weights), list(weights.values()))[0]

    def some(self, choices: Sequence[T], *, least: int = 1, most: int = 2) -> list[T]:
        """Return several different ones of the choices in random order, as many as there are at most."""
        return self._random.sample(list(choices), min(self.number(least, most), len(choices)))

    def cut(self, whole: int, *, parts: int) -> list[int]:
        """Return numbers of at least zero whose sum is ``whole``."""
        marks = sorted(self.number(0, whole) for _ in range(parts - 1))
        return [after - before for before, after in zip([0, *marks], [*marks, whole], strict=True)]
