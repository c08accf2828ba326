"""What limits leave to a person as JSON-able values; a part of :mod:`gpuspawner.core.form.formview_types`."""

from __future__ import annotations

from dataclasses import dataclass

from gpuspawner.core.form.formview_image_types import ImageView
from gpuspawner.core.form.formview_numbers import NumberView


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeView:
    """How long a server runs at most.

    :param slug: of its GPU type, empty without one.
    :param longest: after how long it is stopped, whatever was asked for (``"4h"``).
    :param run_time: bounds of the run time with it; None where they are those of the field, or there is none.
    """

    slug: str
    longest: str
    run_time: NumberView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """What there is to say of limits besides what stands at single choices.

    :param in_use: how much of what is counted is in use, one thing a line; empty where nothing is counted.
    :param blocked: why nothing at all can be started, a sentence; mostly empty.
    :param times: how long servers run at most, by GPU type; none of those that run on.
    :param ending: when that of the type is which stands in the fields, a sentence; empty where people say it.
    :param custom_image: the card that would let a person name an image, which this one may not; None without one.
    """

    in_use: str = ""
    blocked: str = ""
    times: tuple[TimeView, ...] = ()
    ending: str = ""
    custom_image: ImageView | None = None
