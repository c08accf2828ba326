"""What a field of the form can be; :mod:`gpuspawner.core.request.field_definitions` declares each field with these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuspawner.core.catalog.model import Bounds

MAX_TEXT_LENGTH = 200
"""Characters; slugs and amounts are far shorter."""


class FieldKind(StrEnum):
    """What a field holds."""

    CHOICE = "choice"
    """The slug of an entry of the settings."""
    AMOUNT = "amount"
    DURATION = "duration"
    COUNT = "count"
    REFERENCE = "reference"
    """The name of something outside of the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of the form, which is also a user option, an argument of links and a key of presets.

    :param name: in all of these.
    :param max_length: characters that its text may have.
    :param may_be_empty: an empty text leaves the field to the preset or the default.
    :param bare_unit: unit of a number that is sent without one; empty where such a number is taken as it is.
    """

    name: str
    kind: FieldKind
    max_length: int = MAX_TEXT_LENGTH
    may_be_empty: bool = False
    bare_unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountNotation:
    """How an amount is read and written.

    :param title: what the amount is, as a sentence begins; like ``unbounded`` made by ``gettext_lazy``.
    :param parse: returns whole base units or raises QuantityError.
    :param show: writes whole base units with their unit.
    :param bare: writes them where the unit follows, at a later amount of the same sentence; None = as ``show``.
    :param unbounded: why there may be no bounds to choose in, empty where it is just not offered.
    """

    title: str
    parse: Callable[[object], int]
    show: Callable[[int], str]
    bare: Callable[[int], str] | None = None
    unbounded: str = ""

    def format_bare(self, amount: int) -> str:
        """Return an amount as it stands before another one: "0.5", of "0.5 to 4 CPUs".

        :param amount: in base units.
        """
        return (self.bare or self.show)(amount)

    def format_minimum(self, bounds: Bounds) -> str:
        """Return the lower bound as it stands before the upper one."""
        return self.format_bare(bounds.min)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountField(Field):
    """An amount or a length of time. Its bounds are ``name`` in the settings and in the catalog; None hides the field.

    :param attribute: of :class:`gpuspawner.core.request.selection.Selection`, in base units (millicores, bytes,
        seconds) or None.
    :param format_input: writes base units as the form's field holds them.
    :param format_option: writes base units as a user option.
    :param describe: writes base units as part of a sentence about a choice.
    :param unset: the same of a choice without the amount; empty where such a choice says nothing of it.
    :param gone: what the form says of a saved amount that is no longer offered, with ``{saved}`` and ``{kept}``.
    :param kept: what the form says after the reason why the user may not have a saved amount, with ``{kept}``.
    :param default: in base units, where the settings have bounds without a default; None = the lower bound.
    :param guarantee: part of the amount that the pod requests, where the settings say none.
    :param bounds_keys: what the page's script gets of the bounds.
    """

    attribute: str
    notation: AmountNotation
    format_input: Callable[[int], str]
    format_option: Callable[[int], object]
    describe: Callable[[int], str]
    unset: str = ""
    gone: str
    kept: str = ""
    default: int | None = None
    guarantee: float = 1.0
    bounds_keys: tuple[str, ...] = ("min", "max", "step", "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceField(Field):
    """A choice of the entries of one section.

    :param section: key of the settings that holds the entries, and of the page's data.
    :param title: what is chosen, inside a sentence.
    :param gone: what the form says of a saved choice that is no longer offered, with ``{saved}`` and ``{name}``.
    :param not_allowed: why the user may not have an entry, with ``{name}``, where rules of the policy list the entries
        under ``section``; empty where they do not.
    """

    kind: FieldKind = FieldKind.CHOICE
    section: str
    title: str
    gone: str
    not_allowed: str = ""

    @property
    def denial_code(self) -> str:
        """Code of a denial by the policy."""
        return f"{self.name}_not_allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolume:
    """A volume that a choice adds to the pod.

    :param name: of the volume in the pod.
    :param path: where the notebook's container has it. A mount of the admin's at the same path takes its place.
    :param source: the volume's source as the API takes it, such as ``{"emptyDir": {}}``.
    :param read_only: the container may not write to it.
    """

    name: str
    path: str
    source: Mapping[str, Any]
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAdditions:
    """What closed choices add to the pod.

    :param priority_class: name of a PriorityClass of the cluster, None = KubeSpawner's own.
    :param priority: the number in that class, by which kube-scheduler serves the pods that wait.
    """

    priority_class: str | None = None
    priority: int | None = None
    volumes: tuple[PodVolume, ...] = ()

    def merge(self, other: PodAdditions) -> PodAdditions:
        """Return these additions and another choice's."""
        return PodAdditions(
            priority_class=self.priority_class if other.priority_class is None else other.priority_class,
            priority=self.priority if other.priority is None else other.priority,
            volumes=(*self.volumes, *other.volumes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedChoiceField(ChoiceField):
    """A choice without rules of its own: the first entry is the default, and a section without entries hides the field.

    :param label: above the field.
    :param describe: writes an entry's display name as part of a sentence about a choice.
    :param build_pod_additions: returns what a chosen entry adds to the pod.
    """

    may_be_empty: bool = True
    label: str
    describe: Callable[[str], str]
    build_pod_additions: Callable[[Any], PodAdditions]
