"""What an admin says about GPUs: the types users may pick, and models the built-in table does not know."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from gpuspawner.settings.values import (
    DOMAIN_PATTERN,
    LABEL_VALUE_PATTERN,
    NAME_PATTERN,
    Entry,
    LabelKey,
    LabelValue,
    Memory,
    RunTime,
    ShortText,
    Slug,
    StrictModel,
    Text,
    Title,
    UnitFraction,
    Vendor,
)


def _parse_one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


_VALUE = {"type": "string", "pattern": LABEL_VALUE_PATTERN}
LabelValues = Annotated[
    list[LabelValue],
    BeforeValidator(_parse_one_or_many),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [_VALUE, {"type": "array", "items": _VALUE, "minItems": 1}]}),
]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class TolerationSetting(StrictModel):
    """A toleration (core/v1), without ``tolerationSeconds``."""

    key: Annotated[str, StringConstraints(pattern=rf"^(({DOMAIN_PATTERN}/)?{NAME_PATTERN})?$")] = Field(
        default="", description="Of the taint; empty with operator Exists: every taint."
    )
    operator: Literal["Exists", "Equal"] = Field(
        default="Equal", description="Equal: the taint has this value. Exists: any."
    )
    value: LabelValue = Field(default="", description="Of the taint, with operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Of the taint. Omitted: any."
    )


class ScaleUpSetting(StrictModel):
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
    resource: Annotated[str, StringConstraints(pattern=rf"^{DOMAIN_PATTERN}/{NAME_PATTERN}$")] | None = Field(
        default=None, description="Extended resource that counts the GPUs, such as nvidia.com/gpu."
    )
    vendor: Vendor | None = Field(default=None, description="Whose GPU it is. Omitted: the resource tells.")
    unit: Literal["card", "mig", "shared"] | None = Field(
        default=None, description="What one of them is: a whole card, a slice, or a share. Omitted: the names tell."
    )
    match: dict[LabelKey, LabelValues] = Field(
        default_factory=dict, description="Node labels and their allowed values, all of which must match."
    )
    max_count: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="Most in one server. Omitted: as many as the largest node has."
    )
    memory: Memory | None = Field(default=None, description="Memory of one GPU. Omitted: that of the model.")
    note: Text = Field(default="", description="A sentence shown with the type.")
    spot: bool | None = Field(
        default=None, description="Whether the cloud may take its nodes back at any time. Omitted: labels say it."
    )
    interconnect: ShortText | None = Field(
        default=None, description="What links several GPUs in one node, such as NVLink. Omitted: labels say it."
    )
    tolerations: list[TolerationSetting] | None = Field(
        default=None, description="Omitted: taints that keep other pods off GPU nodes by convention are tolerated."
    )
    environment: dict[EnvironmentName, Text] = Field(
        default_factory=dict, description="Environment variables of servers with the type."
    )
    runtime_class: Annotated[str, StringConstraints(pattern=rf"^{DOMAIN_PATTERN}$")] | None = Field(
        default=None, description="RuntimeClass of servers with the type, where GPUs need one."
    )
    shm: UnitFraction | None = Field(default=None, description="Size of /dev/shm as a fraction of the memory limit.")
    scale_up: ScaleUpSetting | None = Field(default=None, description="What an autoscaler may add.")
    start_timeout: Annotated[int, Field(ge=1, le=24 * 3600)] | None = Field(
        default=None, description="Seconds that the hub waits for a server with the type. Omitted: KubeSpawner's."
    )
    max_runtime: RunTime | None = Field(
        default=None, description="After which every server with the type is stopped, whoever's it is."
    )

    @property
    def is_union(self) -> bool:
        """Whether it stands for several types."""
        return bool(self.any_of) or self.min_memory is not None


class AcceleratorEntry(StrictModel):
    """What is known of a GPU model; replaces single facts of the built-in table, or adds a model to it.

    :param enabled: false takes the model out of the table, as null does.
    """

    enabled: bool = Field(default=True, description="False takes the model out of the table, as null does.")
    name: Title | None = Field(default=None, description="What people read.")
    vendor: Vendor | None = Field(default=None, description="Whose GPU it is.")
    memory: Memory | None = Field(default=None, description="Memory of one GPU.")
    labels: dict[Literal["gfd", "gke", "karpenter", "amd", "intel"], list[LabelValue]] | None = Field(
        default=None, description="What labels of nodes call the model, by who sets them."
    )
    karpenter_memory_mib: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="What Karpenter's memory label holds; tells models of the same name apart."
    )
