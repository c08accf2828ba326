"""The program's statements about a cluster agree with its API server and its scheduler."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kubernetes.client import ApiClient, CoreV1Api, RbacAuthorizationV1Api, V1Pod
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

from devcluster import Cluster
from devcluster.hub_rbac import apply_rbac, ensure_namespace, remove_rbac
from gpuspawner.cli.main import main
from tests.cluster.support.fleet import KINDS
from tests.cluster.support.nodes import cordoned, gpu_resources
from tests.cluster.support.waiting import wait_for

NAMESPACE = "cli"
K80 = KINDS["GKE"]
VALUES = {
    "hub": {
        "config": {
            "GPUSpawner": {
                "images": {"lab": {"image": "localhost/none:1"}},
                "new_nodes": "none",
                "cpu": {"min": 1, "max": 4096, "step": 1, "default": 1, "guarantee": 1},
                "memory": {"min": "1G", "max": "64T", "step": "1G", "default": "1G", "guarantee": 1},
                "policy": {
                    "default": {"gpus": {K80.slug: {}}, "max_gpus": K80.total},
                    "groups": {"physics": {"gpus": {"*": {}}}},
                },
            }
        }
    }
}


class Said(NamedTuple):
    """The program's answer, and its exit code."""

    code: int
    document: dict[str, Any]
    errors: str


class Program:
    """The program, with the cluster, the namespace and the values as its arguments."""

    def __init__(self, arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
        self._arguments = arguments
        self._capsys = capsys

    def __call__(self, *arguments: str, kubeconfig: Path | None = None) -> Said:
        """Return what a command says in JSON."""
        instead = [] if kubeconfig is None else ["--kubeconfig", str(kubeconfig)]
        code = main([*arguments, *self._arguments, *instead, "--output", "json"])
        out, errors = self._capsys.readouterr()
        return Said(code, json.loads(out) if out else {}, errors)

    def explain(self, gpu: str, *arguments: str) -> Said:
        """Return what is said of one GPU of a type, with the pod."""
        return self("explain", "--gpu", gpu, "--manifest", *arguments)


@pytest.fixture
def program(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES))
    return Program(["--kubeconfig", str(cluster.kubeconfig), "-n", NAMESPACE, "-f", str(values)], capsys)


@pytest.fixture
def account(api: ApiClient) -> Iterator[None]:
    """Give a hub's account the rights that are shipped, and take them away afterwards."""
    ensure_namespace(api, NAMESPACE)
    apply_rbac(api, NAMESPACE)
    yield
    remove_rbac(api, NAMESPACE)


def of_type(said: Said, slug: str) -> dict[str, Any]:
    (found,) = [each for each in said.document["gpu_types"] if each["slug"] == slug]
    return dict(found)


def held(api: ApiClient) -> Counter[tuple[str, str]]:
    """Return what pods hold, by node and resource."""
    found: Counter[tuple[str, str]] = Counter()
    for pod in CoreV1Api(api).list_pod_for_all_namespaces().items:
        if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed"):
            for container in pod.spec.containers:
                for name, amount in ((container.resources and container.resources.limits) or {}).items():
                    if "/" in name:
                        found[pod.spec.node_name, name] += int(amount)
    return found


@contextmanager
def created(api: ApiClient, manifest: dict[str, Any]) -> Iterator[str]:
    """Create a pod as it was written for a hub, and delete it afterwards."""
    core = CoreV1Api(api)
    ensure_namespace(api, NAMESPACE)
    wait_for(lambda: _has_account(core), "the namespace's own ServiceAccount")
    # As it is, which the client's own models would not let through.
    name = str(DynamicClient(api).resources.get(api_version="v1", kind="Pod").create(body=manifest).metadata.name)
    try:
        yield name
    finally:
        core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
        wait_for(lambda: name not in [pod.metadata.name for pod in _pods(core)], f"pod {name} gone")


def _has_account(core: CoreV1Api) -> bool:
    try:
        return bool(core.read_namespaced_service_account("default", NAMESPACE))
    except ApiException:
        return False


def _pods(core: CoreV1Api) -> list[V1Pod]:
    return list(core.list_namespaced_pod(NAMESPACE).items)


def decided(api: ApiClient, name: str) -> str:
    """Wait until the scheduler has decided, and return the node's name, or why there is none."""

    def look() -> str:
        pod = CoreV1Api(api).read_namespaced_pod(name, NAMESPACE)
        refused = [each.message for each in pod.status.conditions or () if each.reason == "Unschedulable"]
        return str(pod.spec.node_name or (refused[0] if refused else ""))

    return wait_for(look, f"a decision about pod {name}")


def taking(said: Said) -> list[str]:
    """Return the nodes that take a pod now, as the program says."""
    return [name for group in said.document["nodes"] if group["answer"] == "yes" for name in group["names"]]


def test_the_inventory_has_the_numbers_of_the_api_server(program: Program, api: ApiClient) -> None:
    taken = held(api)
    nodes = CoreV1Api(api).list_node().items
    said = program("inventory", "--nodes")
    assert said.code == 0
    for kind in KINDS.values():
        amounts = {
            node.metadata.name: (total, total - taken[node.metadata.name, kind.resource])
            for node in nodes
            if kind.is_on(node.metadata.labels) and (total := gpu_resources(node).get(kind.resource, 0))
        }
        found = of_type(said, kind.slug)
        assert (found["nodes"], found["total"], found["free"], found["largest_free"]) == (
            len(amounts),
            sum(total for total, _ in amounts.values()),
            sum(free for _, free in amounts.values()),
            max(free for _, free in amounts.values()),
        ), kind.slug
        by_node = {
            row["name"]: (each["total"], each["free"])
            for row in said.document["nodes"]
            for each in row["gpus"]
            if kind.slug in each["types"]
        }
        assert by_node == amounts
    assert {row["name"] for row in said.document["nodes"]} == {node.metadata.name for node in nodes}


def test_the_rules_and_a_cordon_are_shown(program: Program, api: ApiClient) -> None:
    with cordoned(api, ["t4-1"]):
        said = program("inventory", "--nodes")
    (row,) = [row for row in said.document["nodes"] if row["name"] == "t4-1"]
    assert (row["why_not"], of_type(said, "t4")["free"], of_type(said, "t4")["total"]) == (["Cordoned."], 0, 4)
    assert of_type(said, K80.slug)["usable_by"]["all_users"] is True
    assert of_type(said, "t4")["usable_by"] == {"all_users": False, "groups": ["physics"], "users": []}


def test_the_verdict_is_what_the_scheduler_does_with_the_pod(program: Program, api: ApiClient) -> None:
    said = program.explain(K80.slug, "--count", str(K80.total), "--user", "grace")
    assert (said.code, said.document["outcome"]) == (0, "now")
    with created(api, said.document["manifest"]) as name:
        assert decided(api, name) in taking(said)

        waits = program.explain(K80.slug, "--user", "ada")
        assert (waits.code, waits.document["outcome"], taking(waits)) == (0, "waits", [])
        with created(api, waits.document["manifest"]) as waiting:
            assert "Insufficient nvidia.com/gpu" in decided(api, waiting)

        refused = program.explain(K80.slug, "--user", "grace")
        codes = [each["code"] for each in refused.document["policy"]["refused"]]
        assert (refused.code, codes) == (1, ["gpu_quota"])


def test_what_never_starts_is_what_the_scheduler_finds_no_node_for(program: Program, api: ApiClient) -> None:
    said = program.explain("l4", "--cpu", "4096")
    assert (said.code, said.document["outcome"], taking(said)) == (1, "never", [])
    with created(api, said.document["manifest"]) as name:
        assert "Insufficient cpu" in decided(api, name)
    assert {"insufficient cpu"} == {
        why for group in said.document["nodes"] if "l4-tainted-1" in group["names"] for why in group["why"]
    }


def test_as_the_hub_what_its_account_may_not_read_is_unknown(program: Program, api: ApiClient, account: None) -> None:
    def without(role: str, part: str, value: object) -> Said:
        RbacAuthorizationV1Api(api).delete_cluster_role_binding(f"gpuspawner-{role}-{NAMESPACE}")
        return wait_for(
            lambda: said if of_type(said := program("inventory", "--as-hub"), "k80")[part] is value else None,
            f"an inventory without {role}",
            timeout_s=10,
        )

    own, hubs = program("inventory"), program("inventory", "--as-hub")
    assert hubs.code == 0
    assert hubs.document["gpu_types"] == own.document["gpu_types"]
    assert [right["resource"] for right in hubs.document["rights"] if False in right["allowed"].values()] == []

    said = without("pods", "free", None)
    assert (said.code, said.document["unknown"]) == (0, ["The hub may not list the pods of all namespaces."])
    assert of_type(said, "k80")["total"] == K80.total
    assert program.explain("k80", "--as-hub").code == 3


def test_an_account_without_the_right_to_impersonate_fails(program: Program, cluster: Cluster, api: ApiClient) -> None:
    ensure_namespace(api, NAMESPACE)
    said = program("inventory", "--as-hub", kubeconfig=cluster.service_account_kubeconfig(NAMESPACE, "modest"))
    assert (said.code, said.document) == (3, {})
    assert "You may not impersonate the ServiceAccount hub of the namespace cli." in said.errors
