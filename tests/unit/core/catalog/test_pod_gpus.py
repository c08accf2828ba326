"""A pod's requests, node selector and node affinity tell which GPUs it asks for, whichever spawner made it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import Catalog, GPUType, Image
from gpuspawner.core.catalog.pod_gpus import PodGPUs, classify_pod
from gpuspawner.core.cluster.decode import decode_pod
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.selectors import matches_node_affinity

NVIDIA, AMD, MIG, UNKNOWN = "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb", "gpu.intel.com/i915"
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


def decode(
    selector: dict[str, str] | None, terms: list[list[dict[str, Any]]] | None, *, limits: dict[str, int] | None = None
) -> Pod:
    spec: dict[str, Any] = {"containers": [{"name": "notebook", "resources": {"limits": limits or {}}}]}
    if selector:
        spec["nodeSelector"] = selector
    if terms is not None:
        required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    pod = decode_pod({"metadata": {"name": "p", "namespace": "hub"}, "spec": spec})
    assert pod is not None
    return pod


def classify(
    limits: dict[str, int],
    *,
    selector: dict[str, str] | None = None,
    terms: list[list[dict[str, Any]]] | None = None,
    labels: dict[str, str] | None = None,
    known: Catalog = ALL,
) -> PodGPUs:
    pod = decode(selector, terms, limits=limits)
    return classify_pod(pod.requests, known, constraints=pod.constraints, labels=labels)


def require(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def product(*values: str) -> dict[str, Any]:
    return require(PRODUCT, "In", *values)


EVERY = ("a100", "shared", "t4")


def test_a_pod_without_a_gpu_has_none():
    assert classify({"cpu": 4, "example.com/fpga": 1}) == PodGPUs(counts={}, gpu=None, types=())


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
def test_the_node_selector_names_the_type(limits: dict[str, int], selector: dict[str, str], slug: str):
    assert classify(limits, selector=selector) == PodGPUs(counts=limits, gpu=slug, types=(slug,))


@pytest.mark.parametrize(
    ("terms", "slug", "types", "may_be_new"),
    [
        pytest.param([[product("T4")]], "t4", ("t4",), False, id="one term"),
        pytest.param([[product("T4")], [product("T4", "T4")]], "t4", ("t4",), False, id="terms of one type"),
        pytest.param([[product("T4")], []], "t4", ("t4",), False, id="a term that no node matches"),
        pytest.param([[product("T4")], [product("A100-40")]], "", EVERY, False, id="terms of several types"),
        pytest.param([[product("T4")], [require(POOL, "Exists")]], "", EVERY, True, id="a term without a model"),
        pytest.param(
            [[product("A100-40"), require(SHARING, "DoesNotExist")]],
            "a100",
            ("a100", "shared"),
            False,
            id="an absent label",
        ),
        pytest.param(
            [[require(PRODUCT, "NotIn", "T4")]], "", EVERY, True, id="all models but one, also those of new nodes"
        ),
        pytest.param([[product("T4", "H900")]], "", EVERY, True, id="also a model that new nodes may have"),
        pytest.param([[product("H900")]], "", EVERY, True, id="only a model that new nodes may have"),
        pytest.param([], "", EVERY, True, id="no term"),
        pytest.param([[product("T4")]] * 300, "", EVERY, True, id="too many terms"),
    ],
)
def test_the_node_affinity_names_the_type(
    terms: list[list[dict[str, Any]]], slug: str, types: tuple[str, ...], may_be_new: bool
):
    names_new = any("H900" in expression.get("values", ()) for term in terms for expression in term)
    expected = PodGPUs(counts={NVIDIA: 1}, gpu=slug, types=types, may_be_new=may_be_new, names_new=names_new)
    assert classify({NVIDIA: 1}, terms=terms) == expected


@pytest.mark.parametrize("selector", [{}, {POOL: "gpu"}, {PRODUCT: "H900"}])
def test_a_pod_that_names_no_model_may_get_every_type(selector: dict[str, str]):
    assert classify({NVIDIA: 1}, selector=selector) == PodGPUs(
        counts={NVIDIA: 1}, gpu="", types=EVERY, may_be_new=True, names_new=PRODUCT in selector
    )


@pytest.mark.parametrize(
    ("selector", "slug"), [({}, "t4"), ({POOL: "gpu"}, "t4"), ({PRODUCT: "T4"}, "t4"), ({PRODUCT: "H900"}, "")]
)
def test_the_only_type_is_that_of_each_pod_that_asks_for_no_other_model(selector: dict[str, str], slug: str):
    assert classify({NVIDIA: 1}, known=catalog(T4), selector=selector).gpu == slug


@pytest.mark.parametrize(
    ("selector", "slug", "types"),
    [
        pytest.param({}, "any", ("any", "t4"), id="nothing"),
        pytest.param({PRODUCT: "T4"}, "t4", ("any", "t4"), id="the model of another type"),
        pytest.param({PRODUCT: "A100-40"}, "any", ("any", "t4"), id="a model of no type"),
    ],
)
def test_a_type_of_all_nodes_is_that_of_pods_that_name_no_other_type(
    selector: dict[str, str], slug: str, types: tuple[str, ...]
):
    pod = classify({NVIDIA: 1}, known=catalog(gpu_type("any"), T4), selector=selector)
    assert (pod.gpu, pod.types) == (slug, types)


@pytest.mark.parametrize(
    ("known", "selector", "slug"),
    [
        pytest.param((A100, T4, EITHER), {}, "either", id="each member"),
        pytest.param((A100, T4, EITHER), {PRODUCT: "T4"}, "t4", id="one member"),
        pytest.param((A100, T4, SHARED, EITHER), {}, "", id="each member and another type"),
    ],
)
def test_a_combined_type_is_that_of_pods_that_may_get_each_member_and_nothing_else(
    known: tuple[GPUType, ...], selector: dict[str, str], slug: str
):
    assert classify({NVIDIA: 1}, known=catalog(*known), selector=selector).gpu == slug


def test_the_node_of_a_running_pod_tells_more_than_its_selector():
    assert classify({NVIDIA: 1}, selector={PRODUCT: "T4"}, labels={PRODUCT: "A100-40"}).gpu == "a100"


def test_a_node_that_has_lost_its_labels_leaves_the_type_open():
    assert classify({NVIDIA: 1}, labels={}) == PodGPUs(counts={NVIDIA: 1}, gpu="", types=EVERY)


@pytest.mark.parametrize(
    ("limits", "types"),
    [
        pytest.param({NVIDIA: 1, MIG: 2}, (*EVERY, "slice"), id="all of known types"),
        pytest.param({NVIDIA: 1, UNKNOWN: 2}, (), id="one of no known type"),
        pytest.param({UNKNOWN: 3}, (), id="only one of no known type"),
    ],
)
@pytest.mark.parametrize("labels", [None, {}])
def test_gpus_count_together_and_have_no_type_if_a_resource_has_none(
    limits: dict[str, int], types: tuple[str, ...], labels: dict[str, str] | None
):
    pod = classify(limits, labels=labels)
    assert (pod.gpu, pod.count, pod.types) == ("", 3, types)


VALUES = ("A100-40", "A100-80", "T4", "H900")
operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])
labels_of_nodes = st.fixed_dictionaries(
    {}, optional={PRODUCT: st.sampled_from(VALUES), SHARING: st.sampled_from(["time-sharing", "mps"])}
)
requirements = st.builds(
    lambda key, operator, values: require(key, operator, *(values if operator in ("In", "NotIn") else ())),
    st.sampled_from([PRODUCT, SHARING]),
    operators,
    st.lists(st.sampled_from((*VALUES, "time-sharing")), min_size=1, max_size=3),
)


@given(
    selector=labels_of_nodes,
    terms=st.none() | st.lists(st.lists(requirements, max_size=2), max_size=3),
    labels=labels_of_nodes,
)
def test_a_type_whose_node_fits_is_never_left_out(
    selector: dict[str, str], terms: list[list[dict[str, Any]]] | None, labels: dict[str, str]
):
    node = Node(name="n", labels=labels)
    if matches_node_affinity(node, decode(selector, terms).constraints):
        there = {gpu.slug for gpu in (A100, SHARED, T4) if gpu.matches_labels(labels)}
        assert there <= set(classify({NVIDIA: 1}, selector=selector, terms=terms).types)
