"""Which programs are built for which purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import build
from devcluster.preparation.machine import binaries_to_build
from devcluster.preparation.needs import PURPOSES


@pytest.mark.parametrize(
    ("purpose", "programs"),
    [
        ("demo", set(build.CLUSTER)),
        ("test", {*build.CLUSTER, "karpenter", "kueue", "helm"}),
        ("cluster", {*build.CLUSTER, "karpenter", "kueue", "helm"}),
        ("helm", {"helm"}),
        ("bench", set(build.CLUSTER)),
        ("truth", {*build.CLUSTER, "karpenter", "kueue", "helm"}),
        ("unit", set()),
    ],
)
def test_only_tests_that_run_a_program_have_it_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purpose: str, programs: set[str]
) -> None:
    monkeypatch.setenv("GPUSPAWNER_CACHE_DIR", str(tmp_path))
    assert set(binaries_to_build(PURPOSES[purpose])) == programs
