"""A component: one long-running program of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.run_dir import Addresses, RunDir

REAL_NODE = "gpu-node"
"""The name of the node that runs pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything the components' command lines and configuration files are made from."""

    run_dir: RunDir
    addresses: Addresses
    binaries: Path
    runc: Path
    cni: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One program to keep running; its log and pid file bear its name."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    needs_api: bool = False
    """Started only once the API server answers: it would end, or back off for seconds, without."""


def flags(**values: object) -> tuple[str, ...]:
    """Return long options as the Go programs take them: `bind_address` becomes --bind-address=…."""
    return tuple(f"--{name.replace('_', '-')}={value}" for name, value in values.items())
