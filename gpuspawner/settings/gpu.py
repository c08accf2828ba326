"""Defines the settings ``gpus`` and ``accelerators``, and reads the built-in table of GPU models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.software import parse_compute_capability
from gpuspawner.settings.value_types import (
    DOMAIN_PATTERN,
    LABEL_VALUE_PATTERN,
    NAME_PATTERN,
    OBJECT_NAME,
    GPUVendor,
    LabelKey,
    LabelValue,
    Memory,
    NewNodes,
    OverridingEntry,
    RunTime,
    ShortText,
    Slug,
    StrictModel,
    Text,
    Title,
    UnitFraction,
    Vendor,
    require_pattern,
)


def _parse_one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


_VALUE = {"type": "string", "pattern": LABEL_VALUE_PATTERN}
LabelValues = Annotated[
    list[LabelValue],
    BeforeValidator(_parse_one_or_many),
    WithJsonSchema({"anyOf": [_VALUE, {"type": "array", "items": _VALUE}]}),
]
"""Allowed values of a node label; an empty list means that the node must not have the label."""
EnvironmentName = Annotated[
    str,
    require_pattern(
        r"^[A-Za-z_][A-Za-z0-9_]*$",
        rule="must be the name of an environment variable: letters, digits and _, such as NCCL_DEBUG",
    ),
]
_TaintKey = Annotated[
    str,
    require_pattern(
        rf"^(({DOMAIN_PATTERN}/)?{NAME_PATTERN})?$", rule="must be the key of a taint, such as nvidia.com/gpu"
    ),
]
_Resource = Annotated[
    str, require_pattern(rf"^{DOMAIN_PATTERN}/{NAME_PATTERN}$", rule="must be VENDOR/RESOURCE, such as nvidia.com/gpu")
]


class TolerationSetting(StrictModel):
    """A toleration (core/v1), without ``tolerationSeconds``."""

    key: _TaintKey = Field(default="", description="Of the taint; empty with operator Exists: every taint.")
    operator: Literal["Exists", "Equal"] = Field(
        default="Equal", description="Equal: the taint must have this value. Exists: any value."
    )
    value: LabelValue = Field(default="", description="Value of the taint, with operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint. Omitted: any."
    )


class ScaleUpSetting(StrictModel):
    """The nodes that a cluster autoscaler may add."""

    max_nodes: Annotated[int, Field(ge=1, description="Greatest number of nodes of the type, existing ones included.")]
    gpus_per_node: Annotated[
        int, Field(ge=1, description="GPUs on each node; without max_count, one server may have as many.")
    ]
    minutes: Annotated[
        float,
        Field(gt=0, allow_inf_nan=False, description="Minutes until a new node is ready."),
    ]


class GPUEntry(OverridingEntry):
    """A GPU type that users may pick, or a choice that combines several types (``any_of``, ``min_memory``)."""

    any_of: Annotated[
        list[Slug],
        Field(min_length=1, description="GPU types of which the server gets any one; all must have the same resource."),
    ] = Field(default_factory=list)
    min_memory: Memory | None = Field(
        default=None, description="The server gets any GPU type of this resource with at least this memory."
    )
    resource: _Resource | None = Field(
        default=None, description="Extended resource that counts the GPUs, such as nvidia.com/gpu."
    )
    vendor: GPUVendor | None = Field(
        default=None,
        description="Vendor of the GPU, or other for accelerators such as TPUs. Omitted: as the resource implies.",
    )
    unit: Literal["card", "mig", "shared"] | None = Field(
        default=None,
        description="What one unit is: a full GPU, a slice, or a share. Omitted: as resource, labels and nodes imply.",
    )
    match: dict[LabelKey, LabelValues] = Field(
        default_factory=dict,
        description="Node labels and their allowed values, all of which must match; [] for a label that the node must"
        " not have.",
    )
    max_count: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="Largest number in one server. Omitted: as many as the largest node has."
    )
    memory: Memory | None = Field(
        default=None, description="Memory of one unit. Omitted: as the labels or the model imply."
    )
    note: Text = Field(default="", description="A sentence shown with the type.")
    spot: bool | None = Field(
        default=None, description="Whether the cloud may take its nodes back at any time. Omitted: as labels imply."
    )
    interconnect: ShortText | None = Field(
        default=None, description="Link between the GPUs of a node, such as NVLink. Omitted: as labels imply."
    )
    tolerations: list[TolerationSetting] | None = Field(
        default=None, description="Replace the default tolerations, which are for the usual taints of GPU nodes."
    )
    environment: dict[EnvironmentName, Text] = Field(
        default_factory=dict, description="Environment variables of servers with the type."
    )
    runtime_class: Annotated[str, OBJECT_NAME] | None = Field(
        default=None, description="RuntimeClass of servers with the type, where GPUs need one."
    )
    shm: UnitFraction | None = Field(default=None, description="Size of /dev/shm as a fraction of the memory limit.")
    scale_up: ScaleUpSetting | None = Field(default=None, description="What an autoscaler may add.")
    new_nodes: NewNodes | None = Field(
        default=None,
        description="none: no nodes of the type are added besides those that scale_up and NodePools describe."
        " Omitted: as for the hub.",
    )
    start_timeout: Annotated[int, Field(ge=1, le=24 * 3600)] | None = Field(
        default=None,
        description="Seconds that the hub waits for a server with the type. Omitted: KubeSpawner's start_timeout.",
    )
    max_runtime: RunTime | None = Field(
        default=None, description="Time after which every server with the type is stopped, for all users."
    )

    @property
    def is_union(self) -> bool:
        """Whether this entry of ``gpus`` is a choice that combines several GPU types (``any_of`` or ``min_memory``)."""
        return bool(self.any_of) or self.min_memory is not None


class AcceleratorEntry(StrictModel):
    """Facts about a GPU model, which replace single facts in the built-in table or add a model to the table.

    :param enabled: false removes the model from the table, as null does.
    """

    enabled: bool = Field(default=True, description="False removes the model from the table, as null does.")
    name: Title | None = Field(default=None, description="Name in the form.")
    vendor: Vendor | None = Field(default=None, description="Vendor of the GPU.")
    memory: Memory | None = Field(default=None, description="Memory of one GPU.")
    labels: dict[Literal["gfd", "gke", "karpenter", "amd", "intel"], list[LabelValue]] | None = Field(
        default=None, description="Names of the model in node labels, by the program that sets the labels."
    )
    karpenter_memory_mib: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="What Karpenter's memory label holds; tells models of the same name apart."
    )


_GIB = 1024**3


@cache
def load_builtin_accelerators() -> Mapping[str, Accelerator]:
    """Return the built-in GPU models by slug."""
    text = (files("gpuspawner") / "data" / "accelerators.json").read_text(encoding="utf-8")
    return {slug: _parse_accelerator(slug, raw) for slug, raw in json.loads(text)["accelerators"].items()}


def build_accelerator_table(changes: Mapping[str, AcceleratorEntry | None]) -> AcceleratorTable:
    """Return the built-in table with the admin's changes.

    :param changes: slug of a model → facts that replace those in the table or add the model; None removes the model.
    """
    models = dict(load_builtin_accelerators())
    for slug, change in changes.items():
        if change is None or not change.enabled:
            models.pop(slug, None)
        else:
            known = models.get(slug) or Accelerator(
                slug=slug, name=change.name or slug, vendor=change.vendor or "nvidia"
            )
            models[slug] = replace(known, **_convert_changes(change))
    return AcceleratorTable(models.values())


def _convert_changes(change: AcceleratorEntry) -> dict[str, Any]:
    given = {name: getattr(change, name) for name in change.model_fields_set if getattr(change, name) is not None}
    given.pop("enabled", None)
    if "memory" in given:
        given["memory_bytes"] = given.pop("memory")
    if "labels" in given:
        given["labels"] = {source: tuple(names) for source, names in given["labels"].items()}
    return given


def _parse_accelerator(slug: str, raw: Mapping[str, Any]) -> Accelerator:
    known = {field.name for field in fields(Accelerator)}
    plain = {key: value for key, value in raw.items() if key in known}
    plain["labels"] = {source: tuple(names) for source, names in raw["labels"].items()}
    plain["fractional"] = tuple(raw.get("fractional", ()))
    plain["nvlink"] = tuple(raw.get("nvlink", ()))
    if "memory_gib" in raw and "memory_gib" not in raw.get("unverified", ()):
        plain["memory_bytes"] = raw["memory_gib"] * _GIB
    if "compute_capability" not in raw.get("unverified", ()):
        plain["compute"] = parse_compute_capability(raw.get("compute_capability", ""))
    return Accelerator(slug=slug, **plain)
