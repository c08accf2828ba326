"""Groups a vendor's GPU types: MIG slices and shared GPUs follow the type of the full GPU that they are parts of.

Whether two types are the same GPU model is read from the node labels that they match. Display names are free text, and
slugs are the admin's, so neither tells the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuspawner.core.catalog.accelerators import (
    AMD_PRODUCT,
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    INTEL_PRODUCT,
    KARPENTER_PREFIXES,
    strip_product_suffix,
)
from gpuspawner.core.catalog.model import GPUType, UnitKind

_NVIDIA_PRODUCT = re.compile(r"nvidia\.com/(?:gpu|mig-.+)\.product", re.ASCII)
"""Labels with an NVIDIA product name: that of a node's GPUs, and with MIG strategy ``mixed`` one for each profile."""
_OTHER_PRODUCTS = (GKE_ACCELERATOR, AMD_PRODUCT, f"beta.{AMD_PRODUCT}", INTEL_PRODUCT)

_Model = tuple[str, ...]
"""A label and its value, which name one GPU model; for Karpenter's labels also the memory."""


def order_by_card(gpus: Sequence[GPUType]) -> tuple[tuple[GPUType, str], ...]:
    """Return GPU types in the same order, except that each part of a GPU follows the type of its full GPU.

    Each type comes with the slug of the type under which it stands; this slug is "" for full GPUs, for combined types,
    and for parts of a GPU of which no type has the full GPU. If several types have the full GPU, the part stands under
    the one with the most GPU models in common, and of several such types under the first.

    :param gpus: the GPU types that a user sees, in display order.
    """
    cards = _find_cards(gpus)
    parts: dict[str, list[GPUType]] = {}
    for gpu in gpus:
        if gpu.slug in cards:
            parts.setdefault(cards[gpu.slug], []).append(gpu)
    alone = [gpu for gpu in gpus if gpu.slug not in cards]
    return tuple(row for gpu in alone for row in ((gpu, ""), *((part, gpu.slug) for part in parts.get(gpu.slug, ()))))


def _find_cards(gpus: Sequence[GPUType]) -> dict[str, str]:
    """Return slug of each part of a GPU → slug of the type with its full GPU; parts without such a type are missing."""
    models = {gpu.slug: frozenset(_list_models(gpu)) for gpu in gpus}
    cards = [gpu for gpu in gpus if gpu.unit is UnitKind.CARD]
    result = {}
    for part in gpus:
        if part.unit is UnitKind.CARD or not models[part.slug]:
            continue
        common = [
            (len(models[part.slug] & models[card.slug]), card.slug) for card in cards if card.vendor == part.vendor
        ]
        most, slug = max(common, key=lambda each: each[0], default=(0, ""))
        if most:
            result[part.slug] = slug
    return result


def _list_models(gpu: GPUType) -> Iterator[_Model]:
    """Yield the GPU models that a type matches by its labels; none for a combined type, and without such labels."""
    if gpu.members:
        return
    for key, values in gpu.match.items():
        if _NVIDIA_PRODUCT.fullmatch(key):
            yield from ((GFD_PRODUCT, strip_product_suffix(value)) for value in values)
        elif key in _OTHER_PRODUCTS:
            yield from ((key, value) for value in values)
    for prefix in KARPENTER_PREFIXES:
        # Karpenter calls both A100s "a100": the memory tells them apart.
        memories = gpu.match.get(f"{prefix}instance-gpu-memory") or ("",)
        for name in gpu.match.get(f"{prefix}instance-gpu-name", ()):
            yield from ((prefix, name, memory) for memory in memories)
