"""Faults of the GPUs of the node that runs pods: marks in the folder of their device files.

The device plugin looks for them as a vendor's looks at its cards: a card with a mark is unhealthy, and with the mark of
the plugin itself there is none, as after a driver update that failed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from devcluster.gpus import GPUKind


def is_unhealthy(devices: Path, kind: GPUKind, *, number: int) -> bool:
    """Say whether a GPU is to be reported as broken."""
    return _mark(devices, kind, number=number).exists()


def is_absent(devices: Path) -> bool:
    """Say whether there is to be no device plugin."""
    return _absence(devices).exists()


@contextlib.contextmanager
def unhealthy(devices: Path, kind: GPUKind, *, numbers: Iterable[int] | None = None) -> Iterator[None]:
    """Have GPUs broken inside the block, all of the kind where no numbers are given."""
    with _marked(_mark(devices, kind, number=number) for number in (kind.numbers if numbers is None else numbers)):
        yield


@contextlib.contextmanager
def absent(devices: Path) -> Iterator[None]:
    """Have no device plugin inside the block."""
    with _marked([_absence(devices)]):
        yield


@contextlib.contextmanager
def _marked(paths: Iterable[Path]) -> Iterator[None]:
    marks = list(paths)
    try:
        for mark in marks:
            mark.touch()
        yield
    finally:
        for mark in marks:
            mark.unlink(missing_ok=True)


def _mark(devices: Path, kind: GPUKind, *, number: int) -> Path:
    return kind.device_file(devices, number).with_suffix(".unhealthy")


def _absence(devices: Path) -> Path:
    return devices / "plugin-absent"
