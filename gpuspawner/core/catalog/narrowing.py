"""Bounds that become narrower, on the same steps."""

from __future__ import annotations

from dataclasses import replace

from gpuspawner.core.catalog.catalogue import Bounds


def narrow_bounds(bounds: Bounds | None, *, least: int | None = None, most: int | None = None) -> Bounds | None:
    """Return the part of bounds that lies in a range, None where they offer nothing in it.

    The default moves to the nearest amount that is left.

    :param bounds: None where nothing can be chosen; that stays so.
    :param least: in the bounds' unit, None = as the bounds have it; so for ``most``.
    """
    if bounds is None:
        return None
    lower, upper = bounds.min, bounds.max
    if least is not None and least > lower:
        lower += -(-(least - lower) // bounds.step) * bounds.step
    if most is not None and most < upper:
        upper = most - (most - bounds.min) % bounds.step
    if (lower, upper) == (bounds.min, bounds.max):
        return bounds
    if upper < lower:
        return None
    default = min(max(bounds.default, lower), upper)
    return replace(bounds, min=lower, max=upper, default=default - (default - lower) % bounds.step)


def find_lowest_limit(*limits: int | None) -> int | None:
    """Return the smallest of limits, None where there is none."""
    return min((limit for limit in limits if limit is not None), default=None)
