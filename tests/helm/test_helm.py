"""Helm itself: it merges the files as `gpuspawner` does, and its linter has nothing against them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpuspawner.cli.values import load
from tests.helm.support.files import BASE, FOLDER, OVERLAYS, Stack, name, stacks

Helm = Callable[..., str]
SCHEMA = FOLDER / "values.schema.json"
OVER_BASE = [pytest.param((BASE, overlay), id=overlay.stem) for overlay in OVERLAYS]


def options(stack: Stack) -> list[str]:
    return [word for path in stack for word in ("--values", str(path))]


def without_nulls(value: object) -> object:
    """Return values without what was taken out: Helm keeps the null where the chart has nothing to take out."""
    if not isinstance(value, dict):
        return value
    return {key: without_nulls(each) for key, each in value.items() if each is not None}


@pytest.mark.parametrize("stack", OVER_BASE)
def test_helm_merges_files_as_gpuspawner_does(helm: Helm, chart: Path, stack: Stack):
    shown = yaml.safe_load(helm("template", "shown", chart, *options(stack)))["data"]["values"]
    assert without_nulls(yaml.safe_load(shown)) == without_nulls(load([str(path) for path in stack]).merged)


@pytest.mark.parametrize("stack", [pytest.param(stack, id=name(stack)) for stack in stacks()])
def test_helms_linter_takes_the_files(helm: Helm, chart: Path, stack: Stack):
    assert "0 chart(s) failed" in helm("lint", "--strict", chart, *options(stack))
