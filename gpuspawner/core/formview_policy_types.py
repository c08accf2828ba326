"""What limits leave to a person as JSON-able values; a part of :mod:`gpuspawner.core.formview_types`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuspawner.core.formview_image_types import ImageView
from gpuspawner.core.formview_numbers import NumberView


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """What there is to say of limits besides what stands at single choices.

    :param in_use: how much of what is counted is in use, one thing a line; empty where nothing is counted.
    :param blocked: why nothing at all can be started, a sentence; mostly empty.
    :param longest: GPU type ("" = none) → after how long a server with it is stopped at the latest (``"4h"``); none for
        those that run on. Empty where people say how long.
    :param ending: that of the type which stands in the fields, as a sentence; mostly empty.
    :param run_times: GPU type → bounds of the run time with it, where they are narrower than without.
    :param custom_image: the card that would let a person name an image, which this one may not; None without one.
    """

    in_use: str = ""
    blocked: str = ""
    longest: Mapping[str, str] = field(default_factory=dict)
    ending: str = ""
    run_times: Mapping[str, NumberView] = field(default_factory=dict)
    custom_image: ImageView | None = None
