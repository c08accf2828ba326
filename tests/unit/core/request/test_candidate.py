"""What a finished pod asks for: the amounts of its first container, and the GPUs of all containers."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.model import NO_LIMIT, Catalog, GPUType, Image
from gpuspawner.core.catalog.pod_gpus import PodGPUs
from gpuspawner.core.request.candidate import Candidate, read_candidate

GIB = 1 << 30
PRODUCT = "nvidia.com/gpu.product"
CATALOG = Catalog(
    images={"lab": Image(slug="lab", display_name="Lab", image="lab:1")},
    cpu=None,
    memory=None,
    gpus={
        slug: GPUType(
            slug=slug, display_name=slug, resource="nvidia.com/gpu", vendor="nvidia", match={PRODUCT: (slug,)}
        )
        for slug in ("t4", "a100")
    },
)


def pod(*more: dict[str, Any], limits: Any = None, requests: Any = None, **spec: Any) -> dict[str, Any]:
    """Return the JSON of a pod.

    :param more: containers beside the server's.
    :param spec: more fields of the pod's ``spec``.
    """
    resources = {"limits": limits or {}, "requests": requests or {}}
    notebook = {"name": "notebook", "image": "quay.io/a/b:1", "resources": resources}
    return {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [notebook, *more], **spec}}


def read(manifest: dict[str, Any], **keys: Any) -> Candidate:
    return read_candidate(manifest, CATALOG, **keys)


@pytest.mark.parametrize(
    ("limits", "requests", "cpu", "memory"),
    [
        pytest.param({}, {}, (NO_LIMIT, NO_LIMIT), (NO_LIMIT, NO_LIMIT), id="nothing"),
        pytest.param(
            {"cpu": 4.0, "memory": 8 * GIB}, {"cpu": 0.5, "memory": GIB}, (4000, 500), (8 * GIB, GIB), id="numbers"
        ),
        pytest.param(
            {"cpu": "1500m", "memory": "2Gi"},
            {"cpu": "1", "memory": "512Mi"},
            (1500, 1000),
            (2 * GIB, GIB // 2),
            id="texts",
        ),
        pytest.param(
            {"cpu": "4", "memory": "1Gi"}, {}, (4000, 4000), (GIB, GIB), id="a request that is left out is the limit"
        ),
        pytest.param({}, {"cpu": 1, "memory": "1Gi"}, (NO_LIMIT, 1000), (NO_LIMIT, GIB), id="requests alone"),
        pytest.param(
            {"cpu": "many", "memory": ["1Gi"]},
            {"cpu": {}, "memory": "1Gi"},
            (NO_LIMIT, NO_LIMIT),
            (NO_LIMIT, GIB),
            id="what cannot be read",
        ),
        pytest.param(["cpu"], "cpu", (NO_LIMIT, NO_LIMIT), (NO_LIMIT, NO_LIMIT), id="no mappings"),
    ],
)
def test_limits_and_requests_are_those_of_the_servers_container(
    limits: Any, requests: Any, cpu: tuple[int, int], memory: tuple[int, int]
):
    sidecar = {"name": "sidecar", "resources": {"limits": {"cpu": "64", "memory": "64Gi"}}}
    assert read(pod(sidecar, limits=limits, requests=requests)) == Candidate(cpu=cpu, memory=memory)


@pytest.mark.parametrize("manifest", [{}, {"spec": None}, {"spec": {"containers": ["x"]}}], ids=str)
def test_a_pod_that_says_nothing_asks_for_nothing(manifest: dict[str, Any]):
    assert read(manifest, names_image=True) == Candidate()


def test_gpus_are_those_of_all_containers_and_of_the_type_that_the_pod_names():
    helper = {"name": "helper", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    found = read(pod(helper, limits={"nvidia.com/gpu": 2}, nodeSelector={PRODUCT: "a100"}))
    assert found.gpus == PodGPUs(counts={"nvidia.com/gpu": 3}, gpu="a100", types=("a100",))


def test_gpus_without_a_node_selector_may_be_of_several_types():
    found = read(pod(limits={"nvidia.com/gpu": 1}))
    assert found.gpus == PodGPUs(counts={"nvidia.com/gpu": 1}, gpu="", types=("t4", "a100"), may_be_new=True)


def test_gpus_that_no_type_stands_for_are_gpus_as_well():
    found = read(pod(limits={"amd.com/gpu": 1}))
    assert found.gpus == PodGPUs(counts={"amd.com/gpu": 1}, gpu="", may_be_new=True)


def test_a_resource_whose_name_is_no_text_is_no_gpu():
    assert read(pod(limits={1: 2})).is_gpu_count_known


@pytest.mark.parametrize(
    ("amount", "count"),
    [("8", 8), ("8e00000", 8), ("0", 0), (2, 2), ("8" + "0" * 40, None), ("many", None), (None, 0), ([8], None)],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_an_amount_of_gpus_that_cannot_be_read_is_unknown_and_not_none(kind: str, amount: Any, count: int | None):
    helper = {"name": "helper", "resources": {"limits": {"nvidia.com/gpu": amount}}}
    manifest = pod()
    manifest["spec"][kind] = [*manifest["spec"].get(kind, []), helper]
    candidate = read(manifest)
    assert (candidate.gpus.count, candidate.is_gpu_count_known) == (count or 0, count is not None)


def test_the_servers_container_is_the_one_that_kubespawner_names_wherever_it_stands():
    manifest = pod(limits={"cpu": "2", "memory": "2Gi"})
    manifest["spec"]["containers"].insert(0, {"name": "sidecar", "resources": {"limits": {"cpu": "0.1"}}})
    assert read(manifest) == Candidate(cpu=(2000, 2000), memory=(2 * GIB, 2 * GIB))


@pytest.mark.parametrize(("names_image", "custom_image"), [(True, "quay.io/a/b:1"), (False, "")])
def test_the_image_is_that_of_the_user_only_if_the_user_has_named_it(names_image: bool, custom_image: str):
    assert read(pod(), names_image=names_image).custom_image == custom_image
