"""The GPU types that the test cluster's node labels make, as users ask for them.

``devcluster/fleet.yaml`` has the simulated nodes, ``devcluster/gpus.py`` the labels of the one that runs pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One GPU type.

    :param match: the labels of a node that has it.
    :param total: units in the whole cluster.
    :param most: largest count on one node.
    """

    slug: str
    resource: str
    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    total: int
    most: int

    def is_on(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with these labels has it."""
        return all(labels.get(label) in values for label, values in self.match.items())


def _by_product(slug: str, product: str, *, total: int, most: int) -> Kind:
    match = {"nvidia.com/gpu.product": (product,)}
    return Kind(slug=slug, resource="nvidia.com/gpu", match=match, total=total, most=most)


WHOLE_CARD = _by_product("a100-40gb", "NVIDIA-A100-SXM4-40GB", total=4, most=4)
TAINTED = _by_product("l4", "NVIDIA-L4", total=2, most=2)
KINDS: Mapping[str, Kind] = {
    "whole card": WHOLE_CARD,
    "A100 80 GB": _by_product("a100-80gb", "NVIDIA-A100-SXM4-80GB", total=16, most=8),
    "H100": _by_product("h100-80gb", "NVIDIA-H100-80GB-HBM3", total=8, most=8),
    "V100": _by_product("v100-16gb", "Tesla-V100-SXM2-16GB", total=8, most=8),
    "T4": _by_product("t4", "Tesla-T4", total=4, most=4),
    "tainted pool": TAINTED,
    "GKE": Kind(
        slug="k80",
        resource="nvidia.com/gpu",
        match={"cloud.google.com/gke-accelerator": ("nvidia-tesla-k80",)},
        total=2,
        most=2,
    ),
    "MIG slice": Kind(slug="a100-40gb-mig-1g.5gb", resource="nvidia.com/mig-1g.5gb", total=7, most=7),
    "AMD": Kind(slug="mi300x", resource="amd.com/gpu", total=2, most=2),
}
