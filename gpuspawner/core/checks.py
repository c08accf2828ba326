"""Checks of single user options; each notes what is wrong and goes on, so that all problems are reported at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gpuspawner.core.catalogue import Bounds, CustomImages
from gpuspawner.core.errors import Problem, SelectionError
from gpuspawner.core.image_reference import EXAMPLE, LONGEST_REFERENCE, parse_reference
from gpuspawner.core.quantity import QuantityError, TooFineError
from gpuspawner.core.quoting import listing, quote, suggest
from gpuspawner.core.words import listed

_LONGEST_TEXT = 200
"""Characters; slugs and amounts are far shorter."""
_LONGER = {"custom_image": LONGEST_REFERENCE}
"""Field → characters, where a text that makes sense can be longer."""

_MOST = 20
"""Problems reported at once; more only help someone who fills logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notation:
    """How an amount is read and written.

    :param title: what the amount is, as a sentence begins.
    :param parse: returns whole base units or raises QuantityError.
    :param show: writes whole base units for people.
    :param unbounded: why there may be no bounds to choose in, empty where it is just not offered.
    """

    title: str
    parse: Callable[[object], int]
    show: Callable[[int], str]
    unbounded: str = ""


def longest_text(field: str) -> int:
    """Return how many characters the text of a field may have."""
    return _LONGER.get(field, _LONGEST_TEXT)


class Problems:
    """Collects problems, the first one of each field."""

    def __init__(self) -> None:
        self._by_field: dict[str, Problem] = {}

    def add(self, field: str, code: str, *, message: str) -> None:
        """Note a problem unless its field has one already."""
        if not self.is_full:
            self._by_field.setdefault(field, Problem(field=field, code=code, message=message))

    @property
    def is_full(self) -> bool:
        """Whether nothing that is still to come would be reported."""
        return len(self._by_field) >= _MOST

    def __contains__(self, field: str) -> bool:
        return field in self._by_field

    def raise_any(self) -> None:
        """Raise everything that was noted.

        :raises SelectionError: when there is any.
        """
        if self._by_field:
            raise SelectionError(*self._by_field.values())

    def choice(self, field: str, value: object, *, title: str, offered: Collection[str]) -> str | None:
        """Return the slug a value names, None for none or after noting a problem; null and "" name none.

        :param title: what is chosen, inside a sentence.
        """
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            self.add(field, "wrong_type", message=f"The {title} must be a text, not {quote(value)}.")
        elif len(value) > (longest := longest_text(field)):
            self.add(field, "too_long", message=f"The name of the {title} is longer than {longest} characters.")
        elif value not in offered:
            hint = suggest(value, offered) + (f" Offered: {listing(offered)}." if offered else " None is offered.")
            self.add(field, "unknown_choice", message=f"There is no {title} {quote(value)}.{hint}")
        else:
            return value
        return None

    def reference(self, field: str, value: object, *, allowed: CustomImages | None) -> str | None:
        """Return an image that a person names, by its full name; None for none or after noting a problem.

        Null and "" name none.
        """
        if value is None or value == "":
            return None
        if allowed is None:
            self.add(field, "unknown_field", message="An image of your own cannot be named here.")
        elif not isinstance(value, str):
            self.add(field, "wrong_type", message=f"The image must be a text, not {quote(value)}.")
        elif len(value) > (longest := longest_text(field)):
            self.add(field, "too_long", message=f"The image is longer than {longest} characters.")
        elif (found := parse_reference(value)) is None:
            form = f"The image must be written as registry/name:tag, such as {EXAMPLE}"
            self.add(field, "not_a_reference", message=f"{form}, not {quote(value)}.")
        elif not allowed.allow(found):
            origins = listed(allowed.registries, last="or")
            self.add(field, "unknown_choice", message=f"The image must come from {origins}, not {quote(found.name)}.")
        else:
            return found.full
        return None

    def amount(self, field: str, value: object, *, notation: Notation, bounds: Bounds | None) -> int | None:
        """Return an amount in whole base units: the default when it is null, None without bounds or after a problem."""
        title = notation.title
        if bounds is None:
            if value is not None:
                why = f": {notation.unbounded}" if notation.unbounded else ""
                self.add(field, "unknown_field", message=f"{title} cannot be chosen here{why}.")
            return None
        if value is None:
            return bounds.default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.add(field, "wrong_type", message=f"{title} must be a number or a text, not {quote(value)}.")
        elif isinstance(value, str) and len(value) > (longest := longest_text(field)):
            self.add(field, "too_long", message=f"{title} is longer than {longest} characters.")
        else:
            return self._bounded(field, value, notation=notation, bounds=bounds)
        return None

    def whole(self, field: str, value: object, *, title: str) -> int | None:
        """Return a whole number, None after noting a problem; JSON knows no difference between 1 and 1.0."""
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        code = "not_a_number" if isinstance(value, str | float) else "wrong_type"
        self.add(field, code, message=f"{title} must be a whole number, not {quote(value)}.")
        return None

    def _bounded(self, field: str, value: object, *, notation: Notation, bounds: Bounds) -> int | None:
        title, show = notation.title, notation.show
        try:
            number = notation.parse(value)
        except TooFineError:
            self.add(field, "off_step", message=f"{_allowed(notation, bounds, steps=True)}, not {quote(value)}.")
            return None
        except QuantityError as error:
            self.add(field, "not_a_number", message=f"{title} {error}, not {quote(value)}.")
            return None
        if not bounds.min <= number <= bounds.max:
            self.add(field, "out_of_range", message=f"{_allowed(notation, bounds)}, not {show(number)}.")
        elif (number - bounds.min) % bounds.step:
            self.add(field, "off_step", message=f"{_allowed(notation, bounds, steps=True)}, not {show(number)}.")
        return number


def _allowed(notation: Notation, bounds: Bounds, *, steps: bool = False) -> str:
    show = notation.show
    text = f"{notation.title} must be {show(bounds.min)} to {show(bounds.max)}"
    return f"{text} in steps of {show(bounds.step)}" if steps else text
