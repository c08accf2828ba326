"""The judged pod of a fixed preset is the pod that a start creates: with the override of each layer."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.request.pod_requirements import place
from gpuspawner.core.request.selection import validate
from gpuspawner.hub.pod.patch import PodChoice, apply_choice, list_gpu_resources
from gpuspawner.hub.pod.preview import PodPreviews, serialize_pod
from tests.unit.hub.conftest import SETTINGS, MakeSpawner

IN_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
SIDE = {"name": "side", "image": "x", "resources": {"requests": {"cpu": "250m", "nvidia.com/gpu": "1"}}}
OVERRIDES: dict[str, dict[str, Any]] = {
    "selector": {"node_selector": {"pool": "course"}},
    "affinity": {"node_affinity_required": [IN_ZONE]},
    "tolerations": {"tolerations": [{"key": "course", "operator": "Exists"}]},
    "pod": {"extra_pod_config": {"nodeSelector": {"a": "b"}, "runtimeClassName": "other"}},
    "containers": {"extra_containers": [SIDE], "init_containers": [SIDE]},
    "resources": {"extra_resource_limits": {"rdma/hca": "1"}, "extra_resource_guarantees": {"rdma/hca": "1"}},
    "container": {"extra_container_config": {"resources": {"requests": {"ephemeral-storage": "1Gi"}}}},
    "volumes": {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "claim-{username}"}}]},
    "traits without an effect": {"default_url": "/lab", "environment": {"A": "b"}, "start_timeout": 5},
}
AMOUNTS = {"cpu_limit": 3, "cpu_guarantee": 1, "mem_limit": "3G", "mem_guarantee": "1G"}


def settings(**presets: Any) -> dict[str, Any]:
    return {**SETTINGS, "presets": presets}


@pytest.mark.parametrize("override", [pytest.param(each, id=name) for name, each in OVERRIDES.items()])
@pytest.mark.parametrize("layer", ["image", "gpu", "preset", "entry"])
@pytest.mark.parametrize("admins", [{}, AMOUNTS], ids=["no amounts", "own amounts"])
async def test_it_is_the_pod_that_the_traits_make(
    make_spawner: MakeSpawner, override: dict[str, Any], layer: str, admins: dict[str, Any]
):
    laid = {"kubespawner_override": override}
    entry = {"memory": "unlimited", "cpu": 4, "cpu_guarantee": 0.1, **(laid if layer == "entry" else {})}
    values = {"image": "pytorch", "gpu": "a100", "gpu_count": 2, "choices": {"size": {"entries": {"s": entry}}}}
    changed = settings(p={**values, **(laid if layer == "preset" else {})})
    if layer in ("image", "gpu"):
        section, slug = {"image": ("images", "pytorch"), "gpu": ("gpus", "a100")}[layer]
        changed[section] = {**SETTINGS[section], slug: {**SETTINGS[section][slug], **laid}}
    spawner = make_spawner(settings=changed, kubespawner=admins)
    previews = PodPreviews(spawner, await spawner.make_offer())
    catalog = previews.offer.catalog
    selection = validate({"preset": "p"}, catalog)
    await previews.prepare(selection)
    chosen = PodChoice(placement=place(selection, catalog), resources=list_gpu_resources(catalog))
    apply_choice(spawner, chosen)
    manifest = serialize_pod(spawner, await spawner.get_pod_manifest())
    pod = previews.find_pod(selection)
    assert pod is not None
    assert pod == await previews.offer.add_volume_topology(manifest, new_claims={})


async def test_each_combination_has_a_pod_of_its_own(make_spawner: MakeSpawner):
    sizes = {slug: {"kubespawner_override": {"node_selector": {"size": slug}}} for slug in ("small", "large")}
    images = {**SETTINGS["images"], "p": {"image": "x", "kubespawner_override": {"node_selector": {"image": "p"}}}}
    field = {"kubespawner_override": {"node_selector": {"size": "own"}}}
    size = {"entries": sizes, "custom_image": field}
    changed = settings(p={"image": "minimal", "choices": {"size": size}}, q={"kubespawner_override": {"uid": 1}})
    spawner = make_spawner(settings={**changed, "images": images})
    previews = PodPreviews(spawner, await spawner.make_offer())
    found = []
    for options in (
        {"preset": "p"},
        {"preset": "p", "preset_choices": {"size": "large"}},
        {"preset": "p", "custom_image": "acme/own:1"},
        {"preset": "q", "preset_choices": {}},
        {"image": "p"},
        {"image": "minimal"},
    ):
        selection = validate(options, previews.offer.catalog)
        await previews.prepare(selection)
        pod = previews.find_pod(selection)
        assert pod is not None
        found.append(pod.constraints.node_selector)
    assert found == [{"size": "small"}, {"size": "large"}, {"size": "own"}, {}, {"image": "p"}, {}]


async def test_the_claim_that_a_start_creates_is_that_of_the_override(
    make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch
):
    override = {"storage_pvc_ensure": True, "storage_class": "fast", "storage_capacity": "1Gi"}
    spawner = make_spawner(settings=settings(p={"kubespawner_override": override}))
    previews = PodPreviews(spawner, await spawner.make_offer())
    seen: list[dict[str, str | None]] = []
    original = type(previews.offer).add_volume_topology

    async def noted(offer: Any, manifest: Any, *, new_claims: Any) -> Any:
        seen.append(new_claims)
        return await original(offer, manifest, new_claims=new_claims)

    monkeypatch.setattr(type(previews.offer), "add_volume_topology", noted)
    for options in ({"preset": "p"}, {"image": "minimal"}):
        await previews.prepare(validate(options, previews.offer.catalog))
    assert seen == [{spawner.pvc_name: "fast"}, {}]


async def test_an_unlimited_amount_reserves_its_guarantee(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=settings(p={"cpu": "unlimited", "cpu_guarantee": 0.124, "memory": "unlimited"}))
    previews = PodPreviews(spawner, await spawner.make_offer())
    selection = validate({"preset": "p"}, previews.offer.catalog)
    await previews.prepare(selection)
    pod = previews.find_pod(selection)
    assert pod is not None
    assert {name: pod.requests.get(name, 0) for name in ("cpu", "memory")} == {"cpu": 124, "memory": 0}


async def test_a_look_at_a_preset_changes_no_trait_of_the_spawner(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=settings(p={"kubespawner_override": {"node_selector": {"a": "b"}, "uid": 7}}))
    previews = PodPreviews(spawner, await spawner.make_offer())
    await previews.prepare(validate({"preset": "p"}, previews.offer.catalog))
    assert (spawner.node_selector, spawner.uid) == ({}, None)
