from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.kueue import QUEUE_LABEL
from gpuspawner.core.catalog.model import Bounds, Catalog, CustomImages, GPUType, Image
from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.catalog.queue import KueueQueue
from gpuspawner.core.catalog.software import read_platform
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.request.field_definitions import Priority
from gpuspawner.core.request.pod_requirements import (
    GPU_HIDING_ENVIRONMENT,
    PodRequirements,
    list_shown_variables,
    place,
)
from gpuspawner.core.request.selection import Selection

GIB = 1 << 30
PRODUCT = "nvidia.com/gpu.product"
A100 = GPUType(
    slug="a100",
    display_name="A100",
    resource="nvidia.com/gpu",
    vendor="nvidia",
    match={PRODUCT: ("A100-SXM", "A100-PCIe"), "pool": ("big",), "shared": ()},
    max_count=8,
    tolerations=(Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),),
    environment={"NCCL_DEBUG": "INFO", "NVIDIA_VISIBLE_DEVICES": "all"},
    runtime_class="nvidia",
    shm=0.5,
    start_timeout_s=900,
)
MI210 = GPUType(slug="mi210", display_name="MI210", resource="amd.com/gpu", vendor="amd", match={"amd.com/gpu": ("x",)})
CATALOG = Catalog(
    images={"pytorch": Image(slug="pytorch", display_name="PyTorch", image="registry/pytorch:1")},
    cpu=Bounds(min=500, max=32_000, step=500, default=2000, guarantee=0.3),
    memory=Bounds(min=GIB, max=256 * GIB, step=GIB, default=8 * GIB),
    gpus={"a100": A100, "mi210": MI210},
)
GPU_SERVER = Selection(image="pytorch", cpu_millis=4000, memory_bytes=16 * GIB, gpu="a100", gpu_count=2)
CPU_SERVER = Selection(image="pytorch", cpu_millis=4000, memory_bytes=16 * GIB)
AVOIDED = (
    MatchExpression(key=PRODUCT, operator="NotIn", values=("A100-SXM", "A100-PCIe")),
    MatchExpression(key="amd.com/gpu", operator="NotIn", values=("x",)),
)


def test_a_server_with_gpus_asks_for_exactly_those():
    assert place(GPU_SERVER, CATALOG) == PodRequirements(
        image="registry/pytorch:1",
        cpu_limit_millis=4000,
        cpu_request_millis=1200,
        memory_limit_bytes=16 * GIB,
        memory_request_bytes=16 * GIB,
        extended_resources={"nvidia.com/gpu": 2},
        node_selector={"pool": "big"},
        required=(
            MatchExpression(key=PRODUCT, operator="In", values=("A100-SXM", "A100-PCIe")),
            MatchExpression(key="shared", operator="DoesNotExist"),
        ),
        tolerations=A100.tolerations,
        environment={"NCCL_DEBUG": "INFO", "AMD_VISIBLE_DEVICES": "void", "HABANA_VISIBLE_DEVICES": "none"},
        information={"GPUSPAWNER_GPU": "a100", "GPUSPAWNER_GPU_NAME": "A100", "GPUSPAWNER_GPU_COUNT": "2"},
        removed_environment=("NVIDIA_VISIBLE_DEVICES",),
        runtime_class="nvidia",
        shm_bytes=8 * GIB,
        annotations={
            "gpuspawner.jupyter.org/image": "pytorch",
            "gpuspawner.jupyter.org/summary": "PyTorch · 4 CPUs · 16 GiB · 2 × A100",
            "gpuspawner.jupyter.org/gpu": "a100",
            "gpuspawner.jupyter.org/gpu-name": "A100",
            "gpuspawner.jupyter.org/gpu-count": "2",
        },
        start_timeout_s=900,
    )


def test_a_server_without_a_gpu_sees_none_and_prefers_other_nodes():
    placement = place(CPU_SERVER, CATALOG)
    assert placement.environment == GPU_HIDING_ENVIRONMENT
    assert (placement.extended_resources, placement.tolerations, placement.node_selector) == ({}, (), {})
    assert (placement.required, placement.avoided, placement.information) == ((), AVOIDED, {})
    assert set(placement.annotations) == {"gpuspawner.jupyter.org/image", "gpuspawner.jupyter.org/summary"}


@pytest.mark.parametrize(
    ("vendor", "resource", "own"),
    [
        pytest.param("intel", "gpu.intel.com/xe", (), id="Intel has no such variable"),
        pytest.param("intel", "habana.ai/gaudi", ("HABANA_VISIBLE_DEVICES",), id="Gaudi"),
        pytest.param("amd", "example.com/gpu", ("AMD_VISIBLE_DEVICES",), id="AMD, by another resource"),
        pytest.param("nvidia", "nvidia.com/mig-1g.5gb", ("NVIDIA_VISIBLE_DEVICES",), id="NVIDIA"),
    ],
)
def test_a_server_sees_the_gpus_of_its_own_vendor_only(vendor: str, resource: str, own: tuple[str, ...]):
    every = dict.fromkeys(GPU_HIDING_ENVIRONMENT, "all")
    gpu = replace(CATALOG.gpus["mi210"], vendor=vendor, resource=resource, environment={**every, "A": "1"})
    placement = place(replace(GPU_SERVER, gpu="mi210", gpu_count=1), replace(CATALOG, gpus={"mi210": gpu}))
    hidden = {name: value for name, value in GPU_HIDING_ENVIRONMENT.items() if name not in own}
    assert (placement.environment, placement.removed_environment) == ({"A": "1", **hidden}, own)


SHOWN_BY_NVIDIA = (
    *("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/A100-SXM4-40GB"),
    *("nvidia.com/a100", "nvidia.com/a10g", "nvidia.com/l40s", "nvidia.com/H100-80GB-HBM3", "nvidia.com/gb200"),
    *("nvidia.com/gh200-480gb", "nvidia.com/l4", "nvidia.com/t4", "nvidia.com/T4", "nvidia.com/P4", "nvidia.com/a2"),
    *("nvidia.com/k80", "nvidia.com/tesla_v100", "nvidia.com/tesla-t4", "nvidia.com/tesla-v100.shared"),
    *("nvidia.com/quadro-rtx-8000", "nvidia.com/quadro_p4000", "nvidia.com/geforce-gtx-1080-ti", "nvidia.com/rtx3090"),
    *("nvidia.com/rtx-2080ti", "nvidia.com/RTX-A6000", "nvidia.com/rtx-pro-6000", "nvidia.com/rtx-6000-ada"),
    *("nvidia.com/titan-v", "nvidia.com/titan_rtx", "nvidia.com/nvidia-a100", "nvidia.com/nvidia-h100-nvl"),
    *("volcano.sh/vgpu-number", "volcano.sh/gpu-number", "volcano.sh/gpu-memory", "aliyun.com/gpu-mem"),
    "k8s.amazonaws.com/vgpu",
)
# Nothing of these is a GPU that a device plugin shows: without `vgpu-number`, volcano's plugin gives none.
NOT_SHOWN = (
    *("nvidia.com/k8s-thing", "nvidia.com/m2", "nvidia.com/v1", "nvidia.com/p2p", "nvidia.com/l2", "nvidia.com/b1"),
    *("nvidia.com/h5", "nvidia.com/m2.large", "nvidia.com/k8s", "nvidia.com/rtx_nic", "nvidia.com/rtx"),
    *("nvidia.com/gtx-x", "nvidia.com/titan", "nvidia.com/quadro", "nvidia.com/geforce-now", "nvidia.com/tesla-nic"),
    *("nvidia.com/titanium2", "nvidia.com/t4x9", "nvidia.com/l40plus", "nvidia.com/gpumem", "nvidia.com/gpucores"),
    *("nvidia.com/mlnxnics", "nvidia.com/hostdev", "nvidia.com/cx5_sriov", "nvidia.com/cx7-vf", "nvidia.com/bf3"),
    *("nvidia.com/rdma_shared_device_a", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores", "rdma/hca"),
    *("squat.ai/fuse", "example.com/a100", "hugepages-2Mi", "ephemeral-storage"),
)


@pytest.mark.parametrize(
    ("resource", "variables"),
    [
        *((resource, ("NVIDIA_VISIBLE_DEVICES",)) for resource in SHOWN_BY_NVIDIA),
        *((resource, ()) for resource in NOT_SHOWN),
        ("habana.ai/gaudi", ("HABANA_VISIBLE_DEVICES",)),
    ],
)
def test_a_resource_that_certainly_stands_for_gpus_shows_them(resource: str, variables: tuple[str, ...]):
    assert list_shown_variables(resource) == variables


def test_an_image_that_a_person_named_is_the_pods_and_nothing_is_required_for_it():
    reference = "quay.io/acme/own:1"
    placement = place(replace(GPU_SERVER, image="", custom_image=reference), CATALOG)
    assert (placement.image, placement.required) == (reference, place(GPU_SERVER, CATALOG).required)
    assert placement.annotations["gpuspawner.jupyter.org/image"] == reference
    assert placement.annotations["gpuspawner.jupyter.org/summary"] == f"{reference} · 4 CPUs · 16 GiB · 2 × A100"


def test_a_listed_image_that_is_named_by_its_reference_starts_where_it_does_otherwise():
    image = replace(CATALOG.images["pytorch"], image="quay.io/acme/own:1", architectures=("arm64",), cuda="13.0")
    driver = "nvidia.com/cuda.driver-version.major"
    platforms = tuple(read_platform({driver: version}) for version in ("535", "580"))
    catalog = replace(
        CATALOG,
        images={"pytorch": image},
        gpus={"a100": replace(A100, platforms=platforms)},
        custom_images=CustomImages(listed={image.image: image}),
    )
    named = replace(GPU_SERVER, image="", custom_image=image.image)
    assert place(named, catalog).required == place(GPU_SERVER, catalog).required


def test_an_image_starts_only_on_nodes_it_was_built_for():
    image = replace(CATALOG.images["pytorch"], architectures=("arm64",))
    catalog = replace(CATALOG, images={"pytorch": image})
    arch = MatchExpression(key="kubernetes.io/arch", operator="In", values=("arm64",))
    assert place(CPU_SERVER, catalog).required == (arch,)
    assert place(GPU_SERVER, catalog).required == (*place(GPU_SERVER, CATALOG).required, arch)


def test_an_image_is_kept_off_the_nodes_of_its_gpu_type_that_it_cannot_use():
    driver = "nvidia.com/cuda.driver-version.major"
    platforms = tuple(read_platform({driver: version}) for version in ("535", "580"))
    catalog = replace(
        CATALOG,
        images={"pytorch": replace(CATALOG.images["pytorch"], cuda="13.0")},
        gpus={**CATALOG.gpus, "a100": replace(CATALOG.gpus["a100"], platforms=platforms)},
    )
    old = MatchExpression(key=driver, operator="NotIn", values=("535",))
    assert place(GPU_SERVER, catalog).required == (*place(GPU_SERVER, CATALOG).required, old)
    assert place(CPU_SERVER, catalog).required == ()


@pytest.mark.parametrize(("guarantee", "request_millis"), [(1.0, 4000), (0.1, 400), (1e-9, 1), (0.3333, 1334)])
def test_the_request_is_the_guaranteed_part_rounded_up(guarantee: float, request_millis: int):
    bounds = Bounds(min=500, max=32_000, step=500, default=2000, guarantee=guarantee)
    assert place(CPU_SERVER, replace(CATALOG, cpu=bounds)).cpu_request_millis == request_millis


def test_without_amounts_limits_are_left_to_the_spawner():
    unknown = replace(CATALOG, cpu=None, memory=None)
    placement = place(replace(GPU_SERVER, cpu_millis=None, memory_bytes=None), unknown)
    amounts = (
        placement.cpu_limit_millis,
        placement.cpu_request_millis,
        placement.memory_limit_bytes,
        placement.memory_request_bytes,
        placement.shm_bytes,
    )
    assert amounts == (None, None, None, None, None)


@given(st.sampled_from([None, "a100", "mi210"]), st.integers(1, 8), st.integers(1, 64), st.integers(1, 256))
def test_a_placement_never_asks_for_more_than_was_selected(gpu: str | None, count: int, steps: int, gib: int):
    selection = Selection(
        image="pytorch",
        cpu_millis=steps * 500,
        memory_bytes=gib * GIB,
        gpu=gpu,
        gpu_count=0 if gpu is None else count,
    )
    placement = place(selection, CATALOG)
    chosen = {} if gpu is None else {CATALOG.gpus[gpu].resource: count}
    assert placement.extended_resources == chosen
    assert 0 < (placement.cpu_request_millis or 0) <= steps * 500
    assert 0 < (placement.memory_request_bytes or 0) <= gib * GIB
    assert ("NVIDIA_VISIBLE_DEVICES" in placement.environment) == (gpu != "a100")
    assert set(placement.node_selector) <= set(CATALOG.gpus[gpu].match if gpu else ())


def test_any_of_several_types_becomes_one_expression_where_one_label_differs():
    l4 = replace(MI210, slug="l4", match={PRODUCT: ("L4",)})
    t4 = replace(MI210, slug="t4", match={PRODUCT: ("T4",)})
    placed = _placed_any(l4, t4)
    assert (placed.node_selector, placed.alternatives) == ({}, ())
    assert placed.required == (MatchExpression(key=PRODUCT, operator="In", values=("L4", "T4")),)


def test_any_of_several_types_becomes_alternatives_where_labels_differ():
    t4 = replace(MI210, slug="t4", match={PRODUCT: ("T4",), "sharing": ()})
    placed = _placed_any(MI210, t4)
    assert (placed.node_selector, placed.required) == ({}, ())
    assert placed.alternatives == (
        (MatchExpression(key="amd.com/gpu", operator="In", values=("x",)),),
        (
            MatchExpression(key=PRODUCT, operator="In", values=("T4",)),
            MatchExpression(key="sharing", operator="DoesNotExist"),
        ),
    )


def _placed_any(*members: GPUType) -> PodRequirements:
    either = replace(MI210, slug="any", match={}, members=members)
    catalog = replace(CATALOG, gpus={"any": either})
    return place(Selection(image="pytorch", cpu_millis=None, memory_bytes=None, gpu="any", gpu_count=1), catalog)


@pytest.mark.parametrize(
    ("selection", "asked_s", "expected_s"),
    [
        (CPU_SERVER, None, 7200),
        (CPU_SERVER, 5400, 5400),
        (CPU_SERVER, 9000, 7200),
        (GPU_SERVER, None, 3600),
        (GPU_SERVER, 5400, 3600),
        (GPU_SERVER, 1800, 1800),
    ],
)
def test_no_server_runs_longer_than_all_may_or_its_type_may(selection: Selection, asked_s: int | None, expected_s: int):
    limited = replace(CATALOG, gpus={"a100": replace(A100, max_runtime_s=3600)}, max_runtime_s=7200)
    assert place(replace(selection, run_time_s=asked_s), limited).run_time_s == expected_s


@pytest.mark.parametrize("selection", [GPU_SERVER, CPU_SERVER], ids=["GPU", "no GPU"])
def test_shared_memory_that_was_asked_for_takes_the_place_of_the_types(selection: Selection):
    assert place(replace(selection, shared_memory_bytes=2 * GIB), CATALOG).shm_bytes == 2 * GIB
    assert place(selection, CATALOG).shm_bytes == (8 * GIB if selection.gpu else None)


def test_a_priority_that_was_picked_is_the_pods():
    low = Priority(slug="low", display_name="Low", priority_class="site-low", value=-10)
    catalog = replace(CATALOG, choices={"priority": {"low": low}})
    assert place(replace(CPU_SERVER, choices={"priority": "low"}), catalog).priority is low
    assert place(CPU_SERVER, CATALOG).priority is None


QUEUED = replace(CATALOG, queue=KueueQueue(local_queue="gpu-queue", timeout_s=3600, gpus=frozenset({"a100"})))


def test_a_server_with_a_type_that_is_queued_says_so_and_may_wait_longer():
    placement = place(GPU_SERVER, QUEUED)
    assert (placement.labels, placement.start_timeout_s) == ({QUEUE_LABEL: "gpu-queue"}, 3600)


@pytest.mark.parametrize("selection", [CPU_SERVER, replace(GPU_SERVER, gpu="mi210", gpu_count=1)])
def test_no_other_server_is_queued(selection: Selection):
    placement = place(selection, QUEUED)
    assert (placement.labels, placement.start_timeout_s) == ({}, None)


@pytest.mark.parametrize(("timeout_s", "waits_s"), [(60, 900), (None, 900)])
def test_a_types_own_timeout_is_never_made_shorter_by_the_queues(timeout_s: int | None, waits_s: int):
    queued = replace(CATALOG, queue=KueueQueue(local_queue="gpu-queue", timeout_s=timeout_s))
    assert place(GPU_SERVER, queued).start_timeout_s == waits_s
