"""The files of helm-values: labels and images that exist, time to start, comments that can be pasted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuspawner.cli.values.helm_values import load_values
from gpuspawner.core.catalog.accelerators import AMD_PRODUCT, GFD_PRODUCT, GKE_ACCELERATOR, INTEL_PRODUCT
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.settings.accelerators import build_accelerator_table, load_builtin_accelerators
from tests.helm.support import chart
from tests.helm.support.files import BASE, FOLDER, OVERLAYS, VALUES, documents, section

TABLE = build_accelerator_table({})
SETTINGS_FILES = (BASE, *OVERLAYS)
EACH = pytest.mark.parametrize("path", SETTINGS_FILES, ids=lambda path: path.stem)
# Labels whose value is the name of a model.
MODELS = {GFD_PRODUCT, GKE_ACCELERATOR, AMD_PRODUCT, INTEL_PRODUCT}
# Other labels that the admin does not set, and the values they have.
SAID_BY_OTHERS = {
    # https://cloud.google.com/kubernetes-engine/docs/how-to/spot-vms, …/docs/how-to/gpus
    "cloud.google.com/gke-spot": {"true"},
    "cloud.google.com/gke-gpu-driver-version": {"default", "latest", "disabled"},
    # https://karpenter.sh/docs/concepts/scheduling/
    "karpenter.sh/capacity-type": {"on-demand", "spot", "reserved"},
    "karpenter.k8s.aws/instance-gpu-name": {
        name for model in load_builtin_accelerators().values() for name in model.labels.get("karpenter", ())
    },
    # MiB: https://karpenter.sh/docs/reference/instance-types/
    "karpenter.k8s.aws/instance-gpu-memory": {"40960", "81920"},
    # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
    "eks.amazonaws.com/capacityType": {"ON_DEMAND", "SPOT"},
    # https://learn.microsoft.com/azure/aks/use-labels, …/aks/spot-node-pool
    "kubernetes.azure.com/accelerator": {"nvidia"},
    "kubernetes.azure.com/scalesetpriority": {"spot"},
    # https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated
    "node.kubernetes.io/instance-type": {
        *("Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3", "Standard_NC24ads_A100_v4", "Standard_NC40ads_H100_v5")
    },
    # https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery
    "nvidia.com/gpu.replicas": {"4"},
    "nvidia.com/gpu.sharing-strategy": {"none", "time-slicing", "mps"},
}
MIG_PRODUCT = re.compile(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb)\.product")
# A name with a registry, and a tag that stays what it is: it has a version or a date.
IMAGE = re.compile(r"[a-z0-9.-]+\.[a-z]+/[a-z0-9./-]+:[\w.-]*\d+[.-]\d+[\w.-]*")


def said(path: Path) -> dict[str, Any]:
    return dict(section(load_values([str(path)]).merged))


def types(path: Path) -> dict[str, Any]:
    return said(path).get("gpus", {})


def labels(path: Path) -> Iterator[tuple[str, str]]:
    for entry in types(path).values():
        for key, values in entry.get("match", {}).items():
            yield from ((key, value) for value in ([values] if isinstance(values, str) else values))


def is_known(key: str, value: str) -> bool:
    """Tell whether a label with this value is one that clouds or vendors' tools set."""
    if sliced := MIG_PRODUCT.fullmatch(key):
        return value.endswith(f"-MIG-{sliced['profile']}") and TABLE.find(GFD_PRODUCT, value) is not None
    return TABLE.find(key, value) is not None if key in MODELS else value in SAID_BY_OTHERS.get(key, ())


@EACH
def test_every_label_is_set_by_a_known_component(path: Path):
    assert [label for label in labels(path) if not is_known(*label)] == []


@EACH
def test_every_image_has_a_registry_and_a_tag_that_stays(path: Path):
    images = [entry["image"] for entry in said(path).get("images", {}).values()]
    assert [image for image in images if not IMAGE.fullmatch(image)] == []


@EACH
def test_every_image_says_whose_gpus_it_can_use(path: Path):
    silent = [
        slug for slug, entry in said(path).get("images", {}).items() if not {"cuda", "rocm", "vendors"} & {*entry}
    ]
    assert silent == []


@EACH
def test_the_cuda_version_of_an_image_is_that_of_its_tag(path: Path):
    found = {
        entry["image"]: entry["cuda"].split(".")[0]
        for entry in said(path).get("images", {}).values()
        if "cuda" in entry
    }
    assert {image: f"cuda{major}" in image for image, major in found.items()} == dict.fromkeys(found, True)


@EACH
def test_every_gpu_type_has_an_image_that_can_use_it(path: Path):
    images = section(load_values([str(BASE), str(path)]).merged)["images"].values()
    usable = {vendor for entry in images for vendor in entry.get("vendors", [])}
    usable |= {"nvidia" for entry in images if "cuda" in entry} | {"amd" for entry in images if "rocm" in entry}
    assert {find_vendor(entry["resource"]) for entry in types(path).values() if "resource" in entry} <= usable


@EACH
def test_a_start_waits_longer_than_a_new_node_takes(path: Path):
    growing = {slug: entry for slug, entry in types(path).items() if "scale_up" in entry}
    hasty = [
        slug for slug, each in growing.items() if each.get("start_timeout", 0) < 1.5 * 60 * each["scale_up"]["minutes"]
    ]
    assert hasty == []


@EACH
def test_a_start_waits_longer_than_a_large_image_takes(path: Path):
    merged = load_values([str(BASE), str(path)]).merged
    assert merged["singleuser"]["startTimeout"] >= 900
    # A type's own limit replaces that one.
    assert [slug for slug, entry in types(path).items() if entry.get("start_timeout", 900) < 900] == []


@pytest.mark.parametrize("name", ["aks", "eks-karpenter", "eks-nodegroups", "gke"])
def test_every_type_of_a_cloud_may_get_new_nodes(name: str):
    assert [slug for slug, entry in types(FOLDER / f"{name}.yaml").items() if "scale_up" not in entry] == []


@EACH
def test_shares_and_slices_are_one_for_a_server(path: Path):
    parts = {
        slug: entry
        for slug, entry in types(path).items()
        if re.search(r"-MIG-|-SHARED|gpu\.replicas", str(entry.get("match")))
    }
    assert [slug for slug, entry in parts.items() if entry.get("max_count") != 1] == []


@EACH
def test_every_entry_that_is_shown_has_its_place(path: Path):
    text = section(yaml.safe_load(path.read_text()))
    entries = [
        (part, slug, entry) for part in ("images", "gpus", "presets") for slug, entry in text.get(part, {}).items()
    ]
    shown = [(part, slug) for part, slug, entry in entries if entry.get("enabled", True) and "order" not in entry]
    assert shown == []


@pytest.mark.parametrize("path", VALUES, ids=lambda path: path.stem)
def test_yaml_in_comments_can_be_pasted(path: Path):
    for found in documents(path):
        assert isinstance(found, dict)
        assert "apiVersion" not in found or {"kind", "metadata"} < {*found}


@pytest.mark.skipif(not chart.IS_THERE, reason=chart.MISSING)
@pytest.mark.parametrize("path", VALUES, ids=lambda path: path.stem)
def test_values_in_comments_are_values_of_the_chart(path: Path):
    found = [chart.problems(each) for each in documents(path) if "hub" in each]
    assert [problem for each in found for problem in each if "is a required property" not in problem] == []


def test_the_files_hold_the_snippets_they_announce():
    assert {path.stem: len(documents(path)) for path in VALUES if documents(path)} == {
        "amd": 1,
        "eks-karpenter": 1,
        "eks-nodegroups": 1,
        "kueue": 5,
        "time-slicing": 1,
    }


def test_the_header_of_the_rights_counts_them():
    text = (FOLDER / "rbac.yaml").read_text()
    found = list(yaml.safe_load_all(text))
    bound = [each for each in found if each["kind"].endswith("Binding")]
    subjects = {
        (subject["kind"], subject["name"], subject["namespace"]) for each in bound for subject in each["subjects"]
    }
    assert (len(found), len(bound), subjects) == (26, 13, {("ServiceAccount", "hub", "jupyterhub")})
    assert "Thirteen parts, each with its binding." in text
    assert "change `name: hub` in all thirteen." in text
