from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.values.chart_config import ChartRequirements, build_spawner_config, read_chart_requirements


def read(**values: Any) -> ChartRequirements:
    return read_chart_requirements(values, build_spawner_config(values, namespace="jhub"))


def test_without_a_word_the_chart_makes_claims_of_the_default_class():
    assert read() == ChartRequirements(wants_claims=True, database_class="")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"singleuser": {"storage": {"type": "none"}}}, ChartRequirements(database_class="")),
        (
            {"singleuser": {"storage": {"dynamic": {"storageClass": "fast"}}}},
            ChartRequirements(wants_claims=True, database_class="", storage_class="fast"),
        ),
        ({"hub": {"config": {"KubeSpawner": {"storage_pvc_ensure": False}}}}, ChartRequirements(database_class="")),
        (
            {"hub": {"config": {"GPUSpawner": {"storage_class": "own", "priority_class_name": "p"}}}},
            ChartRequirements(wants_claims=True, database_class="", storage_class="own", priority_class="p"),
        ),
        (
            {"hub": {"config": {"KubeSpawner": {"events_enabled": False}}}},
            ChartRequirements(wants_claims=True, database_class="", reads_events=False),
        ),
        (
            {"hub": {"config": {"KubeSpawner": {"enable_user_namespaces": True}}}},
            ChartRequirements(wants_claims=True, database_class="", has_user_namespaces=True),
        ),
    ],
)
def test_what_values_say_is_read(values: dict[str, Any], expected: ChartRequirements):
    assert read(**values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({}, "user-scheduler", id="the chart's own"),
        pytest.param({"fullnameOverride": "hub"}, "hub-user-scheduler", id="the chart's own with a prefix"),
        pytest.param(
            {"scheduling": {"userScheduler": {"enabled": False}}}, "default-scheduler", id="without the chart's own"
        ),
        pytest.param({"hub": {"config": {"KubeSpawner": {"scheduler_name": "site"}}}}, "site", id="a trait"),
        pytest.param({"singleuser": {"extraPodConfig": {"schedulerName": "site"}}}, "site", id="a part of the pod"),
    ],
)
def test_the_scheduler_of_servers_is_read(values: dict[str, Any], expected: str):
    assert read(**values).scheduler == expected


def test_pull_secrets_are_found_wherever_and_however_they_are_written():
    found = read(
        imagePullSecrets=[{"name": "a"}, "b"],
        singleuser={"image": {"pullSecrets": ["c", "a"]}},
        hub={"config": {"KubeSpawner": {"image_pull_secrets": "d"}}},
    )
    assert found.pull_secrets == ("a", "b", "c", "d")


@pytest.mark.parametrize("odd", [5, [5], {"name": []}, [[]]])
def test_odd_values_name_no_secret(odd: Any):
    assert read(imagePullSecrets=odd).pull_secrets == ()


@pytest.mark.parametrize(
    ("db", "expected"),
    [
        ({}, ""),
        ({"pvc": {"storageClassName": "fast"}}, "fast"),
        ({"pvc": {"storageClassName": None}}, ""),
        ({"pvc": {"storageClassName": ""}}, None),
        ({"pvc": {"selector": {"matchLabels": {"a": "b"}}}}, None),
        ({"type": "sqlite-memory"}, None),
        ({"type": "postgres", "pvc": {"storageClassName": "fast"}}, None),
        ({"pvc": 5}, ""),
    ],
)
def test_the_hubs_database_wants_a_volume_as_the_chart_has_it(db: dict[str, Any], expected: str | None):
    assert read(hub={"db": db}).database_class == expected


PRIVILEGED = {"name": "mount", "image": "m:1", "securityContext": {"privileged": True}}
CALM = {"name": "calm", "image": "c:1", "securityContext": {"privileged": False}}


@pytest.mark.parametrize(
    ("spawner", "expected"),
    [
        pytest.param({"privileged": True}, ("notebook",), id="trait"),
        pytest.param({"container_security_context": {"privileged": True}}, ("notebook",), id="security context"),
        pytest.param(
            {"extra_container_config": {"securityContext": {"privileged": True}}}, ("notebook",), id="container config"
        ),
        pytest.param({"extra_containers": [CALM, PRIVILEGED]}, ("mount",), id="side container"),
        pytest.param({"init_containers": {"10": PRIVILEGED}}, ("mount",), id="init container by key"),
        pytest.param({"extra_pod_config": {"initContainers": [PRIVILEGED]}}, ("mount",), id="pod config"),
        pytest.param({"privileged": False, "extra_containers": [CALM]}, (), id="none"),
    ],
)
def test_privileged_containers_are_found_wherever_they_are_written(spawner: dict[str, Any], expected: tuple[str, ...]):
    assert read(hub={"config": {"KubeSpawner": spawner}}).privileged == expected


def test_sources_of_the_notebooks_variables_are_found():
    sources = [{"configMapRef": {"name": "site"}}, {"prefix": "A_", "secretRef": {"name": "keys"}}, {"secretRef": None}]
    found = read(singleuser={"extraContainers": [{"name": "s", "envFrom": sources}]})
    assert found.environment_sources == ()
    found = read(hub={"config": {"KubeSpawner": {"extra_container_config": {"envFrom": sources}}}})
    assert found.environment_sources == ("ConfigMap site", "Secret keys")
