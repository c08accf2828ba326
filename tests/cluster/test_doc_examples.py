"""Every example of values in the documentation runs: its hub offers what it names, and what it names starts there.

The nodes are simulated, with labels and taints as the cloud of the example sets them; the scheduler is real. Examples
that say the same are tried once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, CoreV1Api, NodeV1Api, SchedulingV1Api
from kubernetes.dynamic import DynamicClient

from devcluster import Cluster
from docsite.markdown import Block
from gpuspawner.cli.values.helm_values import HelmValues
from tests.cluster.support.examples import cloud_of, hidden, named, priority_classes, runtime_classes
from tests.cluster.support.karpenter import kinds_served
from tests.cluster.support.trial import api, cluster, on_trial
from tests.docs.test_yaml import MANIFESTS, VALUES, merged, read, under

__all__ = ["api", "cluster"]

MOUNTED = "/etc/gpuspawner"
"""Where examples mount a ConfigMap with settings."""
MOUNTED_FILE = "# 10-types.yaml\n"
"""How the example begins that shows what is in it."""


def different(examples: list[Any]) -> list[Any]:
    """Return the examples, of those that say the same the first."""
    found: dict[str, Any] = {}
    for example in examples:
        said = json.dumps([under(example.values[0]), read(example.values[0])], sort_keys=True)
        found.setdefault(said, example)
    return list(found.values())


@pytest.fixture(scope="module", autouse=True)
def classes(api: ApiClient) -> None:
    """Make the objects that examples name, and say that the cluster has them."""
    settings = [HelmValues(merged=document).settings for example in VALUES for document in read(example.values[0])]
    for name in runtime_classes(settings):
        NodeV1Api(api).create_runtime_class({"metadata": {"name": name}, "handler": name})
    for name, value in priority_classes(settings).items():
        SchedulingV1Api(api).create_priority_class({"metadata": {"name": name}, "value": value})


def values_of(block: Block, folder: Path) -> HelmValues:
    """Return what a hub gets; a mounted ConfigMap is a folder here, with what the documentation shows of it."""
    values = HelmValues(merged=merged(block, folder))
    files = values.settings.get("settings_files", [])
    if MOUNTED not in files:
        return values
    mounted = folder / "mounted"
    mounted.mkdir()
    (inside,) = (each.values[0].text for each in VALUES if each.values[0].text.startswith(MOUNTED_FILE))
    (mounted / "10-types.yaml").write_text(inside)
    here = [str(mounted) if file == MOUNTED else file for file in files]
    return HelmValues(merged={"hub": {"config": {"GPUSpawner": {**values.settings, "settings_files": here}}}})


@pytest.mark.parametrize("block", different(VALUES))
def test_what_an_example_names_is_offered_and_starts_on_its_nodes(
    cluster: Cluster, api: ApiClient, block: Block, tmp_path: Path
) -> None:
    values = values_of(block, tmp_path)
    cloud = cloud_of(values.settings, over=[Path(file).stem for file in under(block)])

    with on_trial(cluster, api, namespace="example", values=values, cloud=cloud, folder=tmp_path) as trial:
        page = trial.form()
        assert trial.outcomes(page) == {slug: trial.starts(slug) for slug in named(values.settings)}
        assert hidden(values.settings) & set(page.offered()) == set()
        assert trial.preset_outcomes(page) == {
            slug: trial.starts(str(choice.get("gpu", ""))) for slug, choice in trial.presets().items()
        }
        if page.has_fields:  # test_profiles.py starts profiles
            trial.check_places()


@pytest.fixture(scope="module")
def namespaces(api: ApiClient) -> None:
    """Make the namespaces that objects of examples are in."""
    documents = [document for example in MANIFESTS for document in read(example.values[0])]
    for name in {document["metadata"].get("namespace") for document in documents} - {None}:
        CoreV1Api(api).create_namespace({"metadata": {"name": name}})


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("block", MANIFESTS)
def test_the_api_server_takes_the_objects_of_an_example(api: ApiClient, block: Block) -> None:
    with kinds_served(api):
        resources = DynamicClient(api).resources
        for document in read(block):
            kind = resources.get(api_version=document["apiVersion"], kind=document["kind"])
            namespace = document["metadata"].get("namespace")
            made = kind.create(
                body=document, namespace=namespace, query_params=[("dryRun", "All"), ("fieldValidation", "Strict")]
            )
            assert made.metadata.name == document["metadata"]["name"]
