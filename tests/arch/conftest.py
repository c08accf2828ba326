"""The checkout as the architecture tests see it: the sources among the files that git tracks or would."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def sources(tracked_files: frozenset[Path]) -> list[Path]:
    """Every Python file of the checkout."""
    return sorted(file for file in tracked_files if file.suffix == ".py")
