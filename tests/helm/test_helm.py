"""Helm itself: it merges the files as `gpuspawner` does, and its linter has nothing against them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpuspawner.cli.values.helm_values import load_values, read_values
from tests.helm.support.files import BASE, FOLDER, OVERLAYS, Stack, name, stacks

Helm = Callable[..., str]
SCHEMA = FOLDER / "values.schema.json"
OVER_BASE = [pytest.param((BASE, overlay), id=overlay.stem) for overlay in OVERLAYS]

# Values that YAML 1.1, YAML 1.2 and the parsers of both read differently.
STRANGE = """\
scalars: [y, n, Yes, oFF, ~, 1e3, 017, 0o17, 08, 0b11, 0x1F, -1_000, +5, .5, 12:30, 2026-10-01, 1.10]
on: 1
1.10: x
0x10: z
a: &a {p: 1, q: 1}
b: {<<: [*a, {q: 2, r: 2}], r: 3}
c: &again 1
d: &again 2
e: *again
"""


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
    assert without_nulls(yaml.safe_load(shown)) == without_nulls(load_values([str(path) for path in stack]).merged)


def test_helm_reads_what_gpuspawner_reads(helm: Helm, chart: Path, tmp_path: Path):
    file = tmp_path / "strange.yaml"
    file.write_text(STRANGE)
    shown = yaml.safe_load(helm("template", "shown", chart, "--values", str(file)))["data"]["values"]
    assert read_values([str(file)]).merged == yaml.safe_load(shown)


@pytest.mark.parametrize("stack", [pytest.param(stack, id=name(stack)) for stack in stacks()])
def test_helms_linter_takes_the_files(helm: Helm, chart: Path, stack: Stack):
    assert "0 chart(s) failed" in helm("lint", "--strict", chart, *options(stack))


@pytest.mark.parametrize("stack", [pytest.param(stack, id=name(stack)) for stack in stacks()])
def test_helm_takes_the_files_by_the_settings_schema(helm: Helm, chart: Path, stack: Stack):
    shutil.copy(SCHEMA, chart)
    assert "0 chart(s) failed" in helm("lint", "--strict", chart, *options(stack))


@pytest.mark.parametrize("wrong", ["gpus: {a: {max_cuont: 1}}", "cpu: {max: 4 cores}", "gpus: {A: {}}"])
def test_helm_refuses_what_the_settings_schema_does(helm: Helm, chart: Path, tmp_path: Path, wrong: str):
    shutil.copy(SCHEMA, chart)
    file = tmp_path / "wrong.yaml"
    file.write_text(f"hub: {{config: {{GPUSpawner: {{{wrong}}}}}}}")
    with pytest.raises(pytest.fail.Exception, match="GPUSpawner"):
        helm("lint", chart, "--values", str(file))
