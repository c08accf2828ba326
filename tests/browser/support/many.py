"""A site with 24 GPU types of three vendors and 20 images, on simulated nodes of which some are full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from devcluster.simulated import Pool

LONG = "For training large models; ask your group before you take more than four of them for longer than a single day."


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A GPU type of the site, and its node.

    :param product: value of its model's label, which names a MIG slice's profile, too.
    :param free: whether its node's GPUs are free; None if there is no node.
    :param about: further settings of the type.
    """

    name: str
    product: str
    memory: str
    count: int = 4
    free: bool | None = True
    resource: str = "nvidia.com/gpu"
    label: str = "nvidia.com/gpu.product"
    about: dict[str, Any] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "display_name": self.name,
            "resource": self.resource,
            "match": {self.label: [self.product]},
            "memory": self.memory,
            "max_count": self.count,
            **(self.about or {}),
        }


def _slice(profile: str, *, free: bool) -> Kind:
    resource = f"nvidia.com/mig-{profile}"
    return Kind(
        name=f"A100 40 GB (MIG {profile})",
        product=f"MANY-A100-40GB-MIG-{profile}",
        memory=f"{profile.partition('.')[2].removesuffix('gb')}G",
        count=7,
        free=free,
        resource=resource,
        label=f"{resource}.product",
    )


AMD = {"resource": "amd.com/gpu", "label": "amd.com/gpu.product-name"}
INTEL = {"resource": "gpu.intel.com/i915", "label": "gpu.intel.com/product"}
KINDS = {
    "slice-small": _slice("1g.5gb", free=True),
    "h200": Kind(name="H200 141 GB", product="MANY-H200", memory="141G", count=8),
    "h100": Kind(
        name="H100 80 GB", product="MANY-H100", memory="80G", count=8, free=False, about={"description": LONG}
    ),
    "a100-80gb": Kind(name="A100 80 GB", product="MANY-A100-80GB", memory="80G", count=8),
    "a100-40gb": Kind(name="A100 40 GB", product="MANY-A100-40GB", memory="40G", free=False),
    "slice-medium": _slice("2g.10gb", free=False),
    "slice-large": _slice("3g.20gb", free=True),
    "l40s": Kind(name="L40S", product="MANY-L40S", memory="45G"),
    "l40": Kind(name="L40", product="MANY-L40", memory="45G", free=False),
    "l4": Kind(name="L4", product="MANY-L4", memory="23G", about={"description": "For inference."}),
    "a40": Kind(name="A40", product="MANY-A40", memory="45G", free=False),
    "a30": Kind(name="A30", product="MANY-A30", memory="24G"),
    "a10": Kind(name="A10", product="MANY-A10", memory="23G", free=False),
    "v100-32gb": Kind(name="V100 32 GB", product="MANY-V100-32GB", memory="32G", free=False),
    "v100-16gb": Kind(name="V100 16 GB", product="MANY-V100-16GB", memory="16G"),
    "t4": Kind(name="T4", product="MANY-T4", memory="15G", about={"spot": True}),
    "t4-shared": Kind(name="T4 (shared)", product="MANY-T4-SHARED", memory="15G", count=2, about={"unit": "shared"}),
    "rtx6000": Kind(name="RTX 6000 Ada", product="MANY-RTX-6000", memory="48G"),
    "mi300x": Kind(name="MI300X", product="MANY-MI300X", memory="192G", count=8, **AMD),
    "mi250x": Kind(name="MI250X", product="MANY-MI250X", memory="64G", count=8, free=False, **AMD),
    "mi210": Kind(name="MI210", product="MANY-MI210", memory="64G", **AMD),
    "max1100": Kind(name="Max 1100", product="MANY-MAX-1100", memory="48G", **INTEL),
    "flex170": Kind(
        name="Flex 170",
        product="MANY-FLEX-170",
        memory="16G",
        free=None,
        about={"scale_up": {"max_nodes": 2, "gpus_per_node": 2, "minutes": 6}},
        **INTEL,
    ),
    "flex140": Kind(name="Flex 140", product="MANY-FLEX-140", memory="12G", free=None, **INTEL),
}
DENIED = "rtx6000"
"""The policy denies this type to all users."""
BUSY = {"h100", "l40", "a40", "a10", "v100-32gb", "mi250x", "a100-40gb", "slice-medium"}
UNAVAILABLE = {DENIED, "flex140"}

_IMAGES = [
    *(("JupyterLab", "Python with JupyterLab and a terminal."), ("PyTorch", "With Lightning and Transformers.")),
    *(
        ("TensorFlow", "With Keras and TensorBoard."),
        ("JAX", "JAX, Flax and Optax."),
        ("RAPIDS", "Data frames on GPUs."),
    ),
    *(("R and RStudio", "R with the tidyverse."), ("Julia", ""), ("Data science", "pandas, Polars and scikit-learn.")),
    *(("Géodesy", "GDAL, QGIS and xarray."), ("Bioinformatics", "Samtools and GATK."), ("Chemistry", "RDKit, OpenMM.")),
    *(
        ("Course: Deep Learning", LONG),
        ("Course: Vision", "For the exercises."),
        ("vLLM", "Serves models."),
        ("Spark", ""),
    ),
    *(
        ("Ollama", "Local models."),
        ("MATLAB", "Needs a license."),
        ("VS Code", "Code."),
        ("Octave", ""),
        ("Minimal", ""),
    ),
]


def settings() -> dict[str, Any]:
    """Return the site's settings."""
    images = {
        f"image-{number}": {"display_name": name, "description": about, "image": "lab:1", "order": number}
        for number, (name, about) in enumerate(_IMAGES)
    }
    gpus = {slug: {**kind.settings, "order": number} for number, (slug, kind) in enumerate(KINDS.items())}
    return {
        "images": images,
        "cpu": {"min": 0.5, "max": 4, "step": 0.5, "default": 1},
        "memory": {"min": "512M", "max": "8G", "step": "512M", "default": "1G"},
        "gpus": gpus,
        "discover_gpus": False,
        "new_nodes": "none",
        "policy": {"default": {"gpus": [slug for slug in gpus if slug != DENIED]}},
    }


def nodes() -> dict[str, dict[str, Any]]:
    """Return the site's nodes by the GPU types that they have."""
    found = {}
    for slug, kind in KINDS.items():
        if kind.free is not None:
            allocatable = {"cpu": "64", "memory": "512Gi", kind.resource: "8"}
            pool = Pool(name=f"many-{slug}", count=1, allocatable=allocatable, labels={kind.label: kind.product})
            (found[slug],) = pool.nodes()
    return found
