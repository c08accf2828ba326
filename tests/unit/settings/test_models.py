from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.model import Bounds, CustomImages, GPUType, Image, Preset, ScaleUp, UnitKind
from gpuspawner.core.catalog.queue import KueueQueue
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.request.field_definitions import Priority
from gpuspawner.settings.models import SETTINGS

GIB = 1 << 30
PRODUCT = "nvidia.com/gpu.product"
TABLE = AcceleratorTable(
    [
        Accelerator(slug="t4", name="T4", vendor="nvidia", memory_bytes=15 * GIB, labels={"gfd": ("Tesla-T4",)}),
        Accelerator(slug="l4", name="L4", vendor="nvidia", memory_bytes=22 * GIB, labels={"gfd": ("NVIDIA-L4",)}),
    ]
)


def configured(**raw: Any) -> ConfiguredCatalog:
    return SETTINGS.validate_python(raw).build_catalog(TABLE)


def gpu(**keys: Any) -> GPUType:
    return configured(gpus={"g": {"resource": "nvidia.com/gpu", **keys}}).gpus["g"]


def test_an_image_keeps_what_was_said():
    raw = {
        "display_name": "I",
        "image": "r/i:1",
        "description": "D",
        "cuda": "12.8",
        "vendors": ["nvidia"],
        "architectures": ["arm64"],
    }
    assert configured(images={"i": raw}).images == {
        "i": Image(
            slug="i",
            display_name="I",
            image="r/i:1",
            description="D",
            cuda="12.8",
            vendors=("nvidia",),
            architectures=("arm64",),
        )
    }


def test_an_image_without_a_name_is_called_by_its_slug():
    image = configured(images={"i": {"image": "r"}}).images["i"]
    assert (image.display_name, image.vendors) == ("i", None)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, None),
        ({"registries": ["quay.io"]}, None),
        ({"allowed": True}, CustomImages()),
        (
            {"allowed": True, "registries": ["Quay.io", "index.docker.io/jupyter"], "description": "D"},
            CustomImages(registries=("quay.io", "docker.io/jupyter"), description="D"),
        ),
    ],
)
def test_images_may_be_named_where_the_admin_allows_it(keys: dict[str, Any], expected: CustomImages | None):
    assert configured(custom_images=keys).custom_images == expected


def test_what_the_settings_say_of_an_image_they_say_of_its_reference():
    images = {
        "torch": {"image": "quay.io/acme/torch:1", "cuda": "12.8"},
        "old": {"image": "acme/old", "enabled": False},
        "odd": {"image": "Not A Reference".replace(" ", "-")},
    }
    found = configured(images=images, custom_images={"allowed": True})
    assert found.custom_images == CustomImages(listed={"quay.io/acme/torch:1": found.images["torch"]})


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"max": "24h"}, Bounds(min=900, max=86_400, step=900, default=28_800)),
        ({"max": "4h"}, Bounds(min=900, max=14_400, step=900, default=14_400)),
        (
            {"min": "1h", "max": "2d", "step": "1h", "default": "12h"},
            Bounds(min=3600, max=172_800, step=3600, default=43_200),
        ),
    ],
)
def test_a_run_time_is_offered_where_the_admin_bounds_it(keys: dict[str, Any], expected: Bounds):
    assert configured(run_time=keys).run_time == expected
    assert configured().run_time is None


def test_shared_memory_is_offered_where_the_admin_bounds_it():
    mib = 1 << 20
    assert configured().shared_memory is None
    assert configured(shared_memory={"max": "16G"}).shared_memory == Bounds(
        min=256 * mib, max=16 * GIB, step=256 * mib, default=256 * mib
    )
    assert configured(shared_memory={"min": "1G", "max": "64G", "step": "2G"}).shared_memory == Bounds(
        min=GIB, max=64 * GIB, step=2 * GIB, default=GIB
    )


def test_priorities_keep_what_was_said_in_their_order():
    raw = {
        "low": {"class": "site-low", "value": -10, "display_name": "Low", "description": "D", "order": 2},
        "normal": {"class": "site-normal", "value": 0, "order": 1},
        "off": {"enabled": False},
    }
    normal = Priority(slug="normal", display_name="normal", priority_class="site-normal", value=0)
    low = Priority(slug="low", display_name="Low", priority_class="site-low", value=-10, description="D")
    assert list(configured(priorities=raw).choices["priority"].items()) == [("normal", normal), ("low", low)]


def test_a_gpu_keeps_what_was_said():
    assert gpu(
        display_name="G",
        vendor="amd",
        unit="mig",
        match={"pool": ["a", "b"]},
        max_count=2,
        memory="5G",
        description="D",
        note="N",
        spot=True,
        interconnect="NVLink",
        tolerations=[{"key": "k", "value": "v", "effect": "NoExecute"}, {"operator": "Exists"}],
        environment={"A": "1"},
        runtime_class="nvidia",
        shm=0.25,
        scale_up={"max_nodes": 1, "gpus_per_node": 2, "minutes": 3},
        start_timeout=60,
    ) == GPUType(
        slug="g",
        display_name="G",
        resource="nvidia.com/gpu",
        vendor="amd",
        unit=UnitKind.MIG,
        match={"pool": ("a", "b")},
        max_count=2,
        memory_bytes=5 * GIB,
        description="D",
        note="N",
        spot=True,
        interconnect="NVLink",
        tolerations=(Toleration(key="k", value="v", effect="NoExecute"), Toleration(operator="Exists")),
        environment={"A": "1"},
        runtime_class="nvidia",
        shm=0.25,
        scale_up=ScaleUp(max_nodes=1, gpus_per_node=2, minutes=3.0),
        start_timeout_s=60,
    )


def test_what_the_admin_does_not_say_of_the_nodes_is_for_them_to_say():
    assert (gpu().spot, gpu().interconnect) == (None, None)
    assert (gpu(spot=False, interconnect="").spot, gpu(spot=False, interconnect="").interconnect) == (False, "")


def test_a_gpu_takes_name_and_memory_from_the_table():
    found = gpu(match={PRODUCT: ["Tesla-T4"]})
    assert (found.display_name, found.vendor, found.memory_bytes) == ("T4", "nvidia", 15 * GIB)


@pytest.mark.parametrize("products", [["Tesla-T4", "NVIDIA-L4"], ["NVIDIA-X9"]])
def test_a_gpu_of_several_or_unknown_models_takes_nothing_from_the_table(products: list[str]):
    found = gpu(match={PRODUCT: products})
    assert (found.display_name, found.memory_bytes) == ("g", None)


@pytest.mark.parametrize(
    ("keys", "unit"),
    [
        ({}, UnitKind.CARD),
        ({"resource": "nvidia.com/mig-1g.5gb"}, UnitKind.MIG),
        ({"match": {PRODUCT: ["Tesla-T4-MIG-1g.5gb"]}}, UnitKind.MIG),
        ({"resource": "nvidia.com/gpu.shared"}, UnitKind.SHARED),
        ({"match": {PRODUCT: ["Tesla-T4-SHARED"]}}, UnitKind.SHARED),
    ],
)
def test_resource_and_product_tell_what_a_unit_is(keys: dict[str, Any], unit: UnitKind):
    assert gpu(**keys).unit is unit


def test_a_slice_does_not_have_the_whole_cards_memory():
    assert gpu(match={PRODUCT: ["Tesla-T4-MIG-1g.5gb"]}).memory_bytes is None


def test_a_count_that_was_left_out_is_for_the_nodes_to_say():
    gpus = {
        "a": {"resource": "nvidia.com/gpu"},
        "b": {"resource": "nvidia.com/gpu", "max_count": 2},
        "c": {"resource": "nvidia.com/gpu.shared"},
    }
    assert configured(gpus=gpus).uncounted == {"a"}


def test_disabled_entries_are_left_out_and_their_types_hidden():
    found = configured(
        gpus={"t4": {"enabled": False}, "l4": {"resource": "nvidia.com/gpu"}}, images={"i": {"enabled": False}}
    )
    assert (list(found.gpus), found.hidden, found.images) == (["l4"], {"t4"}, {})


def test_a_disabled_type_that_is_described_is_hidden_under_every_name():
    entry = {"resource": "nvidia.com/gpu", "match": {PRODUCT: ["Tesla-T4"]}, "enabled": False}
    found = configured(gpus={"mine": entry, "t4": {"enabled": False}})
    assert [(gpu.slug, gpu.resource, gpu.match) for gpu in found.hidden_gpus] == [
        ("mine", "nvidia.com/gpu", {PRODUCT: ("Tesla-T4",)})
    ]


@pytest.mark.parametrize(
    ("cpu", "bounds"),
    [
        ({"max": 8}, Bounds(min=500, max=8000, step=500, default=2000, guarantee=0.5)),
        ({"max": 1}, Bounds(min=500, max=1000, step=500, default=1000, guarantee=0.5)),
        (
            {"min": 3, "max": 8, "step": 1, "guarantee": 1},
            Bounds(min=3000, max=8000, step=1000, default=3000, guarantee=1.0),
        ),
        ({"min": 0.3, "max": 8, "step": 1}, Bounds(min=300, max=8000, step=1000, default=1300, guarantee=0.5)),
        ({"max": 8, "default": 4}, Bounds(min=500, max=8000, step=500, default=4000, guarantee=0.5)),
    ],
)
def test_bounds_are_completed(cpu: dict[str, Any], bounds: Bounds):
    assert configured(cpu=cpu).cpu == bounds


def test_memory_is_guaranteed_in_full():
    assert configured(memory={"max": "64G"}).memory == Bounds(
        min=GIB, max=64 * GIB, step=GIB, default=8 * GIB, guarantee=1.0
    )


def test_a_preset_becomes_user_options():
    raw = {
        "display_name": "P",
        "description": "D",
        "image": "i",
        "cpu": 0.5,
        "memory": "4G",
        "gpu": "t4",
        "gpu_count": 2,
        "run_time": "90m",
        "shared_memory": "2G",
        "priority": "low",
    }
    assert configured(presets={"p": raw}).presets == {
        "p": Preset(
            slug="p",
            display_name="P",
            description="D",
            options={
                "image": "i",
                "cpu": 0.5,
                "memory": "4G",
                "gpu": "t4",
                "gpu_count": 2,
                "run_time": "1h30m",
                "shared_memory": "2G",
                "priority": "low",
            },
        )
    }


def test_an_accelerator_of_another_vendor_is_found_on_nodes_without_a_label():
    match = {"cloud.google.com/gke-tpu-topology": "2x4", "shared": []}
    tpu = gpu(resource="google.com/tpu", vendor="other", match=match, tolerations=[], max_count=8)
    assert (tpu.vendor, tpu.max_count, tpu.tolerations) == ("other", 8, ())
    assert tpu.match == {"cloud.google.com/gke-tpu-topology": ("2x4",), "shared": ()}


def test_discovery_can_be_switched_off():
    assert (configured().discover, configured(discover_gpus=False).discover) == (True, False)


def test_an_entry_for_several_types_is_a_choice_and_no_type():
    gpus = {
        "t4": {"resource": "nvidia.com/gpu", "max_count": 1},
        "any": {"any_of": ["t4", "l4"], "order": 1},
        "big": {"min_memory": "40G", "resource": "nvidia.com/gpu", "max_count": 2, "display_name": "Big"},
        "off": {"any_of": ["t4"], "enabled": False},
    }
    found = configured(gpus=gpus)
    assert (list(found.gpus), list(found.unions), found.uncounted) == (["t4"], ["any", "big"], {"any"})
    assert found.unions["any"].any_of == ("t4", "l4")
    assert (found.unions["any"].display_name, found.unions["any"].max_count) == ("", 0)
    big = found.unions["big"]
    assert (big.min_memory_bytes, big.resource, big.max_count) == (40 * 1024**3, "nvidia.com/gpu", 2)


@pytest.mark.parametrize(
    ("entry", "vendors"),
    [
        ({}, None),
        ({"cuda": "12.8"}, ("nvidia",)),
        ({"rocm": "6.4"}, ("amd",)),
        ({"cuda": "12.8", "rocm": "6.4"}, ("nvidia", "amd")),
        ({"cuda": "12.8", "vendors": ["nvidia", "intel"]}, ("nvidia", "intel")),
    ],
)
def test_a_toolkit_says_whose_gpus_an_image_can_use(entry: dict[str, Any], vendors: tuple[str, ...] | None):
    assert configured(images={"i": {"image": "i:1", **entry}}).images["i"].vendors == vendors


@pytest.mark.parametrize(
    ("given", "keys"),
    [({}, ["amd.com/gpu"]), ({"tolerations": []}, []), ({"tolerations": [{"key": "k", "operator": "Exists"}]}, ["k"])],
)
def test_taints_of_gpu_nodes_are_tolerated_unless_the_admin_says_what_is(given: dict[str, Any], keys: list[str]):
    found = gpu(resource="amd.com/gpu", **given)
    assert [toleration.key for toleration in found.tolerations] == keys


def test_a_queue_is_for_all_types_unless_some_are_named():
    raw = {"local_queue": "q", "priority_class": "high", "timeout": 3600}
    queue = KueueQueue(local_queue="q", priority_class="high", timeout_s=3600)
    assert configured(queue=raw).queue == queue
    assert configured(queue={**raw, "gpus": ["t4", "*"]}).queue == replace(queue, gpus=("t4", "*"))
    assert configured(queue={"local_queue": "q", "gpus": ["t4"]}).queue == KueueQueue(local_queue="q", gpus=("t4",))
    assert configured().queue is None
