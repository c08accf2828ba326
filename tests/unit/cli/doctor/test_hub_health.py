from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.facts import ObjectKind
from gpuspawner.cli.doctor.hub_health import check_hub_exists, check_hub_image, check_hub_runs, check_kubernetes_version
from tests.unit.cli.doctor.cases import codes, facts, named

STOCK = "quay.io/jupyterhub/k8s-hub"


@pytest.mark.parametrize(("version", "is_found"), [((1, 31), True), ((1, 32), False), ((2, 0), False), (None, False)])
def test_kubernetes_that_is_too_old_is_a_fault(version: tuple[int, int] | None, is_found: bool):
    expected = [("fault", "kubernetes-too-old", ())] if is_found else []
    assert codes(check_kubernetes_version, facts(version=version)) == expected


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ({ObjectKind.HUB_PODS: []}, [("note", "hub-missing", ())]),
        ({ObjectKind.HUB_PODS: [named("hub")]}, []),
        ({ObjectKind.HUB_PODS: [], ObjectKind.NAMESPACES: []}, []),
        ({}, []),
    ],
)
def test_it_is_noted_that_there_is_no_hub(read: dict[ObjectKind, Any], expected: list[Any]):
    assert codes(check_hub_exists, facts(read=read)) == expected


def hub_pod(image: str = STOCK, **more: Any) -> dict[ObjectKind, Any]:
    return {ObjectKind.HUB_PODS: [named("hub-1", **spec_of(image, **more))]}


def spec_of(image: str, **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "sidecar"}, {"name": "hub", "image": image, **more}]}}


def test_a_hub_that_does_not_run_is_a_fault():
    status = {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
    assert codes(check_hub_runs, facts(read={ObjectKind.HUB_PODS: [named("hub-1", status=status)]})) == [
        ("fault", "hub-failing", ("hub-1",))
    ]
    assert codes(check_hub_runs, facts(read=hub_pod())) == []


def test_a_pod_that_the_hub_left_behind_is_no_fault():
    ready = [{"type": "Ready", "status": "True"}]
    evicted = named("hub-1", status={"phase": "Failed", "reason": "Evicted"}, **spec_of(STOCK))
    running = named("hub-2", status={"phase": "Running", "conditions": ready}, **spec_of("registry.example.org/hub:1"))
    found = facts(read={ObjectKind.HUB_PODS: [evicted, running]})
    assert (codes(check_hub_runs, found), codes(check_hub_image, found)) == ([], [])


def test_a_hub_that_fits_nowhere_is_a_fault():
    waits = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available.",
    }
    (found,) = check_hub_runs(facts(read={ObjectKind.HUB_PODS: [named("hub-1", status={"conditions": [waits]})]}))
    assert found.what == "The hub does not run: Unschedulable, 0/2 nodes are available (pod jhub/hub-1)."


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (hub_pod("registry.example.org/hub:1.0.0"), []),
        (hub_pod("quay.io/jupyterhub/k8s-hub-gpuspawner:1.0.0"), []),
        (hub_pod(f"{STOCK}:4.4.0"), ["hub-without-gpuspawner"]),
        (hub_pod(f"{STOCK}:4.4.0@sha256:abc"), ["hub-without-gpuspawner"]),
        (hub_pod(f"{STOCK}:4.4.0", env=[{"name": "PYTHONPATH", "value": "/extra"}]), []),
        (hub_pod(f"{STOCK}:3.3.7", env=[{"name": "PYTHONPATH", "value": "/extra"}]), ["hub-too-old"]),
        (hub_pod(STOCK), ["hub-without-gpuspawner"]),
        ({ObjectKind.HUB_PODS: [named("hub", spec={"containers": 1})]}, []),
    ],
)
def test_the_charts_own_image_tells_its_version_and_that_it_lacks_gpuspawner(
    read: dict[ObjectKind, Any], expected: list[str]
):
    assert [each.code for each in check_hub_image(facts(read=read))] == expected


@pytest.mark.parametrize(
    ("tag", "severity"),
    [("3.3.7", "fault"), ("4.0.0", "warning"), ("4.1.0", "warning"), ("4.2.0", None), ("4.4.0-0.dev.git.1", None)],
    ids=str,
)
def test_charts_before_jupyterhub_5_are_faults_and_those_with_5_2_warnings(tag: str, severity: str | None):
    found = {each.code: each.severity.value for each in check_hub_image(facts(read=hub_pod(f"{STOCK}:{tag}")))}
    assert found.get("hub-too-old") == severity


def test_an_upgrade_of_the_chart_takes_all_values_files_and_reuses_no_old_values():
    (found,) = (each for each in check_hub_image(facts(read=hub_pod(f"{STOCK}:3.3.7"))) if each.code == "hub-too-old")
    options = found.fix.split()
    assert {"--namespace", "--timeout", "--values", "--version"} <= set(options)
    assert "--reuse-values" not in options
    assert "hub.image.tag" in found.fix
