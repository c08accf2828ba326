"""The notebook container gets the choice's amounts, GPUs, variables and volumes; no other container gets a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_asyncio.client import V1Container, V1EnvVar, V1ResourceRequirements, V1VolumeMount

from gpuspawner.core.catalog.model import NO_LIMIT, Catalog, GPUType, Image
from gpuspawner.core.request.pod_requirements import GPU_HIDING_ENVIRONMENT
from gpuspawner.hub.pod.patch import drop_gpu_resources, list_gpu_resources
from tests.unit.hub.pod.pods import UNCHOSEN, make_notebook, make_spec

OFFERED = frozenset({"example.com/gpu"})
CHOSEN = {"limits": {"cpu": 1.5, "memory": 8}, "requests": {"cpu": 0.75, "memory": 4}}

# -- resources ---------------------------------------------------------------------------------------------------------


def test_amounts_are_cores_and_bytes():
    assert make_notebook()["resources"] == CHOSEN


def test_an_amount_that_was_not_chosen_is_the_admins():
    found = make_notebook({"cpu_limit": 3.0, "mem_limit": 99}, cpu_limit_millis=None, memory_limit_bytes=None)
    assert found["resources"] == {"limits": {"cpu": 3.0, "memory": 99}, "requests": CHOSEN["requests"]}


def test_an_amount_without_a_limit_removes_the_admins():
    found = make_notebook({"cpu_limit": 3.0, "mem_limit": 99}, cpu_limit_millis=NO_LIMIT, memory_limit_bytes=NO_LIMIT)
    assert found["resources"] == {"limits": {}, "requests": CHOSEN["requests"]}


def test_the_number_of_an_offered_resource_is_the_users_choice_alone():
    admins = {
        "extra_resource_limits": {"example.com/gpu": "8", "example.com/fpga": "1"},
        "extra_resource_guarantees": {"example.com/gpu": "8"},
    }
    assert make_notebook(admins, resources=OFFERED, extended_resources={"example.com/gpu": 2})["resources"] == {
        "limits": {**CHOSEN["limits"], "example.com/fpga": "1", "example.com/gpu": "2"},
        "requests": CHOSEN["requests"],
    }


def test_a_gpu_of_the_admin_that_is_not_offered_is_not_in_the_pod():
    admins = {"extra_resource_limits": {"nvidia.com/gpu": "8"}, "extra_resource_guarantees": {"amd.com/gpu": "1"}}
    assert make_notebook(admins, resources=frozenset({"nvidia.com/mig-1g.5gb"}))["resources"] == CHOSEN


@pytest.mark.parametrize(
    "own",
    [
        {"limits": {"cpu": "9", "nvidia.com/gpu": "4", "example.com/gpu": "1", "example.com/fpga": "1"}},
        V1ResourceRequirements(limits={"cpu": "9", "example.com/fpga": "1", "amd.com/gpu": "1"}),
    ],
    ids=["JSON", "model"],
)
def test_the_choice_wins_in_resources_of_extra_container_config(own: Any):
    traits = {"extra_container_config": {"resources": own}, "extra_resource_limits": {"example.com/gone": "1"}}
    assert make_notebook(traits, resources=OFFERED, extended_resources={"nvidia.com/gpu": 2})["resources"] == {
        "limits": {**CHOSEN["limits"], "nvidia.com/gpu": "2", "example.com/fpga": "1"},
        "requests": CHOSEN["requests"],
    }


def test_without_a_gpu_resources_of_extra_container_config_have_none():
    own = {"limits": {"nvidia.com/gpu": "4"}, "requests": {"nvidia.com/gpu": "4"}}
    assert make_notebook({"extra_container_config": {"resources": own}})["resources"] == CHOSEN


@pytest.mark.parametrize("own", [{"limits": {"cpu": "9"}, "requests": {"cpu": "1"}, "claims": []}, None], ids=str)
def test_amounts_of_extra_container_config_stay_where_none_were_chosen(own: Any):
    found = make_notebook({"extra_container_config": {"resources": own}, "cpu_limit": 3}, **UNCHOSEN)
    assert found["resources"] == (own or {"limits": {}, "requests": {}})


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("example.com/fpga", True),
        ("nvidia.com/licence", True),
        ("example.com/gpu", False),
        ("nvidia.com/gpu", False),
        ("nvidia.com/mig-1g.5gb.shared", False),
        ("amd.com/gpu", False),
        ("gpu.intel.com/xe", False),
    ],
    ids=str,
)
def test_gpus_of_the_catalog_and_of_known_vendors_are_taken_out(name: str, stays: bool):
    assert drop_gpu_resources({name: "1"}, {"example.com/gpu"}) == ({name: "1"} if stays else {})
    assert drop_gpu_resources(None, {"example.com/gpu"}) == {}


def test_a_catalog_has_the_resources_of_all_its_types():
    image = Image(slug="a", display_name="A", image="a")
    offered, hidden = (
        GPUType(slug=slug, display_name=slug, resource=resource, vendor="nvidia")
        for slug, resource in (("a", "nvidia.com/gpu"), ("b", "example.com/gpu"))
    )
    catalog = Catalog(images={"a": image}, cpu=None, memory=None, gpus={"a": offered}, hidden=(hidden,))
    assert list_gpu_resources(catalog) == {"nvidia.com/gpu", "example.com/gpu"}


# -- other containers --------------------------------------------------------------------------------------------------

GPUS = {"nvidia.com/gpu": "1", "example.com/gpu": "1"}
SIDE = {"name": "side", "image": "x", "resources": {"limits": GPUS}}
ISOLATED = {
    "name": "side",
    "image": "x",
    "resources": {"limits": {}},
    "env": [{"name": name, "value": value} for name, value in GPU_HIDING_ENVIRONMENT.items()],
}
SIDE_MODEL = V1Container(name="side", image="x", resources=V1ResourceRequirements(limits=GPUS))


@pytest.mark.parametrize(
    ("traits", "field"),
    [
        pytest.param({"extra_containers": [SIDE]}, "containers", id="side container"),
        pytest.param({"init_containers": [SIDE]}, "initContainers", id="init container"),
        pytest.param({"extra_containers": [SIDE_MODEL]}, "containers", id="model"),
        pytest.param({"extra_pod_config": {"initContainers": [SIDE]}}, "initContainers", id="extra_pod_config"),
        pytest.param({"extra_pod_config": {"init_containers": [SIDE]}}, "initContainers", id="Python name"),
    ],
)
def test_containers_of_the_admin_get_no_gpus(traits: dict[str, Any], field: str):
    found = make_spec(traits, resources=OFFERED, extended_resources={"nvidia.com/gpu": 1})[field][-1]
    assert found == ISOLATED


def test_containers_of_the_admin_without_resources_get_none():
    (found,) = make_spec({"init_containers": [{"name": "init", "image": "x"}]})["initContainers"]
    assert found.keys() == {"name", "image", "env"}


# -- variables ---------------------------------------------------------------------------------------------------------


def read_environment(traits: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return {variable["name"]: variable.get("value") for variable in make_notebook(traits, **choice)["env"]}


SHOWN_MODEL = V1EnvVar(name="SHOWN", value="all")
DOORS = [
    pytest.param({"environment": {"A": "b", "SHOWN": "all"}}, id="environment"),
    pytest.param({"environment": {"A": "b", "x": {"name": "SHOWN", "value": "all"}}}, id="environment by key"),
    pytest.param(
        {"extra_container_config": {"env": [{"name": "A", "value": "b"}, {"name": "SHOWN", "value": "all"}]}},
        id="extra_container_config",
    ),
    pytest.param({"extra_container_config": {"env": [{"name": "A", "value": "b"}, SHOWN_MODEL]}}, id="model"),
]


@pytest.mark.parametrize("traits", DOORS)
def test_variables_that_must_not_be_there_are_taken_out_of_the_admins(traits: dict[str, Any]):
    assert read_environment(traits, removed_environment=("SHOWN",)) == {"A": "b"}


@pytest.mark.parametrize("traits", DOORS)
def test_variables_of_the_choice_replace_those_of_the_admin(traits: dict[str, Any]):
    variables = make_notebook(traits, environment={"SHOWN": "void"})["env"]
    assert sorted((variable["name"], variable["value"]) for variable in variables) == [("A", "b"), ("SHOWN", "void")]


@pytest.mark.parametrize("traits", DOORS)
def test_information_for_programs_replaces_no_variable_of_the_admin_or_of_the_choice(traits: dict[str, Any]):
    information = {"A": "told", "NEW": "told", "CHOSEN": "told"}
    found = read_environment(traits, information=information, environment={"CHOSEN": "c"})
    assert found == {"A": "b", "SHOWN": "all", "NEW": "told", "CHOSEN": "c"}


def test_a_variable_can_refer_to_one_of_the_other_side():
    traits = {"environment": {"OWN": "own", "OWN_GPU": "$(GPU)"}}
    variables = make_notebook(traits, environment={"OF_OWN": "$(OWN)"}, information={"GPU": "a100"})["env"]
    names = [variable["name"] for variable in variables]
    assert names.index("GPU") < names.index("OWN_GPU")
    assert names.index("OWN") < names.index("OF_OWN")


@pytest.mark.parametrize("traits", [{}, {"extra_container_config": {"envFrom": []}}], ids=["no trait", "envFrom"])
def test_a_container_without_variables_gets_those_of_the_choice(traits: dict[str, Any]):
    assert make_notebook(traits, environment={"A": "b"})["env"] == [{"name": "A", "value": "b"}]


# -- volumes -----------------------------------------------------------------------------------------------------------

SHM = {"name": "gpuspawner-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "5"}}
SHM_MOUNT = {"name": "gpuspawner-shm", "mountPath": "/dev/shm"}
OWN_SHM, OWN_MOUNT = {"name": "shm", "emptyDir": {}}, {"name": "shm", "mountPath": "/dev/shm"}
HOME, HOME_MOUNT = {"name": "home", "emptyDir": {}}, {"name": "home", "mountPath": "/home"}


def find_volumes(traits: dict[str, Any], **choice: Any) -> tuple[Any, Any]:
    """Return the volumes of a pod and the mounts of its notebook container."""
    spec = make_spec(traits, **choice)
    return spec["volumes"], spec["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    "traits",
    [
        pytest.param({"volumes": [HOME], "volume_mounts": [HOME_MOUNT]}, id="traits"),
        pytest.param(
            {"volumes": [HOME], "volume_mounts": [V1VolumeMount(name="home", mount_path="/home")]}, id="model"
        ),
        pytest.param(
            {
                "volume_mounts": [OWN_MOUNT],
                "extra_pod_config": {"volumes": [HOME]},
                "extra_container_config": {"volumeMounts": [HOME_MOUNT]},
            },
            id="extra config",
        ),
        pytest.param(
            {
                "volume_mounts": [OWN_MOUNT],
                "extra_pod_config": {"volumes": [HOME]},
                "extra_container_config": {"volume_mounts": [HOME_MOUNT]},
            },
            id="Python name",
        ),
    ],
)
def test_shared_memory_is_added_to_the_admins_volumes_and_mounts(traits: dict[str, Any]):
    assert find_volumes(traits, shm_bytes=5) == ([HOME, SHM], [HOME_MOUNT, SHM_MOUNT])


@pytest.mark.parametrize("mounts", [[], None], ids=str)
@pytest.mark.parametrize("name", ["volumeMounts", "volume_mounts"])
def test_shared_memory_reaches_a_container_whose_mounts_are_taken_away(name: str, mounts: Any):
    traits = {"volume_mounts": [OWN_MOUNT], "extra_container_config": {name: mounts}}
    assert find_volumes(traits, shm_bytes=5) == ([SHM], [SHM_MOUNT])


@pytest.mark.parametrize(
    "traits",
    [
        pytest.param({"volumes": [OWN_SHM], "volume_mounts": [OWN_MOUNT]}, id="traits"),
        pytest.param(
            {"volumes": [OWN_SHM], "volume_mounts": [{"name": "shm", "mount_path": "/dev/shm"}]}, id="Python name"
        ),
        pytest.param(
            {"volumes": [OWN_SHM], "volume_mounts": [V1VolumeMount(name="shm", mount_path="/dev/shm")]}, id="model"
        ),
        pytest.param(
            {"volumes": [OWN_SHM], "extra_container_config": {"volumeMounts": [OWN_MOUNT]}},
            id="extra_container_config",
        ),
        pytest.param(
            {"extra_pod_config": {"volumes": [OWN_SHM]}, "extra_container_config": {"volume_mounts": [OWN_MOUNT]}},
            id="extra config",
        ),
    ],
)
def test_an_admins_shared_memory_stays_the_only_one(traits: dict[str, Any]):
    assert find_volumes(traits, shm_bytes=5) == ([OWN_SHM], [OWN_MOUNT])


@pytest.mark.parametrize(
    "traits",
    [
        pytest.param({"volumes": [SHM]}, id="list"),
        pytest.param({"extra_pod_config": {"volumes": [SHM]}}, id="extra_pod_config"),
        pytest.param({"volumes": [SHM], "volume_mounts": [SHM_MOUNT]}, id="with its mount"),
    ],
)
def test_a_volume_that_the_admin_has_already_is_not_added_again(traits: dict[str, Any]):
    assert find_volumes(traits, shm_bytes=5) == ([SHM], [SHM_MOUNT])
