"""Declares the fields of the form, each in one place.

Settings, user options, checks, policy, the form and the pod are built from these declarations. Further rules are
in :mod:`gpuspawner.core.request.checks` (number of GPUs, shared memory) and :mod:`gpuspawner.core.request.selection`.

A field such as the priority offers a fixed list of entries, and the first entry is the default. To add such a field,
add or change:

- in this module: a :class:`~gpuspawner.core.request.fields.ClosedChoiceField` in :data:`CLOSED_CHOICES`, and a class of
  the field's entries
- :mod:`gpuspawner.settings.models`: the settings' key, and the key in ``PresetEntry``
- :mod:`gpuspawner.core.request.pod_requirements` and :mod:`gpuspawner.hub.pod.patch`: what the chosen entry adds to the
  pod
- :mod:`gpuspawner.hub.config.traits`: a trait
- the generated files: ``helm-values/values.schema.json`` (``gpuspawner schema``) and
  ``docs/reference/configuration.md`` (``python -m docsite --reference``)
- ``docs/form.md``, ``docs/user-guide.md``, ``docs/policy.md`` and ``CHANGELOG.md``

form.js needs no change: it reads the fields and their entries from the page's data (``choices`` in
``island.schema.json``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from gpuspawner.core.catalog.image_reference import MAX_REFERENCE_LENGTH
from gpuspawner.core.catalog.model import Choice
from gpuspawner.core.request.fields import (
    AmountField,
    AmountNotation,
    ChoiceField,
    ClosedChoiceField,
    Field,
    FieldKind,
)
from gpuspawner.core.text.i18n import gettext, gettext_lazy
from gpuspawner.core.units.duration import format_duration, format_duration_option, parse_duration
from gpuspawner.core.units.quantity import (
    format_bare_cpus,
    format_cpu,
    format_exact_cpus,
    format_gib,
    format_memory,
    format_memory_option,
    format_rounded_memory,
    parse_cpu,
    parse_memory,
)
from gpuspawner.core.value_types import NO_DEFAULT, ObjectName, setting

_NO_BOUNDS = gettext_lazy("its bounds are not known")
KEPT = gettext_lazy("{kept} is filled in.")
"""Follows the reason why the policy denies the amount that the user had last time. ``{kept}`` is the amount that the
form fills in instead."""


def _format_cpu_option(millis: int) -> object:
    cpus = millis / 1000
    return int(cpus) if cpus.is_integer() else cpus


def _describe_memory(size_bytes: int) -> str:
    """Return an amount of memory as text. Presets may have amounts such as 1000000001 bytes; these are rounded."""
    exact = format_memory(size_bytes)
    return format_rounded_memory(size_bytes) if exact.endswith(" B") else exact


IMAGE = ChoiceField(
    name="image",
    may_be_empty=True,
    section="images",
    title=gettext_lazy("image"),
    gone=gettext_lazy("The image you had last time{saved} is no longer offered: {name} is selected."),
)
CUSTOM_IMAGE = Field(name="custom_image", kind=FieldKind.REFERENCE, max_length=MAX_REFERENCE_LENGTH, may_be_empty=True)
CPU = AmountField(
    name="cpu",
    kind=FieldKind.AMOUNT,
    attribute="cpu_millis",
    notation=AmountNotation(
        title=gettext_lazy("CPU"), parse=parse_cpu, show=format_exact_cpus, bare=format_bare_cpus, unbounded=_NO_BOUNDS
    ),
    format_input=format_cpu,
    format_option=_format_cpu_option,
    describe=format_exact_cpus,
    gone=gettext_lazy("Your last number of CPUs{saved} is no longer offered: {kept} is filled in."),
    kept=KEPT,
    step=500,
    default=2000,
    guarantee=0.5,  # The pod requests half of its CPU limit: servers often idle, and other pods can use idle CPU.
    bounds_keys=("min", "max", "step", "default", "guarantee", "request", "is_optional", "is_left_by_quota"),
)
MEMORY = AmountField(
    name="memory",
    kind=FieldKind.AMOUNT,
    bare_unit="G",
    attribute="memory_bytes",
    notation=AmountNotation(title=gettext_lazy("Memory"), parse=parse_memory, show=format_memory, unbounded=_NO_BOUNDS),
    format_input=format_gib,
    format_option=format_memory_option,
    describe=_describe_memory,
    gone=gettext_lazy("Your last amount of memory{saved} is no longer offered: {kept} GiB is filled in."),
    kept=gettext_lazy("{kept} GiB is filled in."),
    step=1024**3,
    default=8 * 1024**3,
    bounds_keys=("min", "max", "step", "default", "guarantee", "request", "is_optional", "is_left_by_quota"),
)
GPU = ChoiceField(
    name="gpu",
    section="gpus",
    title=gettext_lazy("GPU type"),
    gone=gettext_lazy("The GPU type you had last time{saved} is no longer offered: no GPU is selected."),
)
GPU_COUNT = Field(name="gpu_count", kind=FieldKind.COUNT)
RUN_TIME = AmountField(
    name="run_time",
    kind=FieldKind.DURATION,
    bare_unit="h",
    attribute="run_time_s",
    notation=AmountNotation(title=gettext_lazy("The run time"), parse=parse_duration, show=format_duration),
    format_input=format_duration_option,
    format_option=format_duration_option,
    describe=lambda seconds: gettext("up to {length}", length=format_duration(seconds)),
    gone=gettext_lazy("Your last run time{saved} is no longer offered: {kept} is filled in."),
    kept=KEPT,
    step=15 * 60,
    default=8 * 60 * 60,
)
SHARED_MEMORY = AmountField(
    name="shared_memory",
    kind=FieldKind.AMOUNT,
    may_be_empty=True,
    bare_unit="G",
    attribute="shared_memory_bytes",
    notation=AmountNotation(title=gettext_lazy("Shared memory"), parse=parse_memory, show=format_memory),
    format_input=format_gib,
    format_option=format_memory_option,
    describe=lambda size: gettext("{memory} shared memory", memory=format_memory(size)),
    unset=gettext_lazy("shared memory as usual"),
    gone=gettext_lazy("Your last amount of shared memory{saved} is no longer offered: the field is left empty."),
    step=256 * 1024**2,
    bounds_keys=("min", "max", "step"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority(Choice):
    """A priority that users may pick."""

    required_keys: ClassVar[tuple[str, ...]] = ("class", "value")

    priority_class: Annotated[ObjectName, setting("Name of a PriorityClass of the cluster.", alias="class")] = ""
    value: Annotated[
        int,
        setting("The PriorityClass's value; Kubernetes reserves values above a billion.", ge=-(2**31), le=10**9),
        NO_DEFAULT,
    ] = 0


PRIORITY = ClosedChoiceField(
    name="priority",
    section="priorities",
    title=gettext_lazy("priority"),
    label=gettext_lazy("Priority"),
    gone=gettext_lazy("The priority you had last time{saved} is no longer offered: {name} is selected."),
    describe=lambda name: gettext("priority {name}", name=name),
)

CLOSED_CHOICES: tuple[ClosedChoiceField, ...] = (PRIORITY,)
"""Fields with a fixed list of entries, such as the priority, in the form's order."""
FIELDS: tuple[Field, ...] = (
    *(IMAGE, CUSTOM_IMAGE, CPU, MEMORY, GPU, GPU_COUNT, RUN_TIME, SHARED_MEMORY),
    *CLOSED_CHOICES,
)
"""All fields, in the form's order."""
FORM_FIELDS = tuple(each.name for each in FIELDS)
"""Names of the form's fields, in the form's order."""
FIELDS_BY_NAME = {each.name: each for each in FIELDS}
AMOUNT_FIELDS = tuple(each for each in FIELDS if isinstance(each, AmountField))
