"""The admin's settings, key by key. What keys mean together is checked in :mod:`gpuspawner.settings.crosschecks`.

Every dict with slugs or names as keys may be merged from several values files: ``enabled: false`` takes an entry out,
null removes it, and ``order`` sorts what is shown in an order.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from gpuspawner.settings.gpu_entries import AcceleratorEntry, GPUEntry
from gpuspawner.settings.policy_entries import PolicySetting, PoolEntry
from gpuspawner.settings.queue_setting import QueueSetting
from gpuspawner.settings.values import (
    DOMAIN,
    CPUs,
    Entry,
    LabelValue,
    Memory,
    Model,
    Origin,
    Part,
    RunTime,
    Slug,
    Text,
    Vendor,
    Version,
)


class ImageEntry(Entry):
    """An image users may pick."""

    image: Annotated[str, StringConstraints(pattern=r"^[^\s{}]+$", max_length=1000)] | None = None
    cuda: Version | None = Field(
        default=None,
        description="CUDA version inside: checked against the nodes' driver and GPUs. Omitted: not checked.",
    )
    rocm: Version | None = Field(default=None, description="ROCm version inside.")
    vendors: list[Vendor] | None = Field(
        default=None,
        description="Whose GPUs the image can use; empty: none. Omitted: those that cuda and rocm stand for, else any.",
    )
    architectures: list[LabelValue] = Field(
        default_factory=list, description="Values of kubernetes.io/arch that the image is started on; empty: any."
    )

    @property
    def toolkits(self) -> dict[str, str | None]:
        """Vendor → version of its toolkit inside, None where that is not declared."""
        return {"nvidia": self.cuda, "amd": self.rocm}


class CustomImagesSetting(Model):
    """Images that people may name by themselves."""

    allowed: bool = False
    registries: list[Origin] = Field(
        default_factory=list,
        description="Registries, or beginnings of names in them, that images must come from; empty: any.",
    )
    description: Text = ""


class Amount(Model):
    """Guarantee of an amount, as a fraction of the limit."""

    guarantee: Part | None = None


class CPUSetting(Amount):
    """Bounds of the CPU limit."""

    min: CPUs = 500
    max: CPUs
    step: CPUs = 500
    default: CPUs | None = None


class MemorySetting(Amount):
    """Bounds of the memory limit."""

    min: Memory = 1024**3
    max: Memory
    step: Memory = 1024**3
    default: Memory | None = None


class RunTimeSetting(Model):
    """Bounds of how long a server runs at most."""

    min: RunTime = 15 * 60
    max: RunTime
    step: RunTime = 15 * 60
    default: RunTime | None = None


class SharedMemorySetting(Model):
    """Bounds of the size of /dev/shm, which users need not choose."""

    min: Memory = 256 * 1024**2
    max: Memory
    step: Memory = 256 * 1024**2


class PriorityEntry(Entry):
    """A priority users may pick."""

    priority_class: Annotated[str, StringConstraints(pattern=rf"^{DOMAIN}$")] | None = Field(
        default=None, alias="class", description="Name of a PriorityClass of the cluster."
    )
    value: Annotated[int, Field(ge=-(2**31), le=10**9)] | None = Field(
        default=None, description="The number in that PriorityClass; more than a billion is Kubernetes' own."
    )


class PresetEntry(Entry):
    """A named bundle of choices; what it leaves out takes the default."""

    image: Slug | None = None
    cpu: CPUs | None = None
    memory: Memory | None = None
    gpu: Slug | None = None
    gpu_count: Annotated[int, Field(ge=0)] | None = None
    run_time: RunTime | None = None
    shared_memory: Memory | None = None
    priority: Slug | None = None


class SettingsModel(Model):
    """Everything below ``hub.config.GPUSpawner`` that describes what may be asked for."""

    images: dict[str, ImageEntry] = Field(default_factory=dict)
    custom_images: CustomImagesSetting = Field(default_factory=CustomImagesSetting)
    cpu: CPUSetting | None = None
    memory: MemorySetting | None = None
    run_time: RunTimeSetting | None = None
    shared_memory: SharedMemorySetting | None = None
    priorities: dict[str, PriorityEntry] = Field(default_factory=dict)
    gpus: dict[str, GPUEntry] = Field(default_factory=dict)
    presets: dict[str, PresetEntry] = Field(default_factory=dict)
    policy: PolicySetting | None = None
    pools: dict[str, PoolEntry] = Field(default_factory=dict)
    accelerators: dict[str, AcceleratorEntry | None] = Field(default_factory=dict)
    discover_gpus: bool = True
    queue: QueueSetting | None = None
