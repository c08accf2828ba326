"""Every example in YAML is what it looks like: values of the chart that gpuspawner takes, or an object of Kubernetes.

Any other block says so in a comment before it: ``<!-- yaml: what it is -->``. Values that change those of files in
helm-values name these: ``<!-- over: gpuspawner.yaml gke.yaml -->``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from docsite.markdown import Block
from gpuspawner.cli.main import main
from gpuspawner.cli.values.helm_values import load_values
from tests.docs.support.pages import ROOT, examples
from tests.helm.support import chart

EXAMPLES = list(examples(lambda block: block.language in {"yaml", "yml"}))
# Of the chart, those of its keys that examples use; anything else has to be said to be something else.
CHART_KEYS = {
    "hub",
    "singleuser",
    "prePuller",
    "scheduling",
    "rbac",
    "proxy",
    "cull",
    "custom",
    "ingress",
    "imagePullSecrets",
}
API_VERSION = re.compile(r"([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?")
HELM_VALUES = ROOT / "helm-values"
MARK = re.compile(r"yaml: .{5,}")


def kind_of(block: Block, documents: list[Any]) -> str:
    """Return the kind of a block; empty where it has none."""
    if MARK.fullmatch(block.mark):
        return "other"
    if documents and all(isinstance(document, dict) for document in documents):
        if all({"apiVersion", "kind"} <= set(document) for document in documents):
            return "manifest"
        if all(document and set(document) <= CHART_KEYS for document in documents):
            return "values"
    return ""


def read(block: Block) -> list[Any]:
    return [document for document in yaml.safe_load_all(block.text) if document is not None]


def under(block: Block) -> list[str]:
    """List the values files that an example stands on."""
    names = block.mark.removeprefix("over:").split() if block.mark.startswith("over:") else []
    return [str(HELM_VALUES / name) for name in names]


def merged(block: Block, folder: Path) -> Mapping[str, Any]:
    """Return an example as the chart gets it."""
    return load_values([*under(block), str(written(block, folder))]).merged


def written(block: Block, folder: Path) -> Path:
    file = folder / "values.yaml"
    file.write_text(block.text)
    return file


VALUES = [example for example in EXAMPLES if kind_of(example.values[0], read(example.values[0])) == "values"]
MANIFESTS = [example for example in EXAMPLES if kind_of(example.values[0], read(example.values[0])) == "manifest"]


@pytest.mark.parametrize("block", EXAMPLES)
def test_a_block_is_values_or_objects_or_says_what_it_is(block: Block):
    assert kind_of(block, read(block)) != ""


@pytest.mark.skipif(not chart.IS_THERE, reason=chart.MISSING)
@pytest.mark.parametrize("block", VALUES)
def test_the_chart_takes_an_example(block: Block, tmp_path: Path):
    found = chart.problems(merged(block, tmp_path))
    # Required keys are in the chart's defaults.
    assert [problem for problem in found if "is a required property" not in problem] == []


@pytest.mark.parametrize("block", VALUES)
def test_the_program_finds_no_error_in_an_example(block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = [*under(block), str(written(block, tmp_path))]
    assert (main(["check", *files]), capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize("block", VALUES)
def test_the_program_has_no_doubts_about_an_example_over_the_base(
    block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base = str(HELM_VALUES / "gpuspawner.yaml")
    main(["check", "--strict", *(under(block) or [base]), str(written(block, tmp_path))])
    assert re.sub("[0-9]+ files?: ", "", capsys.readouterr().out) == "no problems\n"


@pytest.mark.parametrize("block", MANIFESTS)
def test_an_object_has_a_version_a_kind_and_a_name(block: Block):
    for document in read(block):
        assert API_VERSION.fullmatch(document["apiVersion"])
        assert re.fullmatch("[A-Z][A-Za-z]+", document["kind"])
        assert document["metadata"]["name"]


def test_there_are_values_in_the_pages():
    assert len(VALUES) > 20


@pytest.mark.parametrize(
    "setting",
    [
        *("images", "custom_images", "cpu", "memory", "run_time", "shared_memory", "priorities", "gpus", "presets"),
        *("policy", "pools", "hide", "max_runtime", "accelerators", "discover_gpus", "queue", "any_of", "min_memory"),
        *("scale_up", "spot", "interconnect", "capacity_timeout", "dry_run", "language"),
    ],
)
def test_there_is_an_example_of_each_setting(setting: str):
    assert any(f"'{setting}':" in repr(read(example.values[0])) for example in VALUES)
