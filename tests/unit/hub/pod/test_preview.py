"""The pod a choice would become: as KubeSpawner writes it, with everything the admin has set, and created nowhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kubernetes_asyncio.client import V1NodeSelectorRequirement, V1NodeSelectorTerm

from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.request.pod_requirements import place
from gpuspawner.core.request.selection import Selection, validate
from gpuspawner.hub.pod.patch import PodChoice, apply_choice, list_gpu_resources
from gpuspawner.hub.pod.preview import PodPreviews, copy_spawner, serialize_pod
from tests.unit.hub.conftest import A100, SETTINGS, MakeSpawner

ADMINS: dict[str, Any] = {
    "node_selector": {"pool": "users"},
    "tolerations": [{"key": "users", "operator": "Exists", "effect": "NoSchedule"}],
    "extra_containers": [{"name": "side", "image": "x", "resources": {"requests": {"cpu": "500m"}}}],
    "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "claim-{username}"}}],
}

TOLERATION = {"key": "users", "operator": "Exists", "effect": "NoSchedule"}
IN_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
TERM_AS_MODEL = V1NodeSelectorTerm(match_expressions=[V1NodeSelectorRequirement(key="zone", operator="Exists")])
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [IN_ZONE]}}


async def previews(spawner: Any, options: dict[str, Any], *more_types: str) -> tuple[PodPreviews, Selection]:
    found = PodPreviews(spawner, await spawner.make_offer())
    selection = validate(options, found.offer.catalog)
    await found.prepare(selection, more_types=more_types)
    return found, selection


@pytest.mark.parametrize(("asked", "priority"), [({}, 100), ({"priority": "low"}, -10)])
async def test_it_waits_in_line_by_the_priority_that_was_picked(
    make_spawner: MakeSpawner, asked: dict[str, Any], priority: int
):
    ranks = {"normal": {"class": "site-normal", "value": 100}, "low": {"class": "site-low", "value": -10}}
    found, selection = await previews(make_spawner(settings={**SETTINGS, "priorities": ranks}), asked)
    pods = [found.find_pod(each) for each in (selection, replace(selection, choices={}))]
    assert (pods[0] and pods[0].priority, pods[1]) == (priority, None)


async def test_it_has_what_the_choice_and_the_admin_demand(make_spawner: MakeSpawner):
    found, selection = await previews(make_spawner(kubespawner=ADMINS), {"gpu": "a100", "gpu_count": 2, "cpu": 4})
    pod = found.find_pod(selection)
    assert pod is not None
    assert pod.constraints.node_selector == {"pool": "users", "nvidia.com/gpu.product": A100}
    assert Toleration(key="users", operator="Exists", effect="NoSchedule") in pod.constraints.tolerations
    # Half of 4 CPUs is guaranteed, and the admin's other container has its own.
    assert (pod.requests["nvidia.com/gpu"], pod.requests["cpu"]) == (2, 2500)


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param({"gpu": "a100", "gpu_count": 2, "cpu": 4}, id="selector"),
        pytest.param({"gpu": "mi210", "gpu_count": 1, "image": "minimal"}, id="expressions"),
        pytest.param({"image": "minimal", "memory": "1G"}, id="no gpu"),
    ],
)
@pytest.mark.parametrize(
    "admins",
    [
        pytest.param({}, id="nothing"),
        pytest.param(ADMINS, id="traits"),
        pytest.param({"node_affinity_required": [IN_ZONE, {}]}, id="terms"),
        pytest.param({"node_affinity_required": {"a": IN_ZONE}, "tolerations": {"a": TOLERATION}}, id="dicts"),
        pytest.param({"node_affinity_required": [TERM_AS_MODEL]}, id="models"),
        pytest.param({"extra_resource_limits": {"nvidia.com/gpu": "7", "x/y": "1"}}, id="resources"),
        pytest.param({"extra_container_config": {"resources": {"requests": {"cpu": "9"}}}}, id="container"),
        pytest.param({"extra_pod_config": {"nodeSelector": {"a": "b"}, "tolerations": [TOLERATION]}}, id="pod"),
        pytest.param({"extra_pod_config": {"affinity": {"nodeAffinity": REQUIRED}}}, id="affinity"),
        pytest.param({"extra_pod_config": {"node_selector": {"a": "{username}"}}}, id="python names"),
    ],
)
async def test_it_is_the_pod_that_the_traits_of_the_choice_make(
    make_spawner: MakeSpawner, admins: dict[str, Any], choice: dict[str, Any]
):
    spawner = make_spawner(kubespawner=admins)
    found, selection = await previews(spawner, choice)
    catalog = found.offer.catalog
    taken = PodChoice(placement=place(selection, catalog), resources=list_gpu_resources(catalog))
    apply_choice(spawner, taken)
    assert found.find_pod(selection) == await found.offer.add_volume_topology(
        serialize_pod(spawner, await spawner.get_pod_manifest())
    )


async def test_it_is_made_of_the_admins_values_while_a_choice_is_over_them(make_spawner: MakeSpawner):
    spawner = make_spawner(kubespawner=ADMINS)
    before, selection = await previews(spawner, {"image": "minimal"})
    spawner.user_options = {"gpu": "a100", "gpu_count": 2}
    await spawner.load_user_options()
    after, _ = await previews(spawner, {"image": "minimal"})
    assert after.find_pod(selection) == before.find_pod(selection)


async def test_other_amounts_take_no_other_manifest(make_spawner: MakeSpawner):
    found, selection = await previews(make_spawner(kubespawner=ADMINS), {"gpu": "a100", "gpu_count": 2, "cpu": 4})
    wanted = validate({"gpu": "a100", "gpu_count": 1, "cpu": 2, "memory": "1G"}, found.offer.catalog)
    changed, written = found.find_pod(wanted), (await previews(make_spawner(kubespawner=ADMINS), {}))[0]
    await written.prepare(wanted)
    assert selection != wanted
    assert changed == written.find_pod(wanted)


async def test_custom_images_need_one_manifest(make_spawner: MakeSpawner):
    settings = {**SETTINGS, "custom_images": {"allowed": True}}
    found, selection = await previews(make_spawner(settings=settings), {"custom_image": "quay.io/a", "gpu": "a100"})
    other = validate({"custom_image": "quay.io/b", "gpu": "a100"}, found.offer.catalog)
    assert found.find_pod(selection) is not None
    assert found.find_pod(other) == found.find_pod(selection)


async def test_a_listed_image_that_a_person_names_has_the_pod_of_its_entry(make_spawner: MakeSpawner):
    listed = {"arm": {"image": "quay.io/acme/arm:1", "architectures": ["arm64"]}}
    spawner = make_spawner(settings={**SETTINGS, "images": listed, "custom_images": {"allowed": True}})
    found, selection = await previews(spawner, {"custom_image": "quay.io/acme/arm:1", "gpu": "a100"})
    other = validate({"custom_image": "quay.io/acme/arm:2", "gpu": "a100"}, found.offer.catalog)
    await found.prepare(other)
    assert found.find_pod(selection) == found.find_pod(validate({"gpu": "a100"}, found.offer.catalog))
    assert found.find_pod(selection) != found.find_pod(other)


async def test_a_type_that_was_not_prepared_is_not_known(make_spawner: MakeSpawner):
    found, _ = await previews(make_spawner(), {"gpu": "a100", "gpu_count": 1, "image": "minimal"}, "mi210")
    catalog = found.offer.catalog
    assert found.find_pod(validate({"gpu": "mi210", "gpu_count": 1, "image": "minimal"}, catalog)) is not None
    assert found.find_pod(validate({"image": "minimal"}, catalog)) is None


async def test_nothing_of_one_type_is_left_in_the_next(make_spawner: MakeSpawner):
    spawner = make_spawner(kubespawner=ADMINS)
    found, _ = await previews(spawner, {"gpu": "a100", "gpu_count": 2, "image": "minimal"}, "mi210")
    wanted = validate({"gpu": "mi210", "gpu_count": 2, "image": "minimal"}, found.offer.catalog)
    alone = PodPreviews(spawner, found.offer)
    await alone.prepare(wanted)
    assert found.find_pod(wanted) == alone.find_pod(wanted)


HOME = {"storage_pvc_ensure": True, "storage_capacity": "1Gi", "pvc_name_template": "claim-ada"}


async def test_a_claim_that_does_not_exist_yet_demands_nothing(make_spawner: MakeSpawner, server: Any):
    spawner = make_spawner(kubespawner={**ADMINS, **HOME})
    server.status[f"/api/v1/namespaces/{spawner.namespace}/persistentvolumeclaims/claim-ada"] = 404
    found, selection = await previews(spawner, {})
    pod = found.find_pod(selection)
    assert pod is not None
    assert (pod.constraints.unread_claims, pod.constraints.undecided, pod.constraints.volume_terms) == ((), (), ())


async def test_a_claim_that_kubespawner_will_not_make_leaves_the_nodes_unknown(make_spawner: MakeSpawner, server: Any):
    spawner = make_spawner(kubespawner=ADMINS)
    server.status[f"/api/v1/namespaces/{spawner.namespace}/persistentvolumeclaims/claim-ada"] = 404
    found, selection = await previews(spawner, {})
    pod = found.find_pod(selection)
    assert pod is not None
    assert pod.constraints.undecided == ("a volume claim that does not exist",)


async def test_the_spawner_keeps_its_values(make_spawner: MakeSpawner):
    spawner = make_spawner(kubespawner=ADMINS)
    traits = ("image", "cpu_limit", "extra_resource_limits", "node_selector", "tolerations", "environment", "volumes")
    before = {name: getattr(spawner, name) for name in traits}
    await previews(spawner, {"gpu": "a100", "gpu_count": 2})
    assert {name: getattr(spawner, name) for name in traits} == before


async def test_a_twin_knows_the_admins_values_and_keeps_its_own(make_spawner: MakeSpawner):
    spawner = make_spawner(kubespawner={"node_selector": {"pool": "users"}})
    spawner.trait_overrides.assign({"node_selector": {"pool": "some"}})
    twin = copy_spawner(spawner)
    assert twin.node_selector == {"pool": "users"}
    twin.trait_overrides.assign({"node_selector": {"pool": "gpus"}})
    assert (twin.node_selector, twin.trait_overrides["node_selector"]) == ({"pool": "gpus"}, {"pool": "users"})
    assert spawner.node_selector == {"pool": "some"}


async def test_a_mount_that_only_a_hook_completes_leaves_the_pod_known(make_spawner: MakeSpawner):
    mount = {"name": "home", "mountPath": "/home", "subPath": "u/{name_of_the_hook}"}
    for mounts in ([mount], {"home": mount}):
        spawner = make_spawner(kubespawner={**ADMINS, "volume_mounts": mounts})
        found, selection = await previews(spawner, {"image": "minimal"})
        assert found.find_pod(selection) is not None
        assert spawner.volume_mounts == mounts
