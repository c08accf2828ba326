"""Without settings, the pod of a user who chooses nothing has the resources that KubeSpawner's pod has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.catalog.model import Catalog, OwnAmount
from gpuspawner.core.cluster.decode import decode_node
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog, assemble_catalog
from gpuspawner.core.form.fields import restore_fields
from gpuspawner.core.request.options import parse_form
from gpuspawner.core.request.pod_requirements import place
from gpuspawner.core.request.selection import build_options, validate
from gpuspawner.hub.pod.admin_values import OWN_RESOURCE_TRAITS, parse_admin_tolerations, read_own_resources
from gpuspawner.hub.pod.patch import PodChoice, apply_choice
from tests.unit.hub.conftest import CPU_NODE, GPU_NODE, SETTINGS, MakeSpawner, node
from tests.unit.hub.pod.pods import PodBuilder
from tests.unit.hub.starts import begin, plain_pod, pod_of
from tests.unit.kube.watch_server import NODES, WatchServer

GIB = 2**30
T4_NODE = node("t4-1", {"nvidia.com/gpu.product": "Tesla-T4"}, **{"nvidia.com/gpu": "1"})
Resources = dict[str, dict[str, Any]]

cpus = st.none() | st.integers(0, 64_000).map(lambda millis: millis / 1000) | st.floats(0, 128, allow_nan=False)
sizes = st.none() | st.integers(0, 256).map(lambda gib: gib * GIB) | st.integers(0, 2**38)
own_traits = st.fixed_dictionaries(
    {"cpu_limit": cpus, "cpu_guarantee": cpus, "mem_limit": sizes, "mem_guarantee": sizes}
)
catalogs = st.sampled_from(["known", "unknown"])


def catalog_of(traits: dict[str, Any], *, nodes: list[dict[str, Any]] | None) -> Catalog:
    """Return what a hub without settings offers."""
    found = None if nodes is None else tuple(filter(None, map(decode_node, nodes)))
    return assemble_catalog(
        ConfiguredCatalog(),
        Inventory(nodes=found),
        table=AcceleratorTable(),
        fallback_image="a/b",
        own=read_own_resources(PodBuilder(traits).trait_overrides),
    )


def resources_of(traits: dict[str, Any], choice: PodChoice | None = None) -> Resources:
    """Return the resources of the notebook's container as KubeSpawner sends them, with a choice in them if any."""
    builder = PodBuilder(traits)
    if choice is not None:
        apply_choice(builder, choice)
    found = builder.build().spec.containers[0].resources
    return {"limits": found.limits, "requests": found.requests}


def resources_with(options: object, catalog: Catalog, traits: dict[str, Any]) -> Resources:
    return resources_of(traits, PodChoice(placement=place(validate(options, catalog), catalog)))


@given(traits=own_traits, cluster=catalogs)
def test_who_chooses_nothing_gets_what_kubespawner_gives(traits: dict[str, Any], cluster: str):
    catalog = catalog_of(traits, nodes=[CPU_NODE] if cluster == "known" else None)
    assert resources_with({}, catalog, traits) == resources_of(traits)


@given(traits=own_traits)
def test_the_form_that_is_sent_as_it_opened_gets_the_same(traits: dict[str, Any]):
    catalog = catalog_of(traits, nodes=[CPU_NODE])
    values, _ = restore_fields(None, catalog)
    shown = {name: [values[name]] for name in ("image", "cpu", "memory", "gpu")}
    assert resources_with(parse_form(shown), catalog, traits) == resources_of(traits)


@given(traits=own_traits)
def test_stored_defaults_follow_a_hook_that_gives_other_amounts(traits: dict[str, Any]):
    catalog = catalog_of(traits, nodes=[CPU_NODE])
    stored = build_options(validate({}, catalog), catalog)
    hooked = {**traits, "cpu_limit": 3.0, "mem_limit": 5 * GIB, "mem_guarantee": GIB}
    assert resources_with(stored, catalog_of(hooked, nodes=[CPU_NODE]), hooked) == resources_of(hooked)


@given(traits=own_traits, data=st.data())
def test_a_chosen_limit_keeps_kubespawners_guarantee(traits: dict[str, Any], data: st.DataObject):
    catalog = catalog_of(traits, nodes=[CPU_NODE])
    bounds = catalog.memory
    assert bounds is not None
    chosen = bounds.min + data.draw(st.integers(0, (bounds.max - bounds.min) // bounds.step)) * bounds.step
    found = resources_with({"memory": f"{chosen}B"}, catalog, traits)
    assert found["limits"]["memory"] == chosen
    if traits["mem_guarantee"]:
        expected = traits["mem_guarantee"] if chosen == traits["mem_limit"] else min(traits["mem_guarantee"], chosen)
        assert found["requests"]["memory"] == expected


@pytest.mark.parametrize(
    "traits",
    [
        pytest.param({}, id="KubeSpawner's defaults"),
        pytest.param({"mem_guarantee": "1G"}, id="the chart's default"),
        pytest.param({"cpu_limit": 0.25, "mem_limit": "500M"}, id="below the least step"),
        pytest.param({"cpu_limit": 1.2, "cpu_guarantee": 0.1, "mem_limit": "3.3G"}, id="between two steps"),
        pytest.param({"cpu_limit": 64, "mem_limit": "1T"}, id="above the largest node"),
    ],
)
async def test_with_only_the_class_changed_the_pod_has_the_same_resources(
    make_spawner: MakeSpawner, traits: dict[str, Any]
):
    ours = make_spawner(settings={}, kubespawner=traits)
    expected = await plain_pod(ours, traits)
    (container,) = (await pod_of(ours, {}))["spec"]["containers"]
    assert container["resources"] == expected["spec"]["containers"][0]["resources"]


async def test_amounts_of_a_hook_hold_for_who_chose_nothing(make_spawner: MakeSpawner):
    def give_more(spawner: Any) -> None:
        spawner.mem_limit = 8 * GIB

    spawner = make_spawner(settings={}, kubespawner={"mem_limit": "2G", "pre_spawn_hook": give_more})
    spawner.user_options = await spawner._read_form({"image": ["default"], "memory": ["2"]})
    await begin(spawner, spawner.user_options)
    assert spawner.mem_limit == 8 * GIB


async def test_settings_replace_only_their_own_amount(make_spawner: MakeSpawner):
    settings = {"cpu": {"max": 8, "default": 4}}
    spawner = make_spawner(settings=settings, kubespawner={"cpu_limit": 1, "mem_limit": "3G", "mem_guarantee": "1G"})
    (container,) = (await pod_of(spawner, {}))["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"cpu": 4.0, "memory": 3 * GIB},
        "requests": {"cpu": 2.0, "memory": GIB},
    }


async def test_a_rule_caps_who_would_have_no_limit(make_spawner: MakeSpawner):
    settings = {"policy": {"default": {"cpu": {"max": 1}, "memory": {"max": "1024G"}}}}
    (container,) = (await pod_of(make_spawner(settings=settings), {}))["spec"]["containers"]
    # The largest node has less than the rule allows, and a larger one may join.
    assert container["resources"]["limits"] == {"cpu": 1.0, "memory": 8 * GIB}


@pytest.mark.parametrize(
    ("traits", "expected"),
    [
        ({"cpu_limit": 1}, {"limits": {"cpu": 1.0}, "requests": {}}),
        ({"cpu_limit": 1, "cpu_guarantee": 0.1}, {"limits": {"cpu": 1.0}, "requests": {"cpu": 0.1}}),
        ({"cpu_limit": 4, "cpu_guarantee": 0.1}, {"limits": {"cpu": 2.0}, "requests": {"cpu": 0.1}}),
        ({}, {"limits": {"cpu": 2.0}, "requests": {"cpu": 1.0}}),
    ],
    ids=["a limit", "a limit and a guarantee", "a limit above the rule's", "no limit"],
)
async def test_a_rule_raises_no_limit_while_no_node_is_known(
    make_spawner: MakeSpawner, server: WatchServer, traits: dict[str, Any], expected: dict[str, Any]
):
    server.status[NODES] = 403
    spawner = make_spawner(settings={"policy": {"default": {"cpu": {"max": 2}}}}, kubespawner=traits)
    (container,) = (await pod_of(spawner, {}))["spec"]["containers"]
    assert container["resources"] == expected


# -- GPUs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "options", "expected"),
    [
        pytest.param({"nvidia.com/gpu": "1"}, {}, "1", id="who chooses nothing"),
        pytest.param({"nvidia.com/gpu": 2}, {}, "2", id="a number"),
        pytest.param({"nvidia.com/gpu": "1"}, {"gpu_count": 3}, "3", id="another count"),
        pytest.param({"nvidia.com/gpu": "1"}, {"gpu": None}, None, id="no GPU chosen"),
        pytest.param({"nvidia.com/gpu": "1"}, {"gpu_count": 0}, None, id="no GPUs"),
        pytest.param({"nvidia.com/gpu": "9"}, {}, None, id="more than any node has"),
        pytest.param({"nvidia.com/gpu": "0"}, {}, None, id="none"),
        pytest.param({"amd.com/gpu": "1"}, {}, None, id="of no type that is there"),
    ],
)
async def test_kubespawners_gpus_are_the_default_choice(
    make_spawner: MakeSpawner, limits: dict[str, Any], options: dict[str, Any], expected: str | None
):
    spawner = make_spawner(settings={}, kubespawner={"extra_resource_limits": limits})
    (container,) = (await pod_of(spawner, options))["spec"]["containers"]
    assert container["resources"].get("limits", {}).get("nvidia.com/gpu") == expected
    assert "amd.com/gpu" not in container["resources"].get("limits", {})


async def test_the_form_opens_with_kubespawners_gpus(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={}, kubespawner={"extra_resource_limits": {"nvidia.com/gpu": "2"}})
    values, _ = restore_fields(None, (await spawner.make_offer()).catalog)
    assert (values["gpu"], values["gpu_count"]) == ("a100-80gb", "2")


async def test_a_node_selector_picks_the_type_of_kubespawners_gpus(make_spawner: MakeSpawner, server: WatchServer):
    server.put(NODES, T4_NODE)
    selector = {"nvidia.com/gpu.product": "Tesla-T4"}
    traits = {"extra_resource_limits": {"nvidia.com/gpu": "1"}, "node_selector": selector}
    pod = await pod_of(make_spawner(settings={}, kubespawner=traits), {})
    assert pod["spec"]["nodeSelector"] == selector
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}


async def test_an_image_that_uses_no_gpu_gets_none_of_kubespawners(make_spawner: MakeSpawner):
    images = {"lab": {"image": "a/b:1"}, "plain": {"image": "a/c:1", "vendors": []}}
    spawner = make_spawner(
        settings={**SETTINGS, "images": images}, kubespawner={"extra_resource_limits": {"nvidia.com/gpu": "1"}}
    )
    for image, expected in (("lab", "1"), ("plain", None)):
        (container,) = (await pod_of(spawner, {"image": image}))["spec"]["containers"]
        assert container["resources"]["limits"].get("nvidia.com/gpu") == expected


async def test_an_image_named_by_its_reference_gets_none_either_if_the_settings_say_so(make_spawner: MakeSpawner):
    settings = {"images": {"plain": {"image": "a/c:1", "vendors": []}}, "custom_images": {"allowed": True}}
    spawner = make_spawner(settings=settings, kubespawner={"extra_resource_limits": {"nvidia.com/gpu": "1"}})
    for image, expected in (("a/b:1", "1"), ("a/c:1", None)):
        (container,) = (await pod_of(spawner, {"custom_image": image}))["spec"]["containers"]
        assert container["resources"].get("limits", {}).get("nvidia.com/gpu") == expected


async def test_a_rule_keeps_kubespawners_gpus_from_who_may_have_none(make_spawner: MakeSpawner):
    settings = {"policy": {"default": {"max_gpus": 0}}}
    spawner = make_spawner(settings=settings, kubespawner={"extra_resource_limits": {"nvidia.com/gpu": "1"}})
    (container,) = (await pod_of(spawner, {}))["spec"]["containers"]
    assert "nvidia.com/gpu" not in container["resources"].get("limits", {})


def test_gpus_of_no_type_are_dropped():
    traits = {"extra_resource_limits": {"nvidia.com/gpu": "1", "amd.com/gpu": "1", "acme.com/nic": "1"}}
    catalog = catalog_of(traits, nodes=[CPU_NODE, GPU_NODE])
    assert catalog.dropped_gpus == {"amd.com/gpu": 1}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("1G", GIB, id="a text of JupyterHub"),
        pytest.param(GIB, GIB, id="bytes"),
        pytest.param(0, None, id="zero is not set"),
        pytest.param(-1, None, id="what Kubernetes refuses"),
        pytest.param([], None, id="a wrong type"),
    ],
)
def test_own_amounts_are_read_as_kubespawner_takes_them(value: Any, expected: int | None):
    traits = {**dict.fromkeys(OWN_RESOURCE_TRAITS), "mem_limit": value}
    assert read_own_resources(traits).memory == OwnAmount(limit=expected)


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_own_tolerations_are_read_as_kubernetes_takes_them(kind: str):
    entries = [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}, {"key": "b", "value": "x"}, "no mapping"]
    trait = entries if kind == "list" else {str(index): entry for index, entry in enumerate(entries)}
    assert parse_admin_tolerations(trait) == (
        Toleration(key="a", operator="Exists", effect="NoSchedule"),
        Toleration(key="b", operator="Equal", value="x"),
    )


@pytest.mark.parametrize("trait", [None, [], {}], ids=str)
def test_without_own_tolerations_there_are_none(trait: Any):
    assert parse_admin_tolerations(trait) == ()
