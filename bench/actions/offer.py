"""The offer of both forms, and the picks in them: 24 GPU types of three vendors, 20 images, CPU and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory, Occupancy

GIB = 1024**3
RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
LABELS = {
    "nvidia": "nvidia.com/gpu.product",
    "amd": "amd.com/gpu.product-name",
    "intel": "gpu.intel.com/product",
}
# Name, vendor, GiB of memory, and how many a server may have.
GPUS = [
    *(("B200", "nvidia", 180, 8), ("H200", "nvidia", 141, 8), ("H100 NVL", "nvidia", 94, 4), ("H100", "nvidia", 80, 8)),
    *(("GH200", "nvidia", 96, 1), ("A100 80 GB", "nvidia", 80, 8), ("A100 40 GB", "nvidia", 40, 8)),
    *(("L40S", "nvidia", 45, 8), ("L40", "nvidia", 45, 8), ("L4", "nvidia", 23, 8), ("A40", "nvidia", 45, 4)),
    *(("RTX 6000 Ada", "nvidia", 48, 4), ("A30", "nvidia", 24, 4), ("A10", "nvidia", 23, 4), ("A2", "nvidia", 15, 2)),
    *(("V100 32 GB", "nvidia", 32, 8), ("V100 16 GB", "nvidia", 16, 8), ("T4", "nvidia", 15, 4)),
    *(("MI300X", "amd", 192, 8), ("MI250X", "amd", 64, 8), ("MI210", "amd", 64, 4)),
    *(("Max 1550", "intel", 128, 4), ("Max 1100", "intel", 48, 4), ("Flex 170", "intel", 16, 2)),
]
IMAGES = [
    *("JupyterLab", "PyTorch", "TensorFlow", "JAX", "RAPIDS", "R and RStudio", "Julia", "Data science", "Geography"),
    *("Bioinformatics", "Chemistry", "Deep learning course", "Vision course", "vLLM", "Spark", "Ollama", "MATLAB"),
    *("VS Code", "Octave", "Minimal"),
]


class Choice(NamedTuple):
    """A user's picks: names as users read them, numbers as they write them.

    :param gpu: the GPU type; ``gpus`` is how many of it.
    :param memory: in GiB.
    """

    gpu: str
    gpus: str
    cpu: str
    memory: str
    image: str


# In the middle of their lists, as they are listed and as our form orders them by memory. No number is a default.
CHOICE = Choice(gpu="A30", gpus="2", cpu="8", memory="64", image="Chemistry")

_CPUS = ("2", "4", "8", "16", "32", "64")
_MEMORIES = ("8", "16", "32", "64", "128", "256", "512")
"""CPU and memory of a profile list, in GiB; our form offers all amounts between the first and the last."""


def slug_of(name: str) -> str:
    """Return the slug of a GPU type or an image."""
    return name.lower().replace(" ", "-")


def catalog() -> Catalog:
    """Return what our form offers: no presets, so that both forms offer the same."""
    return Catalog(
        images={
            slug_of(name): Image(slug=slug_of(name), display_name=name, image=f"registry.example/{slug_of(name)}:1")
            for name in IMAGES
        },
        cpu=Bounds(min=500, max=64_000, step=500, default=2_000),
        memory=Bounds(min=GIB, max=512 * GIB, step=GIB, default=8 * GIB),
        gpus={
            slug_of(name): GPUType(
                slug=slug_of(name),
                display_name=name,
                resource=RESOURCES[vendor],
                vendor=vendor,
                match={LABELS[vendor]: (slug_of(name),)},
                max_count=most,
                memory_bytes=gib * GIB,
            )
            for name, vendor, gib, most in GPUS
        },
    )


def inventory() -> Inventory:
    """Return a node of each type on which everything is free, so that no row folds away."""
    nodes = []
    for name, vendor, _, _ in GPUS:
        amounts = {"cpu": 96_000, "memory": 768 * GIB, "pods": 110, RESOURCES[vendor]: 8}
        labels = {LABELS[vendor]: slug_of(name)}
        nodes.append(Node(name=slug_of(name), labels=labels, allocatable=amounts, capacity=amounts))
    return Inventory(nodes=tuple(nodes), occupancy=Occupancy.build(nodes, ()), age_s=0.0)


def profile_of_each_type() -> list[dict[str, Any]]:
    """Return the same choices as a profile list with a profile for each GPU type, as most sites have it."""
    return [
        {
            "display_name": name,
            "slug": slug_of(name),
            "description": f"{gib} GiB of GPU memory",
            "profile_options": {
                "count": _options("GPUs", [str(number) for number in range(1, most + 1)]),
                **_other_options(),
            },
            "kubespawner_override": {"node_selector": {LABELS[vendor]: slug_of(name)}},
        }
        for name, vendor, gib, most in GPUS
    ]


def one_profile() -> list[dict[str, Any]]:
    """Return the same choices as one profile.

    A server's requests depend on the type and the number of GPUs (the resource is another for each vendor), so one
    list has both.
    """
    gpus = [name_of_both(name, number) for name, _, _, most in GPUS for number in range(1, most + 1)]
    options = {"gpu": _options("GPU", gpus), **_other_options()}
    return [{"display_name": "Server", "slug": "server", "profile_options": options}]


def name_of_both(gpu: str, count: int | str) -> str:
    """Return the entry for a GPU type and a number of them."""
    return f"{gpu} × {count}"


def fields_of_each_type() -> dict[str, str]:
    """Return the fields that KubeSpawner's form sends of the choice, with a profile for each type."""
    profile = slug_of(CHOICE.gpu)
    options = next(each["profile_options"] for each in profile_of_each_type() if each["slug"] == profile)
    return _fields(profile, options, {"count": CHOICE.gpus})


def fields_of_one_profile() -> dict[str, str]:
    """Return the same, with a single profile."""
    (profile,) = one_profile()
    return _fields("server", profile["profile_options"], {"gpu": name_of_both(CHOICE.gpu, CHOICE.gpus)})


def _fields(profile: str, options: dict[str, Any], picked: dict[str, str]) -> dict[str, str]:
    entries = {**picked, "cpu": CHOICE.cpu, "memory": CHOICE.memory, "image": CHOICE.image}
    keys = {
        name: next(key for key, choice in options[name]["choices"].items() if choice["display_name"] == entry)
        for name, entry in entries.items()
    }
    return {"profile": profile, **{f"profile-option-{profile}--{name}": key for name, key in keys.items()}}


def _other_options() -> dict[str, Any]:
    return {
        "cpu": _options("CPU", _CPUS),
        "memory": _options("Memory (GiB)", _MEMORIES),
        "image": _options("Image", IMAGES),
    }


def _options(name: str, entries: Sequence[str]) -> dict[str, Any]:
    choices = {str(number): {"display_name": entry, "kubespawner_override": {}} for number, entry in enumerate(entries)}
    return {"display_name": name, "choices": choices}
