"""The form as JSON-able values: everything that templates and scripts read, and the cache that keeps parts of it.

The hub owns one :class:`FormCache` for all users and passes it in. Without one, each call computes everything again;
the results are equal either way.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType
from gpuspawner.core.cluster.model import ScalableNodePool
from gpuspawner.core.text.i18n import get_language
from gpuspawner.core.verdict.availability import Availability, AvailabilityCache
from gpuspawner.core.warnings.wording import WarningsView


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfitView:
    """Why an image cannot use some GPU types.

    :param text: one or more sentences.
    :param gpus: slugs of these types.
    """

    text: str
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageView:
    """One image as the form shows it.

    :param made_for: vendors in people's words (``"NVIDIA GPUs"``, ``"work without a GPU"``), empty when not declared.
    :param misfits: each GPU type that it cannot use is in one of them, all others are in none.
    :param denied: why this person may not use it, a sentence; empty where they may. The page's script gets none of
        these images.
    """

    slug: str
    display_name: str
    description: str
    made_for: str = ""
    misfits: tuple[MisfitView, ...] = ()
    denied: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomImageView:
    """The image that a person names, as the form shows it: one more card, and a field for its reference.

    :param card: its slug is empty.
    :param help: what may be written, a sentence.
    :param complaint: why what is written cannot be started, a sentence; empty where it can, or nothing is written.
    """

    card: ImageView
    help: str
    complaint: str = ""


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


FORM_LEVEL = ""
"""Key of :attr:`FormView.errors` and :attr:`FormView.notices` for what belongs to no single field."""


class GPUTypeState(StrEnum):
    """Whether one GPU of a type could start right now, whatever else is asked for."""

    FREE = "free"
    BUSY = "busy"
    """Other servers have all of them: one would wait."""
    NONE = "none"
    """No node can give one right now, and one may be able to later (a new node, a repaired one)."""
    NEVER = "never"
    """The cluster has none and none can come."""
    DENIED = "denied"
    """This person may not have one, or not now."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUTypeView:
    """One GPU type as the form shows it. Numbers are units of the type's resource, None where they are not known.

    :param memory_text: memory of one unit (``"80 GiB"``), empty when unknown.
    :param unit: value of :class:`gpuspawner.core.catalog.model.UnitKind`.
    :param unit_text: ``"card"``, ``"MIG slice"`` or ``"shared"``, in people's words.
    :param total: in the cluster, broken ones among them.
    :param healthy: of these, what the nodes can give out.
    :param free: of these, what no pod has.
    :param largest: largest count that one node can still give.
    :param waiting: asked for by pods that have no node yet.
    :param capacity_text: total and free as a sentence part (``"3 of 4 free"``, ``"capacity unknown"``).
    :param details_text: what else is to say about the counts (``"1 of 8 broken"``), one thing a line; may be empty.
    :param reason: why none can start now, a sentence; empty when one can or when it is not known.
    :param shapes: (millicores, bytes, count) that single nodes still have, without those that another covers.
    :param largest_shapes: the same of the nodes as if they were empty.
    :param scales: an autoscaler may add nodes with it.
    :param badges: what else it is, in a word each (``"NVLink"``, ``"spot"``).
    :param caution: what to know before picking it, a sentence; mostly empty.
    :param longest_text: how long a server with it runs at most, a sentence part; mostly empty.
    """

    slug: str
    display_name: str
    vendor: str
    memory_text: str
    memory_gib: float | None
    unit: str
    unit_text: str
    max_count: int
    total: int | None
    healthy: int | None
    free: int | None
    largest: int | None
    waiting: int | None
    capacity_text: str
    details_text: str
    state: GPUTypeState
    reason: str
    shapes: tuple[tuple[int, int, int], ...] = ()
    largest_shapes: tuple[tuple[int, int, int], ...] = ()
    scales: bool = False
    badges: tuple[str, ...] = ()
    caution: str = ""
    longest_text: str = ""
    description: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorView:
    """GPU types of one vendor (``nvidia`` → "NVIDIA")."""

    slug: str
    display_name: str
    types: tuple[GPUTypeView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeView:
    """A choice that fits where the one in the fields does not.

    :param sentence: what would be different (``"1 × A100 80 GB"``).
    :param values: the field values it fills in (form notation).
    """

    sentence: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictView:
    """Whether the choice that stands in the fields can start.

    :param outcome: value of :class:`gpuspawner.core.verdict.verdict.Outcome`.
    :param sentence: the whole of it for people (``"Starts now: 3 places left."``).
    """

    outcome: str
    sentence: str
    alternatives: tuple[AlternativeView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetView:
    """A preset.

    :param summary: a sentence of what it holds.
    :param values: the field values it fills in (form notation).
    :param outlook: whether it can start as it is, in a few words; None where that is not known.
    :param is_denied: this person may not have it, or not now; the outlook says why.
    """

    slug: str
    display_name: str
    description: str
    summary: str
    values: Mapping[str, str]
    outlook: VerdictView | None = None
    is_denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceView:
    """An entry of a closed choice."""

    slug: str
    display_name: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceFieldView:
    """A closed choice that is offered.

    :param section: key of its entries in the settings and in the page's data.
    :param label: what stands above the field.
    :param title: the same inside a sentence.
    :param entries: at least one, the default first.
    """

    name: str
    section: str
    label: str
    title: str
    entries: tuple[ChoiceView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormView:
    """The whole form.

    :param custom_image: None where people may only pick from ``images``.
    :param run_time: how long the server runs at most; None where that is not asked.
    :param shared_memory: size of /dev/shm, which may be left empty; None where that is not asked.
    :param choices: the closed choices that are offered, in the form's order.
    :param values: field name → what stands in the field, form notation, exactly as typed after an error
        (``image`` ("" = the one in ``custom_image``), ``custom_image``, ``cpu``, ``memory``, ``gpu`` ("" = none),
        ``gpu_count``, ``run_time``, ``shared_memory`` ("" = left to the GPU type),
        and the closed choices).
    :param errors: field name → sentence; empty on a first visit. A name that is no field of the form stands for what
        was sent without one; :data:`FORM_LEVEL` for the form as a whole.
    :param notices: field name → sentence about a saved choice that is no longer offered and what stands there instead.
    :param capacity_notice: why capacity is unknown, empty when it is known.
    :param summary: the selection as a sentence ("PyTorch with 4 CPUs, 16 GiB and 1 × A100 80 GB"), empty while
        something is wrong with it.
    :param verdict: whether the selection can start; None where nobody looked, as while something is wrong with it.
    :param age_s: seconds since the cluster confirmed the counts, None when that is not known.
    :param age_text: the same in words where the counts are too old to go by (``"as of 2 min ago"``), else empty.
    :param flags: what an admin who looks at the form should know; None for everybody else, and where there is nothing.
        The page's script does not get it.
    :param is_open: the single fields are shown from the start, not only presets: something is said at one of them, or
        what stands in them is neither the defaults nor a preset.
    :param link_prefix: what comes before a field's name in a link that starts a choice.
    :param policy: what there is to say of limits; None where there is nothing.
    """

    version: int = 5
    images: tuple[ImageView, ...]
    custom_image: CustomImageView | None = None
    cpu: NumberView | None
    memory: NumberView | None
    run_time: NumberView | None = None
    shared_memory: NumberView | None = None
    choices: tuple[ChoiceFieldView, ...] = ()
    vendors: tuple[VendorView, ...]
    presets: tuple[PresetView, ...]
    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)
    notices: Mapping[str, str] = field(default_factory=dict)
    capacity_notice: str = ""
    summary: str = ""
    verdict: VerdictView | None = None
    age_s: float | None = None
    age_text: str = ""
    flags: WarningsView | None = None
    is_open: bool = True
    link_prefix: str = ""
    policy: PolicyView | None = None

    @property
    def priorities(self) -> tuple[ChoiceView, ...]:
        """The priorities, the default first; empty where none are offered. Sites' templates read this."""
        return self.list_entries("priorities")

    def list_entries(self, section: str) -> tuple[ChoiceView, ...]:
        """Return the entries of a closed choice, none where it is not offered.

        :param section: key of the entries in the settings.
        """
        return next((each.entries for each in self.choices if each.section == section), ())

    @property
    def misfits(self) -> dict[str, str]:
        """GPU type → why the image that stands in the fields cannot use it."""
        return {slug: misfit.text for misfit in self._picked_misfits for slug in misfit.gpus}

    @property
    def common_misfit(self) -> str:
        """Why that image can use none of several GPU types, said once; empty where it can use one."""
        types = sum(len(vendor.types) for vendor in self.vendors)
        return next((misfit.text for misfit in self._picked_misfits if len(misfit.gpus) == types > 1), "")

    @property
    def _picked_misfits(self) -> tuple[MisfitView, ...]:
        return next((image.misfits for image in self.images if image.slug == self.values["image"]), ())

    @property
    def is_more_open(self) -> bool:
        """Whether the rarer fields are shown from the start: one is not as at first, or something is said there."""
        usual = {} if self.run_time is None else {"run_time": self.run_time.default}
        if self.shared_memory is not None:
            usual["shared_memory"] = ""
        usual |= {each.name: each.entries[0].slug for each in self.choices}
        return any(
            name in self.errors or name in self.notices or self.values[name] != text for name, text in usual.items()
        )

    @property
    def max_gpu_count(self) -> int:
        """Largest count any of the offered GPU types allows, 0 without GPU types."""
        return max((gpu.max_count for vendor in self.vendors for gpu in vendor.types), default=0)


_MAX_CATALOGS = 32
_MAX_ROWS = 1024

_ValueT = TypeVar("_ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedImages:
    catalog: Catalog
    views: tuple[ImageView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedRow:
    """The last view of a GPU type, and what it was made from."""

    gpu: GPUType
    available: Availability
    scalable_pools: tuple[ScalableNodePool, ...] | None
    view: GPUTypeView


class FormCache:
    """Keeps the views of images and GPU types, and the counts of GPU units.

    Entries are found by the identity of a catalog or GPU type, which the entry keeps alive, and the language's tag.

    :ivar availability: the counts of GPU units.
    """

    def __init__(self) -> None:
        self.availability = AvailabilityCache()
        self._images: OrderedDict[tuple[int, str], _CachedImages] = OrderedDict()
        self._rows: OrderedDict[tuple[int, str], _CachedRow] = OrderedDict()

    def get_image_views(
        self, catalog: Catalog, *, build: Callable[[Catalog], tuple[ImageView, ...]]
    ) -> tuple[ImageView, ...]:
        """Return the views of a catalog's images.

        A catalog stays the same until the cluster's nodes change.

        :param build: makes the views that are not in the cache.
        """
        key = id(catalog), get_language().tag
        kept = self._images.get(key)
        if kept is None:
            kept = _CachedImages(catalog=catalog, views=build(catalog))
            _put(self._images, key=key, value=kept, limit=_MAX_CATALOGS)
        return kept.views

    def get_gpu_view(
        self,
        gpu: GPUType,
        available: Availability,
        *,
        scalable_pools: tuple[ScalableNodePool, ...] | None,
        build: Callable[..., GPUTypeView],
    ) -> GPUTypeView:
        """Return the view of a GPU type; the same object as long as nothing about it changes.

        Between two requests, a cluster changes by a type or two.

        :param available: the type's units; an equal but other object counts as a change.
        :param scalable_pools: node pools that an autoscaler may add nodes to, None if they are unknown.
        :param build: makes a view that is not in the cache, from the same arguments.
        """
        key = id(gpu), get_language().tag
        row = self._rows.get(key)
        if row is None or row.available is not available or row.scalable_pools != scalable_pools:
            view = build(gpu, available, scalable_pools=scalable_pools)
            row = _CachedRow(gpu=gpu, available=available, scalable_pools=scalable_pools, view=view)
            _put(self._rows, key=key, value=row, limit=_MAX_ROWS)
        return row.view


def _put(entries: OrderedDict[tuple[int, str], _ValueT], *, key: tuple[int, str], value: _ValueT, limit: int) -> None:
    """Add an entry and drop the oldest one above the limit."""
    entries[key] = value
    if len(entries) > limit:
        entries.popitem(last=False)
