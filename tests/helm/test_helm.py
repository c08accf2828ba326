"""Helm itself: it merges the files as `gpuspawner` does, and its linter has nothing against them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpuspawner.cli.values import load
from tests.helm.support.files import BASE, FOLDER, OVERLAYS, Stack, name, stacks

Helm = Callable[..., str]
SCHEMA = FOLDER / "values.schema.json"
OVER_BASE = [pytest.param((BASE, overlay), id=overlay.stem) for overlay in OVERLAYS]


has_schema = pytest.mark.xfail(condition=not SCHEMA.exists(), reason=f"there is no {SCHEMA.name}", raises=OSError)


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


@has_schema
@pytest.mark.parametrize("stack", [pytest.param(stack, id=name(stack)) for stack in stacks()])
def test_helms_linter_takes_the_files_by_our_schema(helm: Helm, chart: Path, stack: Stack):
    shutil.copy(SCHEMA, chart)
    assert "0 chart(s) failed" in helm("lint", "--strict", chart, *options(stack))


@has_schema
@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ("gpus: {t4: {resource: nvidia.com/gpu, max_counts: 4}}", "/hub/config/GPUSpawner/gpus/t4"),
        ("images: {pytorch: {image: pytorch, cuda: 12.6}}", "/hub/config/GPUSpawner/images/pytorch/cuda"),
        ("cpu: 8", "/hub/config/GPUSpawner/cpu"),
    ],
)
def test_helms_linter_sees_by_our_schema_what_is_wrong(helm: Helm, chart: Path, wrong: str, place: str):
    shutil.copy(SCHEMA, chart)
    values = chart / "wrong.yaml"
    values.write_text(f"hub: {{config: {{GPUSpawner: {{{wrong}}}}}}}\n")
    said = helm("lint", "--strict", chart, "--values", values, fails=True)
    assert f"at '{place}'" in said


@pytest.mark.parametrize("path", [BASE, *OVERLAYS], ids=lambda path: path.stem)
def test_editors_are_told_of_the_schema(path: Path):
    assert path.read_text().splitlines()[0] == f"# yaml-language-server: $schema={SCHEMA.name}"
