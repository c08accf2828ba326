"""A pod's requests, node selector and node affinity tell which GPUs it asks for, whichever spawner made it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.model import Catalog, GPUType, Image
from gpuspawner.core.catalog.pod_gpus import PodGPUs, classify_pod
from gpuspawner.core.cluster.decode import decode_pod

NVIDIA, AMD, MIG = "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb"
PRODUCT, SHARING, POOL = "nvidia.com/gpu.product", "cloud.google.com/gke-gpu-sharing-strategy", "example.com/pool"


def gpu_type(slug: str, resource: str = NVIDIA, *, members: tuple[GPUType, ...] = (), **labels: Any) -> GPUType:
    keys = {"product": PRODUCT, "sharing": SHARING}
    match = {keys[name]: values for name, values in labels.items()}
    return GPUType(slug=slug, display_name=slug, resource=resource, vendor="nvidia", match=match, members=members)


A100 = gpu_type("a100", product=("A100-40", "A100-80"), sharing=())
SHARED = gpu_type("shared", product=("A100-40", "A100-80"), sharing=("time-sharing",))
T4 = gpu_type("t4", product=("T4",))
SLICE = gpu_type("slice", MIG)
EITHER = gpu_type("either", members=(A100, T4))
HIDDEN = gpu_type("hidden", AMD)


def catalog(*gpus: GPUType, hidden: tuple[GPUType, ...] = ()) -> Catalog:
    images = {"base": Image(slug="base", display_name="Base", image="base")}
    return Catalog(images=images, cpu=None, memory=None, gpus={gpu.slug: gpu for gpu in gpus}, hidden=hidden)


ALL = catalog(A100, SHARED, T4, SLICE, hidden=(HIDDEN,))


def classify(
    limits: dict[str, int],
    *,
    selector: dict[str, str] | None = None,
    terms: list[list[dict[str, Any]]] | None = None,
    labels: dict[str, str] | None = None,
    known: Catalog = ALL,
) -> PodGPUs:
    spec: dict[str, Any] = {"containers": [{"name": "notebook", "resources": {"limits": limits}}]}
    if selector:
        spec["nodeSelector"] = selector
    if terms is not None:
        required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    pod = decode_pod({"metadata": {"name": "p", "namespace": "hub"}, "spec": spec})
    assert pod is not None
    return classify_pod(pod.requests, known, constraints=pod.constraints, labels=labels)


def product(*values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": PRODUCT, "operator": operator, "values": list(values)}


def test_a_pod_without_a_gpu_has_none():
    pod = classify({"cpu": 4, "example.com/fpga": 1})
    assert (pod.gpu, pod.count, pod.types) == (None, 0, ())


@pytest.mark.parametrize(
    ("limits", "selector", "slug"),
    [
        pytest.param({MIG: 2}, {}, "slice", id="the resource alone"),
        pytest.param({AMD: 2}, {}, "hidden", id="a type that users cannot choose"),
        pytest.param({NVIDIA: 2}, {PRODUCT: "T4"}, "t4", id="the label of one type"),
        pytest.param({NVIDIA: 2}, {PRODUCT: "T4", POOL: "a"}, "t4", id="also a label of no type"),
        pytest.param({NVIDIA: 2}, {PRODUCT: "A100-80", SHARING: "time-sharing"}, "shared", id="the labels of one type"),
    ],
)
def test_the_node_selector_tells_the_type(limits: dict[str, int], selector: dict[str, str], slug: str):
    pod = classify(limits, selector=selector)
    assert (pod.gpu, pod.count) == (slug, 2)


@pytest.mark.parametrize(
    ("terms", "types"),
    [
        pytest.param([[product("T4")]], ("t4",), id="one term"),
        pytest.param([[product("T4")], [product("T4", "T4")]], ("t4",), id="terms of one type"),
        pytest.param([[product("T4")], [product("A100-40")]], ("a100", "shared", "t4"), id="terms of several types"),
        pytest.param([[product("T4", operator="NotIn")]], ("a100", "shared"), id="all but one type"),
        pytest.param([], (), id="no term, so no node"),
        pytest.param([[product("H900")]], (), id="a model of no type"),
    ],
)
def test_the_node_affinity_tells_the_types(terms: list[list[dict[str, Any]]], types: tuple[str, ...]):
    assert classify({NVIDIA: 1}, terms=terms).types == types


@pytest.mark.parametrize("selector", [{}, {POOL: "gpu"}, {PRODUCT: "A100-40"}])
def test_a_pod_that_leaves_the_type_open_has_no_type(selector: dict[str, str]):
    pod = classify({NVIDIA: 1}, selector=selector)
    assert (pod.gpu, pod.count) == ("", 1)


@pytest.mark.parametrize(("selector", "slug"), [({}, "any"), ({PRODUCT: "T4"}, "t4"), ({PRODUCT: "A100-40"}, "any")])
def test_a_type_of_all_nodes_is_that_of_pods_that_name_no_other_type(selector: dict[str, str], slug: str):
    assert classify({NVIDIA: 1}, known=catalog(gpu_type("any"), T4), selector=selector).gpu == slug


def test_a_combined_type_is_that_of_pods_that_may_get_each_member_and_nothing_else():
    known = catalog(A100, T4, EITHER)
    assert classify({NVIDIA: 1}, known=known).gpu == "either"
    assert classify({NVIDIA: 1}, known=known, selector={PRODUCT: "T4"}).gpu == "t4"
    assert classify({NVIDIA: 1}, known=catalog(A100, T4, gpu_type("h100", product=("H100",)), EITHER)).gpu == ""


def test_the_pod_of_a_combined_type_may_get_each_member():
    assert classify({NVIDIA: 1}, known=catalog(A100, T4, EITHER)).types == ("a100", "t4")


def test_a_pod_that_names_no_model_may_get_each_type_of_its_resource():
    assert classify({NVIDIA: 1}, known=catalog(gpu_type("any"), T4)).types == ("any", "t4")


def test_the_node_of_a_running_pod_tells_more_than_its_selector():
    assert classify({NVIDIA: 1}, selector={PRODUCT: "T4"}, labels={PRODUCT: "A100-40"}).gpu == "a100"


def test_a_node_that_has_lost_its_labels_leaves_the_type_open():
    assert classify({NVIDIA: 1}, labels={}).types == ("a100", "shared", "t4")


def test_gpus_of_several_resources_count_together_and_have_no_single_type():
    pod = classify({MIG: 2, AMD: 1, "gpu.intel.com/i915": 4})
    assert (pod.gpu, pod.count, dict(pod.counts)) == ("", 7, {MIG: 2, AMD: 1, "gpu.intel.com/i915": 4})


def test_gpus_of_no_known_type_count():
    pod = classify({"gpu.intel.com/i915": 4})
    assert (pod.gpu, pod.count, pod.types) == ("", 4, ())
