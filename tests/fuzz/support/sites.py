"""Five sites as their administrators know them: settings, nodes, and what a pod of each choice has to look like.

The expected pods of fields are written here by hand, in Kubernetes' own words: nothing of gpuspawner had a part in it.
Those of profiles are KubeSpawner's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MIB, GIB = 2**20, 2**30
MINUTE_S = 60
# Stricter than any runtime: a name in a fuzz that does not match this needs a look.
_REFERENCE = re.compile(
    r"(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:\w[\w.-]{0,127})?(@sha(256|384|512):[a-f0-9]{64,128})?", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Bounds of an amount in whole base units (millicores, bytes or seconds).

    :param guarantee: part of the limit that is requested, as a fraction.
    :param is_optional: who chooses none has none, as KubeSpawner's traits say.
    """

    least: int
    most: int
    step: int
    guarantee: tuple[int, int] = (1, 1)
    is_optional: bool = False


NOTHING = Range(least=0, most=0, step=1)
"""Bounds where there is no such field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """An image.

    :param vendors: whose GPUs it works with, None for any.
    :param expressions: what its nodes must match, whatever else is chosen.
    """

    name: str
    reference: str
    vendors: frozenset[str] | None = None
    expressions: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU type.

    :param spec: fields of the pod's spec, affinity left out.
    :param expressions: what its nodes must match, beside the node selector.
    :param shm: size of /dev/shm as a fraction of the memory limit.
    """

    name: str
    resource: str
    vendor: str
    most: int
    spec: Mapping[str, Any] = field(default_factory=dict)
    expressions: tuple[dict[str, Any], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    shm: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the policy lets each user have in one server.

    :param products: labels of the nodes whose GPUs are allowed.
    :param images: the images of the list; no other is allowed.
    :param cpu: millicores.
    :param memory: bytes.
    :param run_time_s: when Kubernetes ends the server.
    """

    gpus: int
    products: frozenset[str]
    images: frozenset[str]
    cpu: int
    memory: int
    run_time_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A hub and its cluster.

    :param settings: the administrator's, as in Helm values.
    :param kubespawner: the same, of KubeSpawner.
    :param images: by slug, the default first.
    :param origins: beginnings of the names of custom images, none if users may not name any.
    :param avoided: expressions that nodes without GPUs match.
    :param run_time: how long servers run at most, None if they run on.
    :param shared_memory: size of /dev/shm, None if only the GPU types decide.
    :param priorities: PriorityClass by slug.
    :param profiles: KubeSpawner's ``profile_list``; the first one is the default.
    :param has_fields: whether gpuspawner's fields can be chosen, perhaps beside the profiles.
    :param limits: what the policy lets each user have.
    """

    name: str
    settings: Mapping[str, Any]
    kubespawner: Mapping[str, Any]
    nodes: tuple[dict[str, Any], ...]
    images: Mapping[str, Offered] = field(default_factory=dict)
    cpu: Range = NOTHING
    memory: Range = NOTHING
    cards: Mapping[str, Card] = field(default_factory=dict)
    presets: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    avoided: tuple[dict[str, Any], ...] = ()
    run_time: Range | None = None
    shared_memory: Range | None = None
    priorities: Mapping[str, str] = field(default_factory=dict)
    profiles: tuple[dict[str, Any], ...] = ()
    has_fields: bool = True
    limits: Limits | None = None

    def named(self, reference: str | None) -> Offered | None:
        """Return an image that users may name, by its full name; None for any other."""
        begin = next((each for each in self.origins if (reference or "").startswith(f"{each}/")), None)
        if reference is None or begin is None or not _REFERENCE.fullmatch(reference.removeprefix(begin)):
            return None
        return Offered(name=reference, reference=reference)

    @property
    def default_image(self) -> str:
        return next(iter(self.images))


def _node(name: str, labels: Mapping[str, str], **devices: str) -> dict[str, Any]:
    # Large enough for whatever may be chosen: a server that fits nowhere is refused for another reason than its field.
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", **devices}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/arch": "amd64", **labels}},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _in(label: str, *values: str) -> dict[str, Any]:
    return {"key": label, "operator": "In", "values": list(values)}


def _not_in(label: str, *values: str) -> dict[str, Any]:
    return {"key": label, "operator": "NotIn", "values": list(values)}


def _tolerated(*keys: str) -> list[dict[str, str]]:
    return [{"key": key, "operator": "Exists"} for key in keys]


NVIDIA, AMD, SLICE = "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb"
PRODUCT, AMD_PRODUCT, MIG_CONFIG = "nvidia.com/gpu.product", "amd.com/gpu.product", "nvidia.com/mig.config"
A100, T4 = "NVIDIA-A100-SXM4-80GB", "Tesla-T4"
EXISTS = {"key": NVIDIA, "operator": "Exists", "effect": "NoSchedule"}

DESCRIBED = Site(
    name="described",
    settings={
        "images": {
            "pytorch": {"display_name": "PyTorch", "image": "registry.example/pytorch:1", "vendors": ["nvidia"]},
            "minimal": {"display_name": "Minimal", "image": "registry.example/minimal:1"},
            # KubeSpawner expands what is in braces in many of its settings.
            "plain": {"display_name": "Plain {username} {", "image": "registry.example/plain:1", "vendors": []},
            "amd64": {
                "display_name": "For x86",
                "image": "registry.example/x86:1",
                "vendors": ["amd"],
                "architectures": ["amd64"],
            },
        },
        "custom_images": {"allowed": True, "registries": ["quay.io/jupyter", "registry.example:5000"]},
        "cpu": {"min": 0.5, "max": 8, "step": 0.5, "default": 2, "guarantee": 0.5},
        "memory": {"min": "512M", "max": "64G", "step": "512M", "default": "4G"},
        "run_time": {"min": "20m", "max": "2d", "step": "20m", "default": "8h"},
        "shared_memory": {"min": "512M", "max": "16G", "step": "256M"},
        "priorities": {"normal": {"class": "site-normal", "value": 100}, "low": {"class": "site-low", "value": -10}},
        "gpus": {
            "a100": {
                "display_name": "A100",
                "resource": NVIDIA,
                "vendor": "nvidia",
                "match": {PRODUCT: [A100]},
                "max_count": 4,
                "tolerations": [EXISTS],
                "runtime_class": "nvidia",
                "shm": 0.5,
                "start_timeout": 900,
            },
            "t4": {
                "display_name": "T4",
                "resource": NVIDIA,
                "vendor": "nvidia",
                "match": {PRODUCT: [T4]},
                "max_count": 1,
                "tolerations": [],
                "environment": {"CARD": "{t4}"},
            },
            "slice": {
                "display_name": "A slice",
                "resource": SLICE,
                "vendor": "nvidia",
                "unit": "mig",
                "match": {MIG_CONFIG: ["all-1g.10gb"]},
                "max_count": 7,
            },
            "mi210": {
                "display_name": "MI210",
                "resource": AMD,
                "vendor": "amd",
                "match": {AMD_PRODUCT: ["MI210", "MI210-B"]},
                "max_count": 2,
            },
            "either": {"display_name": "A100 or T4", "any_of": ["a100", "t4"], "runtime_class": "nvidia"},
        },
        "presets": {
            "small": {"display_name": "Small", "cpu": 1, "memory": "2G", "shared_memory": "2G"},
            "train": {
                "display_name": "Training",
                "image": "minimal",
                "gpu": "a100",
                "gpu_count": 2,
                "run_time": "36h",
            },
        },
        "discover_gpus": False,
        # The API server of these tests takes every pod.
        "dry_run": False,
    },
    kubespawner={},
    nodes=(
        _node("a100", {PRODUCT: A100}, **{NVIDIA: "4"}),
        _node("t4", {PRODUCT: T4}, **{NVIDIA: "1"}),
        _node("slices", {MIG_CONFIG: "all-1g.10gb"}, **{SLICE: "7"}),
        _node("mi210", {AMD_PRODUCT: "MI210"}, **{AMD: "2"}),
        _node("cpu", {}),
    ),
    images={
        "pytorch": Offered(name="PyTorch", reference="registry.example/pytorch:1", vendors=frozenset({"nvidia"})),
        "minimal": Offered(name="Minimal", reference="registry.example/minimal:1"),
        "plain": Offered(name="Plain {username} {", reference="registry.example/plain:1", vendors=frozenset()),
        "amd64": Offered(
            name="For x86",
            reference="registry.example/x86:1",
            vendors=frozenset({"amd"}),
            expressions=(_in("kubernetes.io/arch", "amd64"),),
        ),
    },
    cpu=Range(least=500, most=8000, step=500, guarantee=(1, 2)),
    memory=Range(least=GIB // 2, most=64 * GIB, step=GIB // 2),
    run_time=Range(least=20 * MINUTE_S, most=48 * 60 * MINUTE_S, step=20 * MINUTE_S),
    shared_memory=Range(least=GIB // 2, most=16 * GIB, step=GIB // 4),
    priorities={"normal": "site-normal", "low": "site-low"},
    cards={
        "a100": Card(
            name="A100",
            resource=NVIDIA,
            vendor="nvidia",
            most=4,
            spec={
                "nodeSelector": {PRODUCT: A100},
                "tolerations": [EXISTS],
                "runtimeClassName": "nvidia",
            },
            shm=(1, 2),
        ),
        "t4": Card(
            name="T4",
            resource=NVIDIA,
            vendor="nvidia",
            most=1,
            spec={"nodeSelector": {PRODUCT: T4}},
            environment={"CARD": "{t4}"},
        ),
        "slice": Card(
            name="A slice",
            resource=SLICE,
            vendor="nvidia",
            most=7,
            spec={"nodeSelector": {MIG_CONFIG: "all-1g.10gb"}, "tolerations": _tolerated(SLICE, NVIDIA)},
        ),
        "mi210": Card(
            name="MI210",
            resource=AMD,
            vendor="amd",
            most=2,
            spec={"tolerations": _tolerated(AMD)},
            expressions=(_in(AMD_PRODUCT, "MI210", "MI210-B"),),
        ),
        "either": Card(
            name="A100 or T4",
            resource=NVIDIA,
            vendor="nvidia",
            most=4,
            spec={"tolerations": [EXISTS], "runtimeClassName": "nvidia"},
            expressions=(_in(PRODUCT, A100, T4),),
            shm=(1, 2),
        ),
    },
    presets=("small", "train"),
    origins=("quay.io/jupyter", "registry.example:5000"),
    avoided=(
        _not_in(PRODUCT, A100, T4),
        _not_in(MIG_CONFIG, "all-1g.10gb"),
        _not_in(AMD_PRODUCT, "MI210", "MI210-B"),
    ),
)

DISCOVERED = Site(
    name="discovered",
    settings={"dry_run": False},
    kubespawner={"image": "registry.example/base:1"},
    nodes=(
        _node("a100", {PRODUCT: A100, "nvidia.com/gpu.memory": "81920"}, **{NVIDIA: "8"}),
        _node("t4", {PRODUCT: T4, "nvidia.com/gpu.memory": "15360"}, **{NVIDIA: "2"}),
        _node("cpu", {}),
    ),
    images={"default": Offered(name="base:1", reference="registry.example/base:1")},
    # From half a core and one GiB up to what the largest node has.
    cpu=Range(least=500, most=64_000, step=500, guarantee=(1, 2), is_optional=True),
    memory=Range(least=GIB, most=512 * GIB, step=GIB, is_optional=True),
    cards={
        "a100-80gb": Card(
            name="A100 80 GB",
            resource=NVIDIA,
            vendor="nvidia",
            most=8,
            spec={"nodeSelector": {PRODUCT: A100}, "tolerations": _tolerated(NVIDIA)},
        ),
        "t4": Card(
            name="T4",
            resource=NVIDIA,
            vendor="nvidia",
            most=2,
            spec={"nodeSelector": {PRODUCT: T4}, "tolerations": _tolerated(NVIDIA)},
        ),
    },
    avoided=(_not_in(PRODUCT, A100, T4),),
)


def _asks(number: int) -> dict[str, Any]:
    return {"display_name": f"{number} GPUs", "kubespawner_override": {"extra_resource_limits": {NVIDIA: str(number)}}}


IMAGE_PATTERN = "^quay[.]io/jupyter/[a-z]+$"
PROFILES: tuple[dict[str, Any], ...] = (
    {
        "display_name": "CPU",
        "slug": "cpu",
        "kubespawner_override": {
            "cpu_limit": 2,
            "cpu_guarantee": 0.25,
            "mem_limit": "4G",
            "environment": {"PROFILE": "cpu", "OWNER": "{username}", "BASE": None},
        },
    },
    {
        "display_name": "A100",
        "slug": "a100",
        "kubespawner_override": {
            "cpu_limit": 4,
            "mem_limit": "8G",
            "node_selector": {PRODUCT: A100},
            "tolerations": [EXISTS],
            "extra_resource_limits": {NVIDIA: "1"},
        },
        "profile_options": {
            "count": {"choices": {"one": _asks(1), "two": {"default": True, **_asks(2)}, "four": _asks(4)}},
            "size": {
                "choices": {
                    "small": {"kubespawner_override": {"environment": {"SIZE": "small"}}},
                    "large": {"kubespawner_override": {"cpu_limit": 8, "mem_limit": "64G"}},
                },
            },
            "image": {
                "choices": {
                    "lab": {"kubespawner_override": {"image": "registry.example/lab:1"}},
                    "torch": {"kubespawner_override": {"image": "registry.example/torch:1"}},
                },
                "unlisted_choice": {
                    "enabled": True,
                    "validation_regex": IMAGE_PATTERN,
                    "validation_message": "Images of Jupyter only.",
                    "kubespawner_override": {"image": "{value}"},
                },
            },
        },
    },
    {
        "display_name": "<b>T4</b>",
        "slug": "t4",
        "kubespawner_override": {
            "cpu_limit": 1,
            "mem_limit": "2G",
            "node_selector": {PRODUCT: T4},
            "tolerations": [EXISTS],
            "extra_resource_limits": {NVIDIA: "1"},
        },
    },
    {"display_name": "No limits", "slug": "free"},
    {
        "display_name": "Course",
        "slug": "course",
        "kubespawner_override": {"cpu_limit": 1, "mem_limit": "1G"},
        "profile_options": {
            "name": {
                "unlisted_choice": {
                    "enabled": True,
                    "validation_regex": "^[a-z0-9-]{1,40}$",
                    "kubespawner_override": {"environment": {"COURSE": "{value}"}},
                },
            },
        },
    },
)
"""KubeSpawner's profiles; some break the policy of ``LIMITED``, as a whole or with one of their choices."""

PLAIN = Site(
    name="profiles",
    settings={"dry_run": False},
    kubespawner={
        "profile_list": [*PROFILES],
        "image": "registry.example/base:1",
        "environment": {"BASE": "1", "OWNER": "hub"},
        "node_selector": {"zone": "a"},
    },
    nodes=(
        _node("a100", {PRODUCT: A100, "zone": "a"}, **{NVIDIA: "4"}),
        _node("t4", {PRODUCT: T4, "zone": "a"}, **{NVIDIA: "1"}),
        _node("cpu", {"zone": "a"}),
    ),
    profiles=PROFILES,
    has_fields=False,
)

LIMITED = replace(
    PLAIN,
    name="profiles, policy",
    settings={
        "gpus": {slug: DESCRIBED.settings["gpus"][slug] for slug in ("a100", "t4")},
        "discover_gpus": False,
        "policy": {
            "default": {
                "gpus": ["a100"],
                "max_gpus_per_server": 2,
                "cpu": {"max": 4},
                "memory": {"max": "16G"},
                "custom_images": False,
                "max_runtime": "2h",
            },
        },
        "dry_run": False,
    },
    limits=Limits(
        gpus=2,
        products=frozenset({A100}),
        images=frozenset({"registry.example/base:1", "registry.example/lab:1", "registry.example/torch:1"}),
        cpu=4000,
        memory=16 * GIB,
        run_time_s=120 * MINUTE_S,
    ),
)

BESIDE = replace(DESCRIBED, name="profiles and fields", kubespawner={"profile_list": [*PROFILES]}, profiles=PROFILES)

SITES = (DESCRIBED, DISCOVERED, PLAIN, LIMITED, BESIDE)
