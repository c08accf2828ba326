"""The form's fields for numbers: their bounds, as the fields hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuspawner.core.catalog.catalogue import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberView:
    """Bounds of a number field as the field holds them.

    Decimal strings (``"0.5"``) in the unit that the form shows (cores; GiB), lengths of time with units (``"2h30m"``).

    :param guarantee: part of the amount that the pod requests, 0 to 1: what has to be free on a node.
    """

    min: str
    max: str
    step: str
    default: str
    guarantee: float = 1.0


def build_number_view(bounds: Bounds | None, format_amount: Callable[[int], str]) -> NumberView | None:
    """Return bounds as their field holds them, None where there is no such field.

    :param format_amount: writes whole base units as the field does.
    """
    if bounds is None:
        return None
    return NumberView(
        min=format_amount(bounds.min),
        max=format_amount(bounds.max),
        step=format_amount(bounds.step),
        default=format_amount(bounds.default),
        guarantee=bounds.guarantee,
    )
