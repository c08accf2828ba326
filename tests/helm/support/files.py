"""The files of helm-values, and how admins put them together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[3] / "helm-values"
BASE = FOLDER / "gpuspawner.yaml"
WITHOUT_AN_IMAGE = FOLDER / "without-an-image.yaml"
# One for each kind of cluster with GPUs; exactly one of them goes with the base.
OVERLAYS = tuple(
    FOLDER / f"{name}.yaml"
    for name in (
        "aks",
        "amd",
        "eks-karpenter",
        "eks-nodegroups",
        "gke",
        "kueue",
        "mig",
        "multi-vendor",
        "on-prem-gpu-operator",
        "time-slicing",
    )
)
VALUES = (BASE, *OVERLAYS, WITHOUT_AN_IMAGE)
OTHERS = {"Dockerfile", "rbac.yaml", "values.schema.json"}

_SNIPPET = re.compile(r"(?:^ *#(?:     .*)?\n)+", re.MULTILINE)
_KEY = re.compile(r"[A-Za-z][\w.-]*:\s")

Stack = tuple[Path, ...]


def stacks() -> tuple[Stack, ...]:
    """Return the ways to put files together: each alone, each over the base, and without an image besides."""
    alone = tuple((path,) for path in VALUES)
    over_base = tuple((BASE, path) for path in OVERLAYS)
    return (*alone, *over_base, *((*stack, WITHOUT_AN_IMAGE) for stack in over_base))


def name(stack: Stack) -> str:
    """Return how a test calls a stack."""
    return "+".join(path.stem for path in stack)


def section(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what values say to gpuspawner, without what they take out."""
    found: Any = values
    for key in ("hub", "config", "GPUSpawner"):
        found = found.get(key, {})
    return {part: _without_nulls(entries) for part, entries in found.items()}


def _without_nulls(entries: Any) -> Any:
    if not isinstance(entries, dict):
        return entries
    return {slug: entry for slug, entry in entries.items() if entry is not None}


def snippets(text: str) -> Iterator[str]:
    """Yield the YAML in a file's comments: what is indented by five, unless it begins as no YAML does."""
    for block in _SNIPPET.findall(text):
        lines = [line.lstrip().removeprefix("#").removeprefix("     ") for line in block.splitlines()]
        found = "\n".join(lines).strip()
        if _KEY.match(found):
            yield found


def documents(path: Path) -> list[Any]:
    """Return all YAML documents in the comments of a file."""
    return [each for snippet in snippets(path.read_text()) for each in yaml.safe_load_all(snippet)]
