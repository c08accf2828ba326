"""The words and numbers of the form: pure wording, no decisions. form.js says the same in the browser."""

from __future__ import annotations

from gpuspawner.core.catalogue import Catalogue
from gpuspawner.core.quantity import format_cpu, format_memory
from gpuspawner.core.selection import Selection

BYTES_PER_GIB = 1 << 30

_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
_ONE_CORE = 1000


def vendor_name(vendor: str) -> str:
    """Return how a vendor writes itself; an unknown one as it is."""
    return _VENDOR_NAMES.get(vendor, vendor) or "Other"


def gpu_memory_text(memory_bytes: int | None) -> str:
    """Return the memory of a GPU for people, to two decimals (``"4.75 GiB"``); empty when unknown."""
    if memory_bytes is None:
        return ""
    return f"{memory_bytes / BYTES_PER_GIB:.2f}".rstrip("0").rstrip(".") + " GiB"


def made_for(vendors: tuple[str, ...] | None) -> str:
    """Return what an image with these vendors is made for (``"NVIDIA or AMD GPUs"``); empty when not declared."""
    if vendors is None:
        return ""
    if not vendors:
        return "work without a GPU"
    return " or ".join(vendor_name(vendor) for vendor in vendors) + " GPUs"


def capacity_sentence(total: int | None, free: int | None) -> str:
    """Return how many there are and how many of them are free, as far as known."""
    if total is None:
        return "capacity unknown"
    if total == 0:
        return "none at the moment"
    return f"{total} in total" if free is None else f"{free} of {total} free"


def sentence(selection: Selection, catalogue: Catalogue) -> str:
    """Return a selection as one sentence part: "PyTorch with 4 CPUs, 16 GiB and 1 × A100 80 GB"."""
    parts = []
    if selection.cpu_millis is not None:
        parts.append(f"{format_cpu(selection.cpu_millis)} {'CPU' if selection.cpu_millis <= _ONE_CORE else 'CPUs'}")
    if selection.memory_bytes is not None:
        parts.append(format_memory(selection.memory_bytes))
    gpu = f"{selection.gpu_count} × {catalogue.gpus[selection.gpu].display_name}" if selection.gpu else "no GPU"
    what = f"{', '.join(parts)} and {gpu}" if parts else gpu
    return f"{catalogue.images[selection.image].display_name} with {what}"
