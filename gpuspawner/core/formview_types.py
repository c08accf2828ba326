"""The form as one JSON-able value: everything the templates show and form.js reads, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FORM_LEVEL = ""
"""Key of :attr:`FormView.errors` and :attr:`FormView.notices` for what belongs to no single field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageView:
    """One image as the form shows it. ``vendors`` as in :class:`gpuspawner.core.catalogue.Image`.

    :param made_for: the same in people's words (``"NVIDIA GPUs"``, ``"work without a GPU"``), empty when not declared.
    """

    slug: str
    display_name: str
    description: str
    vendors: tuple[str, ...] | None
    made_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberView:
    """Bounds of a number field, in the unit the form shows (cores; GiB), as decimal strings (``"0.5"``)."""

    min: str
    max: str
    step: str
    default: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUTypeView:
    """One GPU type as the form shows it.

    :param memory_text: memory of one unit (``"80 GiB"``), empty when unknown.
    :param unit: value of :class:`gpuspawner.core.catalogue.Unit`.
    :param unit_text: ``"card"``, ``"MIG slice"`` or ``"shared"``, in people's words.
    :param total: units in the cluster, None = unknown.
    :param free: units not requested by any pod, None = unknown.
    :param capacity_text: the same as a sentence (``"3 of 4 free"``, ``"4 in total"``, ``"capacity unknown"``).
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
    free: int | None
    capacity_text: str
    description: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorView:
    """GPU types of one vendor (``nvidia`` → "NVIDIA")."""

    slug: str
    display_name: str
    types: tuple[GPUTypeView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetView:
    """A preset: its name, a sentence of what it holds, and the field values it fills in (form notation)."""

    slug: str
    display_name: str
    description: str
    summary: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormView:
    """The whole form.

    :param values: field name → what stands in the field, form notation, exactly as typed after an error
        (``image``, ``cpu``, ``memory``, ``gpu`` ("" = none), ``gpu_count``).
    :param errors: field name → sentence; empty on a first visit. A name that is no field of the form stands for what
        was sent without one; :data:`FORM_LEVEL` for the form as a whole.
    :param notices: field name → sentence about a saved choice that is no longer offered and what stands there instead.
    :param capacity_notice: why capacity is unknown, empty when it is known.
    :param summary: the selection as a sentence ("PyTorch with 4 CPUs, 16 GiB and 1 × A100 80 GB"), empty while
        something is wrong with it.
    """

    version: int = 1
    images: tuple[ImageView, ...]
    cpu: NumberView | None
    memory: NumberView | None
    vendors: tuple[VendorView, ...]
    presets: tuple[PresetView, ...]
    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)
    notices: Mapping[str, str] = field(default_factory=dict)
    capacity_notice: str = ""
    summary: str = ""

    @property
    def max_gpu_count(self) -> int:
        """Largest count any of the offered GPU types allows, 0 without GPU types."""
        return max((gpu.max_count for vendor in self.vendors for gpu in vendor.types), default=0)
