from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.values.chart_config import (
    build_spawner_config,
    find_chart_path,
    find_hub_account,
    get_configured_trait,
    list_omissions,
)
from gpuspawner.core.errors import SettingsError

PURPOSE = {"matchExpressions": [{"key": "hub.jupyter.org/node-purpose", "operator": "In", "values": ["user"]}]}
REACHES_HUB = "hub.jupyter.org/network-access-hub"
OTHER = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def said(values: dict[str, Any], trait: str) -> Any:
    return get_configured_trait(build_spawner_config(values, namespace="jhub"), trait)


def test_what_the_chart_says_by_itself_holds_without_any_values():
    assert [each["key"] for each in said({}, "tolerations")] == [
        "hub.jupyter.org/dedicated",
        "hub.jupyter.org_dedicated",
    ]
    assert said({}, "mem_guarantee") == "1G"
    assert said({}, "node_affinity_preferred") == [{"weight": 100, "preference": PURPOSE}]
    assert (said({}, "namespace"), said({}, "image")) == ("jhub", None)
    assert (said({}, "cmd"), said({}, "start_timeout")) == ("jupyterhub-singleuser", 300)
    assert said({}, "extra_labels") == {REACHES_HUB: "true"}


@pytest.mark.parametrize(
    ("singleuser", "trait", "value"),
    [
        ({"nodeSelector": {"pool": "a"}}, "node_selector", {"pool": "a"}),
        ({"memory": {"guarantee": "2G"}}, "mem_guarantee", "2G"),
        ({"cpu": {"limit": 2}}, "cpu_limit", 2),
        ({"extraResource": {"limits": {"x/y": "1"}}}, "extra_resource_limits", {"x/y": "1"}),
        ({"image": {"name": "a/b", "tag": "1"}}, "image", "a/b:1"),
        ({"image": {"name": "a/b"}}, "image", "a/b"),
        ({"image": {"tag": "5.0.0"}}, "image", "quay.io/jupyterhub/k8s-singleuser-sample:5.0.0"),
        ({"image": {"pullSecrets": ["a", {"name": "b"}]}}, "image_pull_secrets", ["a", {"name": "b"}]),
        ({"defaultUrl": "/lab"}, "default_url", "/lab"),
        ({"cmd": ["start.sh"]}, "cmd", ["start.sh"]),
        ({"storage": {"extraVolumes": [{"name": "shm"}]}}, "volumes", [{"name": "shm"}]),
        ({"storage": {"extraVolumeMounts": {"a": {"name": "shm"}}}}, "volume_mounts", {"a": {"name": "shm"}}),
        ({"uid": 0}, "uid", 0),
    ],
)
def test_what_values_say_of_users_servers_becomes_the_spawners(singleuser: dict[str, Any], trait: str, value: object):
    assert said({"singleuser": singleuser}, trait) == value


@pytest.mark.parametrize(
    ("values", "trait", "value"),
    [
        ({"singleuser": {"memory": {"guarantee": None}}}, "mem_guarantee", None),
        ({"singleuser": {"memory": None}}, "mem_guarantee", None),
        ({"singleuser": {"memory": {}}}, "mem_guarantee", "1G"),
        ({"singleuser": {"uid": None}}, "uid", None),
        ({"singleuser": {"cmd": None}}, "cmd", None),
        (
            {"singleuser": {"extraLabels": {"hub.jupyter.org/network-access-hub": None, "a": "b"}}},
            "extra_labels",
            {"a": "b"},
        ),
        ({"singleuser": {"extraLabels": None}}, "extra_labels", None),
        ({"singleuser": {"fsGid": None}}, "fs_gid", None),
        ({"singleuser": {"allowPrivilegeEscalation": None}}, "allow_privilege_escalation", None),
        ({"scheduling": {"userPods": {"tolerations": None}}}, "tolerations", None),
        (
            {"scheduling": {"userPods": {"nodeAffinity": {"matchNodePurpose": None}}}},
            "node_affinity_preferred",
            [],
        ),
    ],
)
def test_null_takes_a_default_of_the_chart_away(values: dict[str, Any], trait: str, value: object):
    assert said(values, trait) == value


def test_omitted_values_have_an_order():
    values = {
        "imagePullSecret": {"create": True},
        "debug": {"enabled": True},
        "singleuser": {"image": {"name": "a/b"}, "extraFiles": {"a": {}}},
    }
    assert list(list_omissions(values))[-4:] == [
        "The tag that the chart puts behind singleuser.image.name is left out: its own version.",
        "The secret that the chart makes to pull images with is left out (imagePullSecret).",
        "What has servers say more in their logs is left out (debug.enabled).",
        "Files are left out (singleuser.extraFiles).",
    ]


def test_what_null_has_taken_away_is_not_named_as_left_out():
    values = {
        "singleuser": {"storage": {"type": None}, "cloudMetadata": {"blockWithIptables": None}},
        "scheduling": {"userScheduler": {"enabled": None}},
    }
    assert list(list_omissions(values)) == ["Addresses, tokens and labels are left out that only a running hub knows."]


@pytest.mark.parametrize(
    ("how", "required", "preferred"),
    [
        ("require", [OTHER, PURPOSE], []),
        ("prefer", [OTHER], [{"weight": 100, "preference": PURPOSE}]),
        ("ignore", [OTHER], []),
    ],
)
def test_the_purpose_of_nodes_stands_beside_the_admins_own_affinity(
    how: str, required: list[Any], preferred: list[Any]
):
    values = {
        "scheduling": {"userPods": {"nodeAffinity": {"matchNodePurpose": how}}},
        "singleuser": {"extraNodeAffinity": {"required": [OTHER]}},
    }
    assert said(values, "node_affinity_required") == required
    assert said(values, "node_affinity_preferred") == preferred


def test_a_section_of_the_hubs_configuration_has_the_last_word_and_the_nearest_class_of_them():
    values = {
        "singleuser": {"cpu": {"limit": 1}},
        "hub": {"config": {"KubeSpawner": {"cpu_limit": 2, "image": "k"}, "GPUSpawner": {"image": "g"}}},
    }
    assert (said(values, "cpu_limit"), said(values, "image")) == (2, "g")


BASE = {"start_timeout": 900, "environment": {"A": "1"}, "tolerations": [], "mem_limit": "4G", "cmd": ["own"]}


@pytest.mark.parametrize(
    ("trait", "value"),
    [("start_timeout", 300), ("environment", {}), ("mem_limit", "4G"), ("cmd", ["own"])],
)
def test_what_the_chart_says_of_kubespawner_takes_the_place_of_a_section_of_its_base_class(trait: str, value: object):
    assert said({"hub": {"config": {"Spawner": BASE}}}, trait) == value


def test_a_default_of_the_chart_that_is_taken_away_leaves_the_base_class_its_say():
    values = {"singleuser": {"startTimeout": None}, "hub": {"config": {"Spawner": BASE}}}
    assert said(values, "start_timeout") == 900


@pytest.mark.parametrize(
    ("values", "trait", "path"),
    [
        ({}, "start_timeout", "singleuser.startTimeout"),
        ({"singleuser": {"startTimeout": None}}, "start_timeout", ""),
        ({}, "mem_limit", ""),
        ({"singleuser": {"memory": {"limit": "1G"}}}, "mem_limit", "singleuser.memory.limit"),
        ({}, "tolerations", "singleuser.extraTolerations"),
        ({"scheduling": {"userPods": {"tolerations": []}}}, "tolerations", ""),
        ({}, "cmd", ""),
        ({}, "http_timeout", ""),
    ],
)
def test_it_is_known_by_which_value_the_chart_sets_a_trait(values: dict[str, Any], trait: str, path: str):
    assert find_chart_path(values, trait) == path


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "hub"),
        ({"fullnameOverride": "lab"}, "lab-hub"),
        ({"fullnameOverride": ""}, "hub"),
        ({"fullnameOverride": None}, "hub"),
        ({"fullnameOverride": "lab", "hub": {"serviceAccount": {"name": "own"}}}, "own"),
        ({"fullnameOverride": "lab", "hub": {"serviceAccount": {"create": False}}}, "default"),
        ({"hub": {"serviceAccount": {"create": False, "name": "own"}}}, "own"),
        ({"hub": {"serviceAccount": {"create": True}}}, "hub"),
    ],
)
def test_the_hubs_account_is_called_as_the_chart_calls_it(values: dict[str, Any], name: str):
    assert find_hub_account(values) == name


def test_values_are_not_changed_by_what_is_made_of_them():
    build_spawner_config({}, namespace="a").KubeSpawner.environment["A"] = "1"
    assert said({}, "environment") == {}


def test_servers_are_called_after_the_chart_or_what_stands_for_its_name():
    assert said({}, "common_labels")["app"] == "jupyterhub"
    assert said({"nameOverride": "lab"}, "common_labels") == {
        "app": "lab",
        "app.kubernetes.io/name": "lab",
        "app.kubernetes.io/managed-by": "kubespawner",
    }


def test_values_that_are_not_carried_over_are_named():
    told = list(
        list_omissions({"hub": {"extraConfig": {"a": "c.x = 1"}, "config": {"JupyterHub": {"spawner_class": "kube"}}}})
    )
    assert [each for each in told if "extraConfig" in each or "kube," in each] == [
        "Python is not run (hub.extraConfig): what it sets, and its hooks, are left out.",
        "The hub starts servers with kube, which is not asked here.",
    ]


def test_nothing_else_is_named_where_all_is_carried_over():
    values = {
        "singleuser": {"storage": {"type": "none"}, "cloudMetadata": {"blockWithIptables": False}},
        "scheduling": {"userScheduler": {"enabled": False}},
        "hub": {"config": {"JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"}}},
    }
    assert list(list_omissions(values)) == ["Addresses, tokens and labels are left out that only a running hub knows."]


@pytest.mark.parametrize("section", ["GPUSpawner", "KubeSpawner"])
def test_files_that_are_on_the_hub_are_named_and_not_read(section: str):
    values = {"hub": {"config": {section: {"settings_files": ["/etc/gpuspawner"]}}}}
    assert said(values, "settings_files") is None
    assert [each for each in list_omissions(values) if "settings_files" in each] == [
        "Settings in files on the hub are not read (settings_files): name them with -f, as Helm values."
    ]


@pytest.mark.parametrize("strange", [{"hub": []}, {"hub": {"config": {"GPUSpawner": "x"}}}, {"singleuser": None}])
def test_what_others_refuse_says_nothing(strange: dict[str, Any]):
    assert said(strange, "default_url") is None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"singleuser": {"extraTolerations": 3}}, "singleuser.extraTolerations"),
        ({"scheduling": {"userPods": {"tolerations": "x"}}}, "scheduling.userPods.tolerations"),
        ({"singleuser": {"extraNodeAffinity": {"required": {}}}}, "singleuser.extraNodeAffinity.required"),
        ({"singleuser": {"extraNodeAffinity": {"preferred": [3]}}}, "singleuser.extraNodeAffinity.preferred.0"),
        ({"singleuser": {"extraTolerations": ["x"]}}, "singleuser.extraTolerations.0"),
        ({"singleuser": {"extraTolerations": [{"key": []}]}}, "singleuser.extraTolerations.0.key"),
        ({"hub": {"config": {"Spawner": {"tolerations": {"a": 3}}}}}, "hub.config.Spawner.tolerations.a"),
        ({"hub": {"config": {"KubeSpawner": {"tolerations": 3}}}}, "hub.config.KubeSpawner.tolerations"),
        ({"hub": {"config": {"GPUSpawner": {"image": 3}}}}, "hub.config.GPUSpawner.image"),
    ],
)
def test_values_of_the_wrong_type_are_refused_by_their_path(values: dict[str, Any], field: str):
    with pytest.raises(SettingsError) as refused:
        build_spawner_config(values, namespace="jhub")
    assert refused.value.field == field
