"""What an admin says about GPUs: the types users may pick, and models the built-in table does not know."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from gpuspawner.settings.values import (
    DOMAIN,
    NAME,
    Entry,
    LabelKey,
    LabelValue,
    Memory,
    Model,
    Part,
    RunTime,
    Slug,
    Text,
    Title,
    Vendor,
    Words,
)


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


LabelValues = Annotated[list[LabelValue], BeforeValidator(_one_or_many), Field(min_length=1)]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class TolerationSetting(Model):
    """A toleration (core/v1), without ``tolerationSeconds``."""

    key: Annotated[str, StringConstraints(pattern=rf"^(({DOMAIN}/)?{NAME})?$")] = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class ScaleUpSetting(Model):
    """What an autoscaler may add."""

    max_nodes: Annotated[int, Field(ge=1, description="Nodes of the type that there may be at most.")]
    gpus_per_node: Annotated[
        int, Field(ge=1, description="Units on each node; without max_count as many may be asked for in one server.")
    ]
    minutes: Annotated[
        float,
        Field(gt=0, allow_inf_nan=False, description="How long a new node takes to be ready."),
    ]


class GPUEntry(Entry):
    """A GPU type users may pick, or several as one choice (``any_of``, ``min_memory``)."""

    any_of: Annotated[
        list[Slug], Field(min_length=1, description="GPU types of which any will do, all of the same resource.")
    ] = Field(default_factory=list)
    min_memory: Memory | None = Field(
        default=None, description="Any GPU type of this resource with at least so much memory will do."
    )
    resource: Annotated[str, StringConstraints(pattern=rf"^{DOMAIN}/{NAME}$")] | None = None
    vendor: Vendor | None = None
    unit: Literal["card", "mig", "shared"] | None = None
    match: dict[LabelKey, LabelValues] = Field(default_factory=dict)
    max_count: Annotated[int, Field(ge=1, le=1024)] | None = None
    memory: Memory | None = None
    note: Text = ""
    spot: bool | None = Field(
        default=None, description="Whether the cloud may take its nodes back at any time. Omitted: labels say it."
    )
    interconnect: Words | None = Field(
        default=None, description="What links several GPUs in one node, such as NVLink. Omitted: labels say it."
    )
    tolerations: list[TolerationSetting] | None = Field(
        default=None, description="Omitted: taints that keep other pods off GPU nodes by convention are tolerated."
    )
    environment: dict[EnvironmentName, Text] = Field(default_factory=dict)
    runtime_class: Annotated[str, StringConstraints(pattern=rf"^{DOMAIN}$")] | None = None
    shm: Part | None = None
    scale_up: ScaleUpSetting | None = None
    start_timeout: Annotated[int, Field(ge=1, le=24 * 3600)] | None = None
    max_runtime: RunTime | None = Field(
        default=None, description="After which every server with the type is stopped, whoever's it is."
    )

    @property
    def is_union(self) -> bool:
        """Whether it stands for several types."""
        return bool(self.any_of) or self.min_memory is not None


class AcceleratorEntry(Model):
    """What is known of a GPU model; replaces single facts of the built-in table, or adds a model to it.

    :param enabled: false takes the model out of the table, as null does.
    """

    enabled: bool = True
    name: Title | None = None
    vendor: Vendor | None = None
    memory: Memory | None = None
    labels: dict[Literal["gfd", "gke", "karpenter", "amd", "intel"], list[LabelValue]] | None = None
    karpenter_memory_mib: Annotated[int, Field(ge=1)] | None = None
