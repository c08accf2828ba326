"""Define the catalog's values: images, bounds of CPU and memory, GPU types, presets, priorities.

:mod:`gpuspawner.core.discovery` builds one :class:`Catalog` from the admin's settings and the GPU types that it finds
on nodes. Every choice of a user is checked against this catalog.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, ClassVar, Self

from gpuspawner.core.catalog.image_reference import ImageReference, Origin, parse_reference
from gpuspawner.core.catalog.policy_model import UNLIMITED, Policy
from gpuspawner.core.catalog.queue import KueueQueue
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.value_types import (
    NO_DEFAULT,
    Entry,
    EnvironmentName,
    FromSettings,
    ImageText,
    LabelKey,
    LabelValue,
    LabelValues,
    Many,
    Memory,
    Named,
    ObjectName,
    OneOf,
    OverridingEntry,
    Resource,
    RunTime,
    ShortText,
    Slug,
    Text,
    UnitFraction,
    Vendor,
    Version,
    setting,
)

ComputeCapability = tuple[int, int]
"""Major and minor version of a GPU's CUDA compute capability."""
TraitValues = Mapping[str, object]
"""Name of a KubeSpawner trait → its value (``kubespawner_override`` in the settings). As in a KubeSpawner profile, a
mapping is merged into the trait's mapping, and any other value replaces the trait's value."""
NO_LIMIT = 0
"""An amount of CPU or memory that stands for no limit or no guarantee, as 0 does for KubeSpawner's traits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """CPU architecture, GPU driver and GPU generation of nodes, as their labels say; None where the labels do not say.

    :param architecture: value of ``kubernetes.io/arch``.
    :param driver: major version of NVIDIA's driver.
    :param cuda: major version of the newest CUDA that the driver supports.
    :param compute: compute capability of the GPUs.
    :param labels: (label, value) of the nodes, for the labels in
        :data:`gpuspawner.core.catalog.software.PLATFORM_LABELS`.
    """

    architecture: str | None = None
    driver: int | None = None
    cuda: int | None = None
    compute: ComputeCapability | None = None
    labels: tuple[tuple[str, str], ...] = ()


class UnitKind(StrEnum):
    """What one unit of a GPU type's resource is: a whole GPU, a MIG slice, or a share of a GPU."""

    CARD = "card"
    MIG = "mig"
    SHARED = "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(OverridingEntry):
    """An image that users may pick."""

    image: Annotated[
        ImageText, setting("Reference of the image, such as quay.io/jupyter/pytorch-notebook:cuda12-latest.")
    ] = ""
    cuda: Annotated[
        Version | None,
        setting("CUDA version in the image, compared with driver and GPUs of the nodes. Omitted: not compared."),
    ] = None
    rocm: Annotated[Version | None, setting("ROCm version in the image.")] = None
    vendors: Annotated[
        Many[Vendor] | None,
        setting("Vendors whose GPUs the image can use; empty: none. Omitted: as cuda and rocm imply, else any."),
    ] = None
    architectures: Annotated[
        Many[LabelValue], setting("Values of kubernetes.io/arch that the image is built for; empty: any.")
    ] = ()

    def complete(self, slug: str) -> Self:
        """Return the image with its slug, and with a name and the vendors that ``cuda`` and ``rocm`` imply."""
        vendors = (tuple(self.toolkits) or None) if self.vendors is None else self.vendors
        return replace(self, slug=slug, display_name=self.display_name or slug, vendors=vendors)

    @property
    def toolkits(self) -> dict[str, str]:
        """Vendor → version of its toolkit (CUDA, ROCm) in the image, without those that the settings leave out."""
        versions = {"nvidia": self.cuda, "amd": self.rocm}
        return {vendor: version for vendor, version in versions.items() if version is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomImages(FromSettings):
    """Images that users may enter by their reference.

    :param listed: image reference → image, for the images in the settings. The references have the form of
        :attr:`gpuspawner.core.catalog.image_reference.ImageReference.pulled`.
    """

    allowed: Annotated[bool, setting("Whether users may enter an image reference.")] = field(
        default=False, compare=False
    )
    registries: Annotated[
        Many[Origin],
        setting("Registries, or prefixes of repositories in them, that images must come from; empty: any."),
    ] = ()
    description: Annotated[Text, setting("A sentence below the field.")] = ""
    listed: Mapping[str, Image] = field(default_factory=dict, hash=False)

    def allows(self, reference: ImageReference) -> bool:
        """Return whether an image comes from an allowed registry or path."""
        return not self.registries or any(reference.is_from(each) for each in self.registries)

    def describe(self, reference: str) -> Image:
        """Return a custom image. If ``listed`` contains it, its CUDA version, vendors and overrides come from there."""
        found = parse_reference(reference)
        known = None if found is None else self.listed.get(found.pulled)
        plain = Image(slug="", display_name=reference, image=reference)
        if known is None:
            return plain
        return replace(known, slug="", display_name=reference, image=reference, description="")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAmount:
    """KubeSpawner's limit and guarantee of CPU (in millicores) or memory (in bytes), from traits such as ``cpu_limit``.

    gpuspawner uses these amounts for CPU or memory if the settings have no bounds for that resource.

    :param limit: None = no limit.
    :param guarantee: None = no guarantee. Kubernetes then sets the pod's request to the limit.
    """

    limit: int | None = None
    guarantee: int | None = None


NO_AMOUNT = OwnAmount()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnResources:
    """Resources and node selector that KubeSpawner's own traits, such as ``mem_limit``, give each server.

    :param cpu: limit and guarantee of CPU, in millicores.
    :param memory: limit and guarantee of memory, in bytes.
    :param gpus: (extended resource, number of GPUs) in ``extra_resource_limits``, each resource once.
    :param container_gpus: (trait, extended resource, number of GPUs) for the GPUs in ``extra_container_config`` and
        other traits that describe containers. gpuspawner removes these GPUs from servers.
    :param node_selector: (label, value) of each entry of the trait ``node_selector``.
    """

    cpu: OwnAmount = NO_AMOUNT
    memory: OwnAmount = NO_AMOUNT
    gpus: tuple[tuple[str, int], ...] = ()
    container_gpus: tuple[tuple[str, str, int], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()


NO_RESOURCES = OwnResources()
"""KubeSpawner's defaults: no limits, no guarantees and no GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Range of an amount that a user can choose, in whole millicores, bytes or seconds.

    :param min: smallest amount.
    :param max: largest amount.
    :param step: distance between two amounts, counted from ``min``.
    :param default: amount when the user chooses none. It may lie between two steps.
    :param guarantee: fraction of the limit, 0 to 1, that becomes the pod's request.
    :param own: limit and guarantee from KubeSpawner's traits; None = the settings have bounds, which replace both. The
        pod requests this guarantee (at most the limit). Without it, the pod requests the fraction ``guarantee``.
    :param is_optional: True = a user who chooses no amount gets no limit. False = such a user gets ``default``.
    """

    min: int
    max: int
    step: int
    default: int
    guarantee: float = 1.0
    own: OwnAmount | None = None
    is_optional: bool = False

    @property
    def usual(self) -> int | None:
        """Amount for a server whose user chooses no amount; None = no limit."""
        return None if self.is_optional else self.default

    def find_most_requested(self, request: int) -> int | None:
        """Return the largest limit at which the pod requests at most ``request``; None = any limit.

        :param request: maximum of the pod's resource request, in millicores or bytes.
        """
        own = self.own.guarantee if self.own is not None else None
        if own is not None:
            return None if own <= request else request
        return math.floor(request / Fraction(repr(self.guarantee)))

    def contains(self, amount: int) -> bool:
        """Return whether a user can choose an amount: it is on a step of the range, or it is the default.

        :param amount: in millicores, bytes or seconds.
        """
        is_on_step = self.min <= amount <= self.max and (amount - self.min) % self.step == 0
        return is_on_step or amount == self.default


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp(FromSettings):
    """The nodes that a cluster autoscaler may add."""

    max_nodes: Annotated[int, setting("Greatest number of nodes of the type, existing ones included.", ge=1)]
    gpus_per_node: Annotated[int, setting("GPUs on each node; without max_count, one server may have as many.", ge=1)]
    minutes: Annotated[float, setting("Minutes until a new node is ready.", gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUType(OverridingEntry):
    """A GPU type that users may pick, or a choice that combines several types (``any_of``, ``min_memory``).

    :param members: for a combined type, the types that it combines, all with the same resource; ``match`` is then
        unused. ``()`` for any other type.
    :param platforms: the distinct :class:`Platform` values of the type's nodes, or of the GPU models in ``match`` if
        there are no nodes; empty if unknown.
    """

    any_of: Annotated[
        Many[Slug],
        setting("GPU types of which the server gets any one; all must have the same resource.", min_length=1),
    ] = ()
    min_memory_bytes: Annotated[
        Memory | None,
        setting("The server gets any GPU type of this resource with at least this memory.", alias="min_memory"),
    ] = None
    resource: Annotated[Resource, setting("Extended resource that counts the GPUs, such as nvidia.com/gpu.")] = ""
    vendor: Annotated[
        str,
        OneOf("nvidia", "amd", "intel", "other"),
        setting("Vendor of the GPU, or other for accelerators such as TPUs. Omitted: as the resource implies."),
    ] = ""
    unit: Annotated[
        UnitKind,
        OneOf(**{unit.value: unit for unit in UnitKind}),
        setting("What one unit is: a full GPU, a slice, or a share. Omitted: as resource, labels and nodes imply."),
        NO_DEFAULT,
    ] = UnitKind.CARD
    match: Annotated[
        Named[LabelKey, LabelValues],
        setting(
            "Node labels and their allowed values, all of which must match; [] for a label that the node must not have."
        ),
    ] = field(default_factory=dict)
    max_count: Annotated[
        int,
        setting("Largest number in one server. Omitted: as many as the largest node has.", ge=1, le=1024),
        NO_DEFAULT,
    ] = 1
    memory_bytes: Annotated[
        Memory | None, setting("Memory of one unit. Omitted: as the labels or the model imply.", alias="memory")
    ] = None
    note: Annotated[Text, setting("A sentence shown with the type.")] = ""
    spot: Annotated[
        bool | None, setting("Whether the cloud may take its nodes back at any time. Omitted: as labels imply.")
    ] = None
    interconnect: Annotated[
        ShortText | None, setting("Link between the GPUs of a node, such as NVLink. Omitted: as labels imply.")
    ] = None
    tolerations: Annotated[
        Many[Toleration],
        setting("Replace the default tolerations, which are for the usual taints of GPU nodes."),
        NO_DEFAULT,
    ] = ()
    environment: Annotated[Named[EnvironmentName, Text], setting("Environment variables of servers with the type.")] = (
        field(default_factory=dict)
    )
    runtime_class: Annotated[
        ObjectName | None, setting("RuntimeClass of servers with the type, where GPUs need one.")
    ] = None
    shm: Annotated[UnitFraction | None, setting("Size of /dev/shm as a fraction of the memory limit.")] = None
    scale_up: Annotated[ScaleUp | None, setting("What an autoscaler may add.")] = None
    new_nodes: Annotated[
        bool,
        OneOf(possible=True, none=False),
        setting(
            "none: no nodes of the type are added besides those that scale_up and NodePools describe."
            " Omitted: as for the hub."
        ),
        NO_DEFAULT,
    ] = True
    start_timeout_s: Annotated[
        int | None,
        setting(
            "Seconds that the hub waits for a server with the type. Omitted: KubeSpawner's start_timeout.",
            alias="start_timeout",
            ge=1,
            le=24 * 3600,
        ),
    ] = None
    max_runtime_s: Annotated[
        RunTime | None,
        setting("Time after which every server with the type is stopped, for all users.", alias="max_runtime"),
    ] = None
    members: tuple[GPUType, ...] = ()
    platforms: tuple[Platform, ...] = ()

    def complete(self, slug: str) -> Self:
        """Return the type with its slug. What else the settings leave out, nodes and GPU models may tell."""
        return replace(self, slug=slug)

    @property
    def is_union(self) -> bool:
        """Whether the type is a choice that combines several GPU types (``any_of`` or ``min_memory``)."""
        return bool(self.any_of) or self.min_memory_bytes is not None

    @property
    def label_matches(self) -> tuple[Mapping[str, tuple[str, ...]], ...]:
        """``match`` of the type; for a combined type, ``match`` of each member."""
        return tuple(each.match for each in self.members) or (self.match,)

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node's labels fit the type; the node may still lack the type's resource."""
        if self.members:
            return any(each.matches_labels(labels) for each in self.members)
        # A loop is twice as fast as all(…), and callers check many nodes against every GPU type.
        for key, values in self.match.items():
            if (labels.get(key) not in values) if values else (key in labels):
                return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Entry):
    """An option of a form field in which users pick from a list, for example one of the priorities.

    :cvar required_keys: keys that the settings of an enabled option must have.
    """

    required_keys: ClassVar[tuple[str, ...]] = ()


Choices = Mapping[str, Mapping[str, Choice]]
"""Name of a form field, such as ``priority`` → slug → option, the default first. Fields without options are absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named set of values for form fields, which a user chooses in one step and may then change.

    :param slug: key in settings.
    :param display_name: name in the form.
    :param description: text below the name; may be empty.
    :param options: values of form fields, as in user options: ``{"cpu": 8, "gpu": "a100-80gb", "gpu_count": 1}``.
    """

    slug: str
    display_name: str
    description: str = ""
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Everything that a user can choose, each mapping in display order.

    :param images: slug → image; never empty.
    :param cpu: bounds in millicores. None if the settings have no bounds, and no node is known to derive bounds from.
        The form then shows no field for CPU, and KubeSpawner's own limit applies.
    :param memory: bounds in bytes; None means the same as for ``cpu``.
    :param gpus: slug → GPU type.
    :param presets: slug → preset.
    :param hidden: GPU types that users cannot choose. Servers without a GPU stay off the nodes of these types.
    :param untyped: label → values of GPU nodes that belong to no GPU type. Servers without a GPU stay off these nodes.
    :param custom_images: settings for images by reference; None = users can choose from ``images`` only.
    :param run_time: bounds of the run time in seconds; None = the form has no such field.
    :param shared_memory: bounds of /dev/shm in bytes; None = no field. With no size, the GPU type's ``shm`` decides.
    :param choices: the options of each form field with a list, such as priorities.
    :param policy: the admin's rules; None = every user can have everything.
    :param max_runtime_s: seconds until each server's pod ends (``activeDeadlineSeconds``); None = GPU types decide.
    :param queue: Kueue's queue for servers with a GPU; None = servers are not queued.
    :param own: the resources and the node selector that KubeSpawner's traits give each server.
    :param default_gpus: (slug of a GPU type, number of GPUs) for the GPUs in KubeSpawner's traits. A server whose user
        options name no GPU type gets the first of these types that the user's limits and image allow.
    :param dropped_gpus: extended resource → number of GPUs that KubeSpawner's traits request but servers do not get.
    :param new_nodes: whether nodes may be added that no NodePool describes, for servers without a GPU type.
    """

    images: Mapping[str, Image]
    cpu: Bounds | None
    memory: Bounds | None
    gpus: Mapping[str, GPUType] = field(default_factory=dict)
    presets: Mapping[str, Preset] = field(default_factory=dict)
    hidden: Sequence[GPUType] = ()
    untyped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    custom_images: CustomImages | None = None
    run_time: Bounds | None = None
    shared_memory: Bounds | None = None
    choices: Choices = field(default_factory=dict)
    policy: Policy | None = None
    max_runtime_s: int | None = None
    queue: KueueQueue | None = None
    own: OwnResources = NO_RESOURCES
    default_gpus: tuple[tuple[str, int], ...] = ()
    dropped_gpus: Mapping[str, int] = field(default_factory=dict)
    new_nodes: bool = True

    @property
    def default_image(self) -> str:
        """Slug of the first image, the default for users who choose none."""
        return next(iter(self.images))

    def find_default_choice(self, name: str) -> str | None:
        """Return the slug of a field's default, the first option, or None if the field has no options.

        :param name: name of a form field in :attr:`choices`.
        """
        return next(iter(self.choices.get(name, ())), None)

    def find_queue(self, gpu: str) -> KueueQueue | None:
        """Return the Kueue queue for servers with a GPU type, or None if they use no queue.

        :param gpu: slug of the type.
        """
        return self.queue if self.queue is not None and self.queue.accepts(gpu) else None


def narrow_bounds(bounds: Bounds | None, *, least: int | None = None, most: int | None = None) -> Bounds | None:
    """Return bounds limited to a range, with the same steps, or None if no step lies in the range.

    A default outside the range moves to the nearest amount that remains. If ``most`` is a limit, a user who chooses no
    amount gets the default, even if ``bounds.is_optional`` is True.

    :param bounds: bounds of an amount; None returns None.
    :param least: lower end of the range in the bounds' unit; None = no lower end.
    :param most: upper end of the range in the bounds' unit; None or UNLIMITED = no upper end.
    """
    if bounds is None:
        return None
    lower, upper = bounds.min, bounds.max
    if least is not None and least > lower:
        lower += -(-(least - lower) // bounds.step) * bounds.step
    if most is not None and most < upper:
        upper = most - (most - bounds.min) % bounds.step
    is_optional = bounds.is_optional and (most is None or most >= UNLIMITED)
    if (lower, upper, is_optional) == (bounds.min, bounds.max, bounds.is_optional):
        return bounds
    if upper < lower:
        return None
    default = bounds.default
    if not lower <= default <= upper:
        nearest = min(max(default, lower), upper)
        default = nearest - (nearest - lower) % bounds.step
    return replace(bounds, min=lower, max=upper, default=default, is_optional=is_optional)


def find_lowest_limit(*limits: int | None) -> int | None:
    """Return the smallest limit, or None if all limits are None."""
    return min((limit for limit in limits if limit is not None), default=None)
