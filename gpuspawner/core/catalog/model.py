"""What may be asked for: images, CPU and memory bounds, GPU types, presets. Values only.

The admin's settings (:mod:`gpuspawner.settings`) and the cluster's labels
(:mod:`gpuspawner.core.discovery.discover.discovery`)
both end
up as one :class:`Catalog`; everything a user selects is checked against it.

Bounds that become narrower, on the same steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gpuspawner.core.catalog.image_reference import ImageReference
from gpuspawner.core.catalog.kueue import KueueQueue
from gpuspawner.core.catalog.policy_model import Policy
from gpuspawner.core.cluster.model import Toleration

ComputeCapability = tuple[int, int]
"""Compute capability: major and minor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What nodes of one kind are like; None where their labels do not say.

    :param driver: major version of NVIDIA's driver.
    :param cuda: major version of the newest CUDA that this driver supports.
    :param compute: compute capability of the GPUs.
    :param labels: those of :data:`TELLING` that the nodes have.
    """

    architecture: str | None = None
    driver: int | None = None
    cuda: int | None = None
    compute: ComputeCapability | None = None
    labels: tuple[tuple[str, str], ...] = ()


class UnitKind(StrEnum):
    """What one unit of a GPU type's resource is."""

    CARD = "card"
    MIG = "mig"
    SHARED = "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A container image a user may pick.

    :param slug: key in settings and user options.
    :param image: reference as the container runtime gets it.
    :param cuda: CUDA version inside (``"12.8"``), or None when not declared; what it needs of nodes is known to
        :mod:`gpuspawner.core.catalog.software`.
    :param vendors: GPU vendors the image can use (``nvidia``, ``amd``, ``intel``); None = not declared (any),
        ``()`` = CPU only.
    :param architectures: values of ``kubernetes.io/arch`` the image exists for, of the only nodes it is started on;
        ``()`` = not declared.
    """

    slug: str
    display_name: str
    image: str
    description: str = ""
    cuda: str | None = None
    vendors: tuple[str, ...] | None = None
    architectures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomImages:
    """Images that people may name by themselves, by reference.

    :param registries: where they must come from, as :func:`gpuspawner.core.catalog.image_reference.parse_origin`
        returns it;
        ``()`` = anywhere.
    """

    registries: tuple[str, ...] = ()
    description: str = ""

    def allows(self, reference: ImageReference) -> bool:
        """Tell whether an image may be named."""
        return not self.registries or any(reference.is_from(each) for each in self.registries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Range of a quantity a user may pick, in whole base units (millicores, bytes or seconds).

    :param guarantee: part of the limit that becomes the request, 0 to 1.
    """

    min: int
    max: int
    step: int
    default: int
    guarantee: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """What an autoscaler may add for a GPU type, as the admin knows it; no API tells.

    :param max_nodes: nodes of the type that there may be at most.
    :param gpus_per_node: units of the type's resource on each.
    :param minutes: how long a new node takes to be ready.
    """

    max_nodes: int
    gpus_per_node: int
    minutes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUType:
    """One kind of GPU a user may pick: a resource, the nodes that have it, and what one unit of it is.

    :param resource: extended resource name (``nvidia.com/gpu``, ``nvidia.com/mig-1g.5gb``, ``amd.com/gpu``).
    :param match: node label → allowed values; all labels must match. Empty = every node with the resource. A label
        without values must not be on the node (GKE marks only the nodes whose GPUs are shared or sliced).
    :param max_count: largest count a user may ask for in one server.
    :param memory_bytes: memory of one unit, None when unknown (never parsed out of a product name).
    :param shm: /dev/shm as a fraction of the memory limit, None = the container runtime's default (64 MiB).
    :param start_timeout_s: seconds the hub waits for a server with this type, None = the spawner's own.
    :param note: a sentence shown with the type (for instance that it is simulated).
    :param members: other types, of the same resource, any of which will do; ``match`` is then empty and not looked at.
    :param platforms: what the type's nodes are like, each kind once; without any node, what is known of the models that
        ``match`` names. Empty where nothing is known.
    :param spot: the cloud may take back all its nodes at any time; None where nobody says so of all.
    :param interconnect: what links several of its GPUs in one node (``NVLink``); None where nobody says so of all.
    :param max_runtime_s: seconds after which every server with the type is stopped, None = never.
    """

    slug: str
    display_name: str
    resource: str
    vendor: str
    unit: UnitKind = UnitKind.CARD
    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    max_count: int = 1
    memory_bytes: int | None = None
    description: str = ""
    note: str = ""
    tolerations: tuple[Toleration, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    runtime_class: str | None = None
    shm: float | None = None
    start_timeout_s: int | None = None
    scale_up: ScaleUp | None = None
    members: tuple[GPUType, ...] = ()
    platforms: tuple[Platform, ...] = ()
    spot: bool | None = None
    interconnect: str | None = None
    max_runtime_s: int | None = None

    @property
    def label_matches(self) -> tuple[Mapping[str, tuple[str, ...]], ...]:
        """What ``match`` says, once for each type that would do."""
        return tuple(each.match for each in self.members) or (self.match,)

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with these labels is one of the type's (whether it has the resource is not asked)."""
        if self.members:
            return any(each.matches_labels(labels) for each in self.members)
        # A loop instead of all(…): asked for each node and type whenever a form is shown, and twice as fast.
        for key, values in self.match.items():
            if (labels.get(key) not in values) if values else (key in labels):
                return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An entry of a closed choice, see :data:`gpuspawner.core.request.field_definitions.CLOSED_CHOICES`.

    :param slug: key in settings and user options.
    """

    slug: str
    display_name: str
    description: str = ""


Choices = Mapping[str, Mapping[str, Choice]]
"""Field name → slug → entry, the default first; fields without entries are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named bundle of choices.

    :param options: user options it stands for (``{"cpu": 8, "gpu": "a100-80gb", "gpu_count": 1}``), validated when
        the settings were read.
    """

    slug: str
    display_name: str
    description: str = ""
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Everything that may be asked for, each mapping in the order it is shown.

    :param cpu: bounds in millicores; None while unknown (nothing configured, no node could be read): the limit is then
        left to KubeSpawner and the form shows no field.
    :param memory: bounds in bytes; None as for ``cpu``.
    :param hidden: GPU types that nodes may have and nobody may pick; servers without a GPU avoid their nodes as well.
    :param untyped: label → values of further nodes with GPUs, which no type is on.
    :param custom_images: None where people may only pick from ``images``.
    :param run_time: bounds in seconds of how long a server runs at most; None where nobody is asked: it runs on.
    :param shared_memory: bounds in bytes of /dev/shm; None where it is left to the GPU type. Nobody has to say a size.
    :param choices: of the closed choices, those that are offered.
    :param policy: who may have what of it; None where everybody may have all.
    :param max_runtime_s: seconds after which every server is stopped, whatever was chosen; None = never.
    :param queue: what servers with some GPU types go through before they get a node; None where they do not.
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

    @property
    def default_image(self) -> str:
        """Slug of the image used when none is asked for: the first one."""
        return next(iter(self.images))

    def find_default_choice(self, name: str) -> str | None:
        """Return the slug that a closed choice has by default, None where it is not offered.

        :param name: of the field.
        """
        return next(iter(self.choices.get(name, ())), None)


def narrow_bounds(bounds: Bounds | None, *, least: int | None = None, most: int | None = None) -> Bounds | None:
    """Return the part of bounds that lies in a range, None where they offer nothing in it.

    The default moves to the nearest amount that is left.

    :param bounds: None where nothing can be chosen; that stays so.
    :param least: in the bounds' unit, None = as the bounds have it; so for ``most``.
    """
    if bounds is None:
        return None
    lower, upper = bounds.min, bounds.max
    if least is not None and least > lower:
        lower += -(-(least - lower) // bounds.step) * bounds.step
    if most is not None and most < upper:
        upper = most - (most - bounds.min) % bounds.step
    if (lower, upper) == (bounds.min, bounds.max):
        return bounds
    if upper < lower:
        return None
    default = min(max(bounds.default, lower), upper)
    return replace(bounds, min=lower, max=upper, default=default - (default - lower) % bounds.step)


def find_lowest_limit(*limits: int | None) -> int | None:
    """Return the smallest of limits, None where there is none."""
    return min((limit for limit in limits if limit is not None), default=None)
