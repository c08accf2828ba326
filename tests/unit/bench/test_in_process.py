"""The benchmarks that need no cluster run on the code as it is."""

from __future__ import annotations

from types import ModuleType

import pytest

from bench import policy, render


@pytest.mark.parametrize(
    ("benchmark", "repeated", "figures"),
    [
        pytest.param(policy, "SPAWNS", {"gate_alone_ms", "gate_ms", "p99_ms"}, id="policy"),
        pytest.param(render, "RENDERS", {"p50_ms", "p99_ms", "max_ms", "cpu_p99_ms"}, id="render"),
    ],
)
def test_it_measures_each_of_its_figures(
    monkeypatch: pytest.MonkeyPatch, benchmark: ModuleType, repeated: str, figures: set[str]
):
    monkeypatch.setattr(benchmark, repeated, 2)
    monkeypatch.setattr(benchmark, "WARM_UP", 0)

    found = benchmark.measure().values

    assert set(found) == figures
    assert min(found.values()) > 0
