"""Allowed and denied types are computed on first use, each once, and are the same by every way to ask."""

from __future__ import annotations

from dataclasses import replace

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.policy.allowance import AllowedTypes, DeniedTypes
from tests.unit.core.policies import A100, T4

TYPES = {"t4": T4, "a100": A100}


def test_only_types_are_worked_out_that_are_asked_for():
    asked: list[str] = []

    def narrowed(gpu: GPUType) -> GPUType:
        asked.append(gpu.slug)
        return replace(gpu, max_count=1)

    found = AllowedTypes(TYPES, narrowed)
    assert (found["t4"].max_count, "t4" in found, asked) == (1, True, ["t4"])


def test_types_beyond_are_looked_for_once():
    looks: list[None] = []

    def find() -> tuple[GPUType, ...]:
        looks.append(None)
        return T4, A100

    beyond = DeniedTypes(find)
    assert not looks
    assert (tuple(beyond), len(beyond), beyond[-1], beyond[:1], len(looks)) == ((T4, A100), 2, A100, (T4,), 1)
