"""The classes of form fields; :mod:`gpuspawner.core.request.field_definitions` declares each field with one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.catalog.model import NO_AMOUNT, Bounds, OwnAmount

MAX_TEXT_LENGTH = 200
"""Largest number of characters in the text of a field without its own ``max_length``."""


class FieldKind(StrEnum):
    """The kind of value in a field."""

    CHOICE = "choice"
    """The field holds the slug of an entry of the catalog, such as an image or a GPU type."""
    AMOUNT = "amount"
    DURATION = "duration"
    COUNT = "count"
    REFERENCE = "reference"
    """The field holds the name of an object outside the catalog, such as the reference of a container image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of the form, which is also a user option, an argument of links and a key of presets.

    :param name: name of the field, the user option, the argument and the key.
    :param max_length: largest number of characters in the field's text.
    :param may_be_empty: True = an empty text means that the user chose nothing: the field then gets the value of the
        preset or, without one, the field's default. False = an empty text is checked as a value.
    :param bare_unit: unit that is appended to a number without a unit in a form or link; empty to append none.
    """

    name: str
    kind: FieldKind
    max_length: int = MAX_TEXT_LENGTH
    may_be_empty: bool = False
    bare_unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountNotation:
    """How an amount is parsed and formatted.

    :param title: name of the amount at the start of a sentence, from ``gettext_lazy``.
    :param parse: returns whole base units or raises QuantityError.
    :param show: formats whole base units with their unit.
    :param bare: formats an amount without its unit, such as the "0.5" in "0.5 to 4 CPUs"; None = ``show`` is used.
    :param unbounded: the REASON in the message "CPU cannot be chosen here: REASON.", from ``gettext_lazy``; empty = the
        message gives no reason. The message appears if a user sets an amount for which the catalog has no bounds.
    """

    title: str
    parse: Callable[[object], int]
    show: Callable[[int], str]
    bare: Callable[[int], str] | None = None
    unbounded: str = ""

    def format_bare(self, amount: int) -> str:
        """Return an amount as text, without its unit if ``bare`` is set: the "0.5" in "0.5 to 4 CPUs".

        :param amount: the amount in base units.
        """
        return (self.bare or self.show)(amount)

    def format_minimum(self, bounds: Bounds) -> str:
        """Return the lower bound as text: the "0.5" in "0.5 to 4 CPUs"."""
        return self.format_bare(bounds.min)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountField(Field):
    """A field for an amount or a duration.

    The settings have the amount's bounds at the key ``name``. Without them, :meth:`make_bounds` derives bounds of CPU
    and memory from the largest node. The form hides a field without bounds.

    :param attribute: attribute of :class:`gpuspawner.core.request.selection.Selection` with the amount in base units
        (millicores, bytes, seconds) or None.
    :param format_input: formats an amount in base units as text in the form's field.
    :param format_option: formats an amount in base units as a user option.
    :param describe: formats an amount in base units as part of a sentence about a selection.
    :param unset: text for a selection without the amount, used instead of ``describe``; may be empty.
    :param gone: notice that the saved amount ``{saved}`` is no longer offered, and the form shows ``{kept}`` instead.
    :param kept: notice after the policy's reason against the saved amount: the form shows ``{kept}`` instead.
    :param step: default of the settings ``step`` and ``min``, in base units.
    :param default: default of the setting ``default``, in base units; None = the lower bound.
    :param guarantee: default of the setting ``guarantee``: fraction of the pod's limit that the pod requests.
    :param bounds_keys: attributes of ``NumberView`` that the hub passes to form.js.
    """

    attribute: str
    notation: AmountNotation
    format_input: Callable[[int], str]
    format_option: Callable[[int], object]
    describe: Callable[[int], str]
    unset: str = ""
    gone: str
    kept: str = ""
    step: int
    default: int | None = None
    guarantee: float = 1.0
    bounds_keys: tuple[str, ...] = ("min", "max", "step", "default")

    def make_bounds(self, largest: int, own: OwnAmount = NO_AMOUNT) -> Bounds | None:
        """Return bounds for an amount without bounds in the settings, or None if ``largest`` is less than one step.

        The bounds reach from one step to the largest multiple of the step within ``largest``.

        If the admin has set KubeSpawner's limit, this limit is the default amount, and the bounds include it. With a
        limit and no guarantee, the pod requests the whole amount, as in Kubernetes.

        :param largest: the largest amount, in base units.
        :param own: KubeSpawner's limit and guarantee (``cpu_limit`` and ``cpu_guarantee``, for example).
        """
        if largest < self.step:
            return None
        least, limit = self.step, own.limit or self.step
        while least > limit and least % 2 == 0:
            least //= 2
        least = min(least, limit)
        most = max(largest // least, -(-(own.limit or 0) // least)) * least
        usual = min(self.default or least, most) if own.limit is None else own.limit
        is_guaranteed_in_full = own.limit is not None and own.guarantee is None
        return Bounds(
            min=least,
            max=most,
            step=least,
            default=usual,
            guarantee=1.0 if is_guaranteed_in_full else self.guarantee,
            own=own,
            is_optional=own.limit is None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceField(Field):
    """A field in which the user picks one entry of the catalog, such as an image.

    :param section: key of the field's entries in the settings (``gpus``, for example).
    :param title: what users call the field, in the middle of a sentence (``GPU type``), from ``gettext_lazy``.
    :param gone: notice in the form that a saved choice is no longer offered. In it, ``{saved}`` is the saved choice,
        and ``{name}`` is the entry that the form selects instead.
    """

    kind: FieldKind = FieldKind.CHOICE
    section: str
    title: str
    gone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedChoiceField(ChoiceField):
    """A field in which the user picks from a fixed ("closed") list of entries, such as the priorities.

    The first entry is the default. The form hides a field without entries.

    :param label: text above the field.
    :param describe: returns words for a sentence about the user's choices, from the chosen entry's display name.
    """

    may_be_empty: bool = True
    label: str
    describe: Callable[[str], str]
