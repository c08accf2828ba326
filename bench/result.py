"""The result of a measurement, its limits, and the machine and versions it was made with."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("gpuspawner", "jupyterhub", "jupyterhub-kubespawner", "kubernetes_asyncio", "tornado", "jinja2")

LOAD_BEFORE = round(os.getloadavg()[0], 2)
"""Load of the machine when the run began: at the end it would be the run's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One suite's figures.

    :param values: figures by name; the unit is the name's last part.
    :param budgets: largest value that some of them may have.
    :param details: the raw data of the figures, kept in the file only.
    """

    name: str
    values: Mapping[str, float]
    budgets: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def holds(self) -> bool:
        """Say whether every figure is within its budget."""
        return all(self.values[name] <= most for name, most in self.budgets.items())

    def lines(self) -> list[str]:
        """Return one line ``name: value`` for each figure."""
        return [
            f"{self.name}_{name}: {_shown(value)}{self._verdict(name, value)}" for name, value in self.values.items()
        ]

    def _verdict(self, name: str, value: float) -> str:
        if name not in self.budgets:
            return ""
        return f" (at most {self.budgets[name]:g}{'' if value <= self.budgets[name] else ': EXCEEDED'})"


def _shown(value: float) -> str:
    """Return a count as it is, anything measured with four digits."""
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def save(result: Result) -> Path:
    """Write a result to bench/results and return the file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{result.name}.json"
    content = {
        "name": result.name,
        "when": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
        "values": dict(result.values),
        "budgets": dict(result.budgets),
        "machine": _machine(),
        "versions": _versions(),
        "details": dict(result.details),
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path


def _machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 1024**3, 1),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "load_before": LOAD_BEFORE,
    }


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}}
