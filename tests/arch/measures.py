"""Print the sizes of gpuspawner's packages, and the limits that ``test_sizes.py`` enforces.

.venv/bin/python -m tests.arch.measures
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Bounds(NamedTuple):
    """The figures that a measure may have, both ends included."""

    low: int = 0
    high: float = math.inf


LIMITS: Mapping[str, Bounds] = {
    # Both bounds follow the figure down. Raise them only with a record in docs/decisions that names what the lines buy.
    "lines": Bounds(low=44_900, high=45_100),
    "modules": Bounds(high=186),
    "largest_package": Bounds(high=15),
}


def count_lines_by_package() -> Counter[str]:
    """Return how many lines each package directly holds."""
    lines: Counter[str] = Counter()
    for file in (ROOT / "gpuspawner").rglob("*.py"):
        lines[str(file.parent.relative_to(ROOT))] += len(file.read_text().splitlines())
    return lines


def count_modules_by_package() -> Counter[str]:
    """Return how many modules each package directly holds, its ``__init__`` not counted."""
    files = (file for file in (ROOT / "gpuspawner").rglob("*.py") if file.name != "__init__.py")
    return Counter(str(file.parent.relative_to(ROOT)) for file in files)


def measure_all() -> dict[str, int]:
    """Return the figure of each limit."""
    modules = count_modules_by_package()
    return {
        "lines": count_lines_by_package().total(),
        "modules": modules.total(),
        "largest_package": max(modules.values()),
    }


def main() -> None:
    """Print a line for each package, and a line for each limit."""
    modules = count_modules_by_package()
    for package, lines in sorted(count_lines_by_package().items()):
        print(f"{package:<32}{modules[package]:>4} modules{lines:>8,} lines")
    for name, figure in measure_all().items():
        print(f"{name}: {figure:,} (from {LIMITS[name].low:,} to {LIMITS[name].high:,})")


if __name__ == "__main__":
    main()
