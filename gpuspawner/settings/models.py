"""Defines the admin's settings as pydantic models. :mod:`gpuspawner.settings.checks` checks keys against each other.

Helm merges the settings from several values files. A later file disables an image, GPU type or preset of an earlier
file with ``enabled: false``, or removes it with null.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints
from typing_extensions import override

from gpuspawner.core.catalog.model import Choice
from gpuspawner.core.request.field_definitions import CLOSED_CHOICES, CPU, MEMORY, RUN_TIME, SHARED_MEMORY, Priority
from gpuspawner.settings.gpu import AcceleratorEntry, GPUEntry
from gpuspawner.settings.policy import PolicySetting, PoolEntry
from gpuspawner.settings.value_types import (
    OBJECT_NAME,
    CPUGuarantee,
    CPUs,
    Entry,
    LabelValue,
    Memory,
    NewNodes,
    Origin,
    OverridingEntry,
    PresetCPUs,
    PresetMemory,
    RunTime,
    Slug,
    StrictModel,
    Text,
    Title,
    UnitFraction,
    Vendor,
    Version,
    require_pattern,
)

QueueName = Annotated[
    str,
    require_pattern(
        r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$",
        rule="must be the name of a queue: at most 63 lower-case letters, digits, - and ., such as gpu-users",
    ),
]
"""Name of a LocalQueue or WorkloadPriorityClass of Kueue. It must be a valid label value, because it becomes
the value of a pod's label."""


class QueueSetting(StrictModel):
    """The queue of Kueue in which servers with a GPU wait."""

    local_queue: Annotated[QueueName, Field(description="Name of a LocalQueue in the namespace of the servers.")]
    priority_class: QueueName | None = Field(
        default=None, description="Name of a WorkloadPriorityClass of the cluster."
    )
    timeout: Annotated[int, Field(ge=1, le=7 * 24 * 3600)] | None = Field(
        default=None, description="Seconds that the hub waits for a server that is queued."
    )
    gpus: Annotated[list[Slug], Field(min_length=1)] = Field(
        default=["*"], description="GPU types whose servers are queued; * stands for all."
    )


_MIN, _MAX = "Smallest amount that users may choose.", "Largest amount that users may choose."
_STEP, _DEFAULT = "Amounts differ from min by multiples of it.", "Selected at first."


_ImageText = Annotated[
    str,
    require_pattern(
        r"^[^\s{}]+$",
        rule="must be an image without spaces and braces, such as quay.io/jupyter/base-notebook:2026-10-01",
        max_length=1000,
    ),
]


class ImageEntry(OverridingEntry):
    """An image that users may pick."""

    image: _ImageText | None = Field(
        default=None, description="Reference of the image, such as quay.io/jupyter/pytorch-notebook:cuda12-latest."
    )
    cuda: Version | None = Field(
        default=None,
        description="CUDA version in the image, compared with driver and GPUs of the nodes. Omitted: not compared.",
    )
    rocm: Version | None = Field(default=None, description="ROCm version in the image.")
    vendors: list[Vendor] | None = Field(
        default=None,
        description="Vendors whose GPUs the image can use; empty: none. Omitted: as cuda and rocm imply, else any.",
    )
    architectures: list[LabelValue] = Field(
        default_factory=list, description="Values of kubernetes.io/arch that the image is built for; empty: any."
    )

    @property
    def toolkits(self) -> dict[str, str | None]:
        """Vendor → version of its toolkit (CUDA, ROCm) in the image, None if the settings do not give the version."""
        return {"nvidia": self.cuda, "amd": self.rocm}


class CustomImagesSetting(StrictModel):
    """Images that users may enter by their reference."""

    allowed: bool = Field(default=False, description="Whether users may enter an image reference.")
    registries: list[Origin] = Field(
        default_factory=list,
        description="Registries, or prefixes of repositories in them, that images must come from; empty: any.",
    )
    description: Text = Field(default="", description="A sentence below the field.")


class AmountSetting(StrictModel):
    """Base class of CPU and memory settings; says which fraction of a pod's limit is the pod's request."""

    guarantee: UnitFraction | None = Field(default=None, description="Fraction of the limit that the pod requests.")


class CPUSetting(AmountSetting):
    """Bounds of the CPU limit."""

    min: CPUs = Field(default=CPU.step, description=_MIN)
    max: CPUs = Field(description=_MAX)
    step: CPUs = Field(default=CPU.step, description=_STEP)
    default: CPUs | None = Field(default=None, description=_DEFAULT)


class MemorySetting(AmountSetting):
    """Bounds of the memory limit."""

    min: Memory = Field(default=MEMORY.step, description=_MIN)
    max: Memory = Field(description=_MAX)
    step: Memory = Field(default=MEMORY.step, description=_STEP)
    default: Memory | None = Field(default=None, description=_DEFAULT)


class RunTimeSetting(StrictModel):
    """Bounds of the run time after which a server is stopped."""

    min: RunTime = Field(default=RUN_TIME.step, description=_MIN)
    max: RunTime = Field(description=_MAX)
    step: RunTime = Field(default=RUN_TIME.step, description=_STEP)
    default: RunTime | None = Field(default=None, description=_DEFAULT)


class SharedMemorySetting(StrictModel):
    """Bounds of the size of /dev/shm; users may leave the size open."""

    min: Memory = Field(default=SHARED_MEMORY.step, description=_MIN)
    max: Memory = Field(description=_MAX)
    step: Memory = Field(default=SHARED_MEMORY.step, description=_STEP)


BoundsSetting = CPUSetting | MemorySetting | RunTimeSetting | SharedMemorySetting


class ChoiceEntry(Entry):
    """Base class of a choice that users may pick from a list, such as a priority.

    :cvar required_keys: attributes that an enabled entry must set.
    """

    required_keys: ClassVar[tuple[str, ...]] = ()

    def convert(self, slug: str) -> Choice:
        """Return the choice that the form offers for this entry of the settings.

        :param slug: key of the entry.
        """
        return Choice(**self._describe(slug))

    def _describe(self, slug: str) -> dict[str, Any]:
        return {"slug": slug, "display_name": self.display_name or slug, "description": self.description}


class PriorityEntry(ChoiceEntry):
    """A priority that users may pick."""

    required_keys: ClassVar[tuple[str, ...]] = ("priority_class", "value")

    priority_class: Annotated[str, OBJECT_NAME] | None = Field(
        default=None, alias="class", description="Name of a PriorityClass of the cluster."
    )
    value: Annotated[int, Field(ge=-(2**31), le=10**9)] | None = Field(
        default=None, description="The PriorityClass's value; Kubernetes reserves values above a billion."
    )

    @override
    def convert(self, slug: str) -> Priority:
        """Return the priority that the form offers for this entry of the settings.

        :param slug: key of the entry.
        """
        return Priority(**self._describe(slug), priority_class=self.priority_class or "", value=self.value or 0)


class PresetValues(OverridingEntry):
    """Base class of a preset and of an entry in one of the preset's drop-down lists.

    Both set fields of the form and traits of KubeSpawner.
    """

    image: Slug | None = Field(default=None, description="Slug of an image.")
    cpu: PresetCPUs | None = Field(default=None, description="CPU limit, or unlimited.")
    cpu_guarantee: CPUGuarantee | None = Field(
        default=None, description="CPU request. Omitted: the limit times cpu.guarantee."
    )
    memory: PresetMemory | None = Field(default=None, description="Memory limit, or unlimited.")
    memory_guarantee: Memory | None = Field(
        default=None, description="Memory request. Omitted: the limit times memory.guarantee."
    )
    gpu: Slug | None = Field(default=None, description="Slug of a GPU type; empty: none.")
    gpu_count: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Number of GPUs.")
    run_time: RunTime | None = Field(default=None, description="How long the server runs at most.")
    shared_memory: Memory | None = Field(default=None, description="Size of /dev/shm.")
    priority: Slug | None = Field(default=None, description="Slug of a priority.")


class PresetChoiceEntry(PresetValues):
    """One entry of a list in a preset; its values replace those of the preset."""

    default: bool = Field(default=False, description="Whether it is selected at first. Omitted everywhere: the first.")


class ImageInputSetting(StrictModel):
    """A text field in which users may name an image."""

    display_name: Title | None = Field(default=None, description="Label of the field.")
    pattern: Annotated[str, StringConstraints(max_length=1000)] = Field(
        default="",
        description="Regular expression that the beginning of the reference must match; empty: any reference.",
    )
    message: Text = Field(default="", description="Error message if the reference does not match.")
    kubespawner_override: dict[str, Any] = Field(
        default_factory=dict, description="Traits of KubeSpawner for servers with such an image, as in an entry."
    )


class PresetChoiceSetting(Entry):
    """A list in a preset, from which users pick one entry."""

    entries: dict[str, PresetChoiceEntry] = Field(
        default_factory=dict, description="Entries that users may pick, by slug."
    )
    custom_image: ImageInputSetting | None = Field(
        default=None, description="A text field in which users may enter an image instead. Omitted: none."
    )


class PresetEntry(PresetValues):
    """A named bundle of choices; a choice that it leaves out has its default."""

    default: bool = Field(
        default=False, description="Whether servers without a choice get it, with only_presets. Omitted: the first."
    )
    choices: dict[str, PresetChoiceSetting] = Field(
        default_factory=dict, description="Lists from which users pick one entry each, by name."
    )


class SettingsModel(StrictModel):
    """The settings below ``hub.config.GPUSpawner`` that say what users may choose."""

    images: dict[str, ImageEntry] = Field(
        default_factory=dict,
        description="Images users may pick, by slug. Omitted: KubeSpawner's image is the only one.",
    )
    custom_images: CustomImagesSetting = Field(
        default_factory=CustomImagesSetting, description="Whether users may also enter an image reference."
    )
    cpu: CPUSetting | None = Field(
        default=None, description="Bounds of the CPU limit. Omitted: KubeSpawner's, up to the largest node."
    )
    memory: MemorySetting | None = Field(
        default=None, description="Bounds of the memory limit. Omitted: KubeSpawner's, up to the largest node."
    )
    run_time: RunTimeSetting | None = Field(
        default=None, description="Bounds of the run time. Omitted: servers have no time limit."
    )
    shared_memory: SharedMemorySetting | None = Field(
        default=None, description="Bounds of the size of /dev/shm. Omitted: users cannot choose it."
    )
    priorities: dict[str, PriorityEntry] = Field(
        default_factory=dict, description="Priorities that users may pick, by slug; the first one is the default."
    )
    gpus: dict[str, GPUEntry] = Field(
        default_factory=dict, description="GPU types users may pick, by slug; before those found by node labels."
    )
    presets: dict[str, PresetEntry] = Field(
        default_factory=dict, description="Named bundles of choices, each started with one button, by slug."
    )
    only_presets: bool = Field(
        default=False, description="Whether users may start only presets, and change nothing in them but their choices."
    )
    policy: PolicySetting | None = Field(
        default=None, description="Who may have what. Omitted: every user may have everything on offer."
    )
    pools: dict[str, PoolEntry] = Field(
        default_factory=dict, description="GPUs that the members of some groups share, by slug."
    )
    accelerators: dict[str, AcceleratorEntry | None] = Field(
        default_factory=dict, description="Changes to the built-in table of GPU models, by model; null removes one."
    )
    discover_gpus: bool = Field(default=True, description="Whether gpuspawner also finds GPU types by node labels.")
    new_nodes: NewNodes = Field(
        default="possible",
        description="Whether nodes may be added that neither scale_up nor a NodePool of Karpenter describes. With none,"
        " the hub refuses a server that no node could take.",
    )
    queue: QueueSetting | None = Field(
        default=None, description="A queue of Kueue that servers with a GPU go through. Omitted: none."
    )


SLUG_SECTIONS = ("images", *(each.section for each in CLOSED_CHOICES), "gpus", "presets", "pools", "accelerators")
"""Settings that are mappings with slugs as keys."""
