"""Defines the keys of the admin's settings. :mod:`gpuspawner.settings.checks` checks keys against each other.

Helm merges the settings from several values files. A later file disables an image, GPU type or preset of an earlier
file with ``enabled: false``, or removes it with null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import TypeAdapter

from gpuspawner.core.catalog.accelerators import Accelerator
from gpuspawner.core.catalog.model import CustomImages, GPUType, Image
from gpuspawner.core.catalog.policy_model import GPUPool, Policy
from gpuspawner.core.catalog.queue import KueueQueue
from gpuspawner.core.request.field_definitions import CLOSED_CHOICES, CPU, MEMORY, RUN_TIME, SHARED_MEMORY, Priority
from gpuspawner.core.value_types import (
    CPUs,
    FromSettings,
    Memory,
    Named,
    OneOf,
    RestrictedEntry,
    RunTime,
    Slug,
    UnitFraction,
    setting,
)

_MIN, _MAX = "Smallest amount that users may choose.", "Largest amount that users may choose."
_STEP, _DEFAULT = "Amounts differ from min by multiples of it.", "Selected at first."


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountSetting(FromSettings):
    """Base class of CPU and memory settings; says which fraction of a pod's limit is the pod's request."""

    guarantee: Annotated[UnitFraction | None, setting("Fraction of the limit that the pod requests.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CPUSetting(AmountSetting):
    """Bounds of the CPU limit."""

    min: Annotated[CPUs, setting(_MIN)] = CPU.step
    max: Annotated[CPUs, setting(_MAX)]
    step: Annotated[CPUs, setting(_STEP)] = CPU.step
    default: Annotated[CPUs | None, setting(_DEFAULT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySetting(AmountSetting):
    """Bounds of the memory limit."""

    min: Annotated[Memory, setting(_MIN)] = MEMORY.step
    max: Annotated[Memory, setting(_MAX)]
    step: Annotated[Memory, setting(_STEP)] = MEMORY.step
    default: Annotated[Memory | None, setting(_DEFAULT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeSetting(FromSettings):
    """Bounds of the run time after which a server is stopped."""

    min: Annotated[RunTime, setting(_MIN)] = RUN_TIME.step
    max: Annotated[RunTime, setting(_MAX)]
    step: Annotated[RunTime, setting(_STEP)] = RUN_TIME.step
    default: Annotated[RunTime | None, setting(_DEFAULT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemorySetting(FromSettings):
    """Bounds of the size of /dev/shm; users may leave the size open."""

    min: Annotated[Memory, setting(_MIN)] = SHARED_MEMORY.step
    max: Annotated[Memory, setting(_MAX)]
    step: Annotated[Memory, setting(_STEP)] = SHARED_MEMORY.step


BoundsSetting = CPUSetting | MemorySetting | RunTimeSetting | SharedMemorySetting


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetEntry(RestrictedEntry):
    """A named bundle of values for fields of the form; a field that it leaves out has its default."""

    image: Annotated[Slug | None, setting("Slug of an image.")] = None
    cpu: Annotated[CPUs | None, setting("CPU limit.")] = None
    memory: Annotated[Memory | None, setting("Memory limit.")] = None
    gpu: Annotated[Slug | None, setting("Slug of a GPU type; empty: none.")] = None
    gpu_count: Annotated[int | None, setting("Number of GPUs.", ge=0)] = None
    run_time: Annotated[RunTime | None, setting("How long the server runs at most.")] = None
    shared_memory: Annotated[Memory | None, setting("Size of /dev/shm.")] = None
    priority: Annotated[Slug | None, setting("Slug of a priority.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsModel(FromSettings):
    """The settings below ``hub.config.GPUSpawner`` that say what users may choose."""

    images: Annotated[
        Named[str, Image], setting("Images users may pick, by slug. Omitted: KubeSpawner's image is the only one.")
    ] = field(default_factory=dict)
    custom_images: Annotated[CustomImages, setting("Whether users may also enter an image reference.")] = field(
        default_factory=CustomImages
    )
    cpu: Annotated[
        CPUSetting | None, setting("Bounds of the CPU limit. Omitted: KubeSpawner's, up to the largest node.")
    ] = None
    memory: Annotated[
        MemorySetting | None, setting("Bounds of the memory limit. Omitted: KubeSpawner's, up to the largest node.")
    ] = None
    run_time: Annotated[
        RunTimeSetting | None, setting("Bounds of the run time. Omitted: servers have no time limit.")
    ] = None
    shared_memory: Annotated[
        SharedMemorySetting | None, setting("Bounds of the size of /dev/shm. Omitted: users cannot choose it.")
    ] = None
    priorities: Annotated[
        Named[str, Priority], setting("Priorities that users may pick, by slug; the first one is the default.")
    ] = field(default_factory=dict)
    gpus: Annotated[
        Named[str, GPUType], setting("GPU types users may pick, by slug; before those found by node labels.")
    ] = field(default_factory=dict)
    presets: Annotated[Named[str, PresetEntry], setting("Named bundles of values for the fields, by slug.")] = field(
        default_factory=dict
    )
    policy: Annotated[
        Policy | None, setting("Who may have what. Omitted: every user may have everything on offer.")
    ] = None
    pools: Annotated[Named[str, GPUPool], setting("GPUs that the members of some groups share, by slug.")] = field(
        default_factory=dict
    )
    accelerators: Annotated[
        dict[str, Accelerator | None],
        setting("Changes to the built-in table of GPU models, by model; null removes one."),
    ] = field(default_factory=dict)
    discover_gpus: Annotated[bool, setting("Whether gpuspawner also finds GPU types by node labels.")] = True
    new_nodes: Annotated[
        str,
        OneOf("possible", "none"),
        setting(
            "Whether nodes may be added that neither scale_up nor a NodePool of Karpenter describes. With none,"
            " the hub refuses a server that no node could take."
        ),
    ] = "possible"
    queue: Annotated[
        KueueQueue | None, setting("A queue of Kueue that servers with a GPU go through. Omitted: none.")
    ] = None


SETTINGS = TypeAdapter(SettingsModel)
"""Reads the settings, and writes their JSON Schema."""
FORM_SECTIONS = (
    *("images", "custom_images", "cpu", "memory", "run_time", "shared_memory", "presets"),
    *(choice.section for choice in CLOSED_CHOICES),
)
"""Settings that describe fields of the form, or presets for them. ``gpus`` may also name the GPUs of profiles."""
SLUG_SECTIONS = ("images", *(each.section for each in CLOSED_CHOICES), "gpus", "presets", "pools", "accelerators")
"""Settings that are mappings with slugs as keys."""
