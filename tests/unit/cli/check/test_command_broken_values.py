"""Right values files, each broken in one place in hundreds of ways: none is accepted in silence, none crashes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuspawner.cli.check.command import collect_findings
from gpuspawner.cli.common.findings import Finding, Severity, format_path
from gpuspawner.cli.values.helm_values import read_values
from tests.unit.mutations import Mutation, mutations

ROOT = Path(__file__).parents[4]
OWN = sorted((Path(__file__).parents[1] / "good_values").glob("*.yaml"))
BASE = ROOT / "helm-values" / "gpuspawner.yaml"
OVERLAYS = [file for file in sorted(BASE.parent.glob("*.yaml")) if "\n    GPUSpawner:" in file.read_text()]

# Every mutation is tried with MUTATIONS=all, and else one of so many of each kind.
STEP = 1 if os.environ.get("MUTATIONS") == "all" else 5
OVERLAY_STEP = 1 if STEP == 1 else 60
pytestmark = pytest.mark.timeout(300 if STEP == 1 else 120)

# Findings about another value that the mutation makes wrong, and that are no less true.
ELSEWHERE = {
    "impossible bound: hub.config.GPUSpawner.shared_memory.step": "hub.config.GPUSpawner.presets.train.shared_memory",
}

# Mutations that move lines: where the lines end up, they may be a part of anything.
OF_YAML = {
    *("colon missing", "twice", "tab for spaces", "one space less", "one space more", "one step out"),
    *("unknown alias", "unknown tag", "quote not closed"),
}


def found_in(*files: Path) -> list[Finding]:
    return [
        each
        for each in collect_findings(read_values([str(file) for file in files]))
        if each.severity is not Severity.HINT
    ]


def kind_of(mutation: Mutation) -> str:
    return mutation.name.partition(":")[0]


@cache
def some_of(file: Path, step: int) -> list[Mutation]:
    """Return one of so many mutations of each kind, the first of each among them."""
    found = sorted(mutations(file.read_text()), key=kind_of)
    kinds = (list(alike) for _, alike in groupby(found, key=kind_of))
    return [mutation for alike in kinds for mutation in alike[::step]]


def is_told(mutation: Mutation, found: list[Finding]) -> bool:
    """Tell whether something is said at the lines of a mutation, which are those of the key and of what is below.

    It is to be said of the changed path, or of one above or below it, where the file still can be read as meant.
    """
    first, last = mutation.lines
    at_lines = [each for each in found if each.place is not None and first <= each.place.line <= last]
    if kind_of(mutation) not in OF_YAML:
        # A minimum above the maximum is reported at the maximum, a step that leads nowhere at the default.
        path = format_path(mutation.path[:-1] if kind_of(mutation) == "impossible bound" else mutation.path)
        at_lines = [each for each in at_lines if is_on_one_line(each.path, path)]
    if kind_of(mutation) == "quote not closed":  # the parser stops at the next quotation mark
        return bool(found)
    return bool(at_lines) or any(each.path == ELSEWHERE.get(mutation.name) for each in found)


def is_on_one_line(one: str, other: str) -> bool:
    """Tell whether of two paths one leads to the other."""
    return bool(one) and (f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}."))


def untold(tried: list[Mutation], file: Path, *, folder: Path, below: tuple[Path, ...] = ()) -> list[str]:
    """Return the mutations of a file that nothing is said of, or of another place alone.

    :param below: files that the mutated one goes over.
    """
    broken, missed = folder / "broken.yaml", []
    known = {(each.path, each.message) for each in found_in(*below, file)}
    for mutation in tried:
        broken.write_text(mutation.text)
        found = [each for each in found_in(*below, broken) if (each.path, each.message) not in known]
        if not is_told(mutation, found):
            missed.append(f"{mutation.name} (lines {mutation.lines}): {[(e.place, e.path, e.code) for e in found]}")
    return missed


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.stem)
def test_the_values_are_right_before_a_mutation(file: Path):
    assert found_in(file) == []


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.stem)
def test_each_mistake_is_reported_where_it_is(file: Path, tmp_path: Path):
    tried = some_of(file, STEP)
    assert (untold(tried, file, folder=tmp_path), len(tried) >= 100) == ([], True)


@pytest.mark.parametrize("file", OVERLAYS, ids=lambda file: file.stem)
def test_each_mistake_in_an_overlay_is_reported_where_it_is(file: Path, tmp_path: Path):
    below = () if file == BASE else (BASE,)
    tried = list(mutations(file.read_text()))[::OVERLAY_STEP]
    assert (untold(tried, file, folder=tmp_path, below=below), len(tried) > 0) == ([], True)


def test_every_kind_of_mistake_is_tried():
    tried = [mutation for file in OWN for mutation in some_of(file, STEP)]
    assert len(tried) > 600
    assert {kind_of(mutation) for mutation in tried} == {
        *("letter too many", "letter missing", "letters swapped", "wrong case", "capital", "hyphen for underscore"),
        *("colon missing", "twice", "tab for spaces", "one space less", "one space more", "one step out"),
        *("mapping for a scalar", "list for a scalar", "mapping for a list", "number for a list"),
        *("list for a mapping", "number for a mapping"),
        *("null", "unknown alias", "unknown tag", "quote not closed", "unknown unit", "impossible bound", "negative"),
        *("word for a number", "word for true", "version without quotes"),
    }


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("gpu: a100-80gb", "gpu: a100-80", "presets.train.gpu"),
        ("image: pytorch", "image: pytorhc", "presets.train.image"),
        ("priority: low", "priority: lwo", "presets.train.priority"),
        ("gpu_count: 1", "gpu_count: 9", "presets.train.gpu_count"),
        ("cpu: 8\n", "cpu: 8000m\n          cpus: 8\n", "presets.train.cpus"),
        ("cpu: 8\n", "cpu: 33\n", "presets.train.cpu"),
        ("memory: 64G", "memory: 64 GGB", "presets.train.memory"),
        ("run_time: 8h", "run_time: 8", "presets.train.run_time"),
        ('cuda: "12.8"', "cuda: 12.8", "images.pytorch.cuda"),
        ("image: quay.io", "image: https://quay.io", "images.pytorch.image"),
        ("nvidia.com/gpu,", "nvidia.com/gpuu,", "gpus.a100-80gb.vendor"),
        ("a100-80gb:", "A100_80GB:", "gpus.A100_80GB"),
        ("min: 1G, max: 256G", "min: 257G, max: 256G", "memory.max"),
    ],
)
def test_a_value_that_fits_nowhere_is_reported_by_its_path(old: str, new: str, path: str, tmp_path: Path):
    text = (Path(__file__).parents[1] / "good_values" / "presets.yaml").read_text()
    assert old in text
    broken = tmp_path / "broken.yaml"
    broken.write_text(text.replace(old, new, 1))
    assert f"hub.config.GPUSpawner.{path}" in [each.path for each in found_in(broken)]


CHART = """
hub:
  extraConfig: {a: b}
  config:
    JupyterHub: {spawner_class: gpuspawner.GPUSpawner}
    KubeSpawner:
      tolerations: [{key: a, operator: Exists}]
      profile_list: [{display_name: a, kubespawner_override: {tolerations: [], extra_resource_limits: {}}}]
    GPUSpawner:
      images: {a: {image: quay.io/a/b:1}}
      gpus: {t4: {resource: nvidia.com/gpu, match: {pool: x}}}
singleuser:
  image: {name: a, tag: b}
  nodeSelector: {a: b}
  extraTolerations: [{key: a}]
  extraNodeAffinity: {required: [{matchExpressions: [{key: pool, operator: In, values: [x]}]}]}
  extraResource: {limits: {nvidia.com/gpu: 1}}
  extraPodConfig:
    affinity:
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [x]}]}]
  profileList: [{display_name: a, kubespawner_override: {tolerations: [{key: b}], extra_resource_limits: {a: 1}}}]
  startTimeout: 300
scheduling: {userPods: {tolerations: [{key: a}], nodeAffinity: {matchNodePurpose: require}}}
prePuller: {hook: {enabled: true}, continuous: {enabled: true}, extraImages: {a: {name: b, tag: c}}}
"""
JUNK: tuple[Any, ...] = (None, -1, "", [[1]], {"a": None}, {"a": {"a": [1]}})


def with_junk(tree: Any) -> Iterator[Any]:
    """Yield a tree with junk in place of each of its parts in turn."""
    yield from JUNK
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, part in parts:
        for changed in with_junk(part):
            copy = dict(tree) if isinstance(tree, dict) else list(tree)
            copy[key] = changed
            yield copy


def test_whatever_stands_in_the_place_of_any_value_nothing_crashes(tmp_path: Path):
    file, number = tmp_path / "junk.yaml", 0
    for tree in with_junk(yaml.safe_load(CHART)):
        file.write_text(json.dumps(tree))
        assert isinstance(found_in(file), list)
        number += 1
    assert number > 500
