"""`gpuspawner doctor` on a real cluster: silent where all is well, and it finds what is planted.

Faults are planted many at once, in the API server and on the node; each is looked for by its code and by the name of
what it is about, and is gone once what was planted is. The program runs in this process, as from a command line.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.client import ApiClient

from devcluster import Cluster, build
from devcluster.hub_rbac import apply, apply_rbac, ensure_namespace, manifests, remove_rbac
from gpuspawner.cli.main import main
from tests.cluster.support.fixtures import FLEET, offer
from tests.cluster.support.karpenter import definition
from tests.cluster.support.nodes import labelled
from tests.cluster.support.planting import (
    Planted,
    bare_definition,
    crash_looping,
    node,
    planted,
    wait_settled,
    without_nodes,
)
from tests.cluster.support.waiting import wait_for

WELL, ILL = "doctor-well", "doctor-ill"
PRODUCT = "nvidia.com/gpu.product"
GPU = "nvidia.com/gpu"
POOL_LABEL = "cloud.google.com/gke-nodepool"

Found = dict[str, list[dict[str, Any]]]
"""Findings by their code."""


@pytest.fixture(scope="module")
def prepared(cluster: Cluster, api: ApiClient) -> Iterator[None]:
    """Have a cluster without problems: the fleet without its two odd nodes, and a hub with its rights."""
    with ExitStack() as stack:
        for namespace in (WELL, ILL):
            ensure_namespace(api, namespace)
            stack.callback(client.CoreV1Api(api).delete_namespace, namespace)
        apply_rbac(api, WELL)
        stack.callback(remove_rbac, api, WELL)
        stack.enter_context(without_nodes(cluster, api, ["mixed-models-1", "mig-invalid-1"], fleet=FLEET))
        # With a label of a cloud's node pools, doctor does not report a missing autoscaler.
        stack.enter_context(labelled(api, ["gke-k80-1"], POOL_LABEL, None))
        stack.enter_context(planted(api, hub_pod(WELL, on="cpu-1", image="registry.example.org/hub:1")))
        yield


def hub_pod(namespace: str, *, on: str, image: str, **container: Any) -> tuple[str, dict[str, Any]]:
    body = {
        "metadata": {"name": "hub", "labels": {"app": "jupyterhub", "component": "hub"}},
        "spec": {
            "nodeName": on,
            "serviceAccountName": "hub",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "hub", "image": image, **container}],
        },
    }
    return f"/api/v1/namespaces/{namespace}/pods", body


@pytest.fixture(scope="module")
def doctor(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[int, Found]]:
    """Call the program; the result is its exit code and what it found."""
    folder = tmp_path_factory.mktemp("doctor")

    def call(namespace: str, *arguments: str, values: Mapping[str, Any]) -> tuple[int, Found]:
        file, out = folder / "values.yaml", folder / "out"
        file.write_text(yaml.safe_dump(dict(values)))
        with out.open("w") as stream, pytest.MonkeyPatch.context() as patched:
            patched.setattr("sys.stdout", stream)
            status = main(["doctor", *connection(cluster, namespace), "-f", str(file), "--output", "json", *arguments])
        found: Found = {}
        for each in json.loads(out.read_text())["findings"]:
            found.setdefault(each["code"], []).append(each)
        return status, found

    return call


def connection(cluster: Cluster, namespace: str) -> list[str]:
    return ["--kubeconfig", str(cluster.kubeconfig), "-n", namespace]


def well(cluster: Cluster, **more: Any) -> dict[str, Any]:
    """Return values that fit the fleet."""
    settings = offer(cluster, **more)
    if "images" not in more:
        settings["images"] = {"lab": {"display_name": "Lab", "image": cluster.notebook_image, "cuda": "12.8"}}
    return {
        "singleuser": {"storage": {"type": "none"}},
        "hub": {"db": {"type": "sqlite-memory"}, "config": {"GPUSpawner": settings}},
        # The cluster has no scheduler but its own.
        "scheduling": {"userScheduler": {"enabled": False}},
    }


@pytest.mark.usefixtures("prepared")
def test_it_is_silent_where_all_is_well(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(well(cluster)))
    status = main(["doctor", *connection(cluster, WELL), "-f", str(file)])
    assert (status, *capsys.readouterr()) == (0, "No problems found.\n", "")


# -- many at once ------------------------------------------------------------------------------------------------------

T4 = {"nvidia.com/gpu.present": "true", PRODUCT: "Tesla-T4", "nvidia.com/gpu.count": "4"}
NODES = (
    node("ill-plugin", labels={"nvidia.com/gpu.present": "true"}),
    node("ill-pci", labels={"feature.node.kubernetes.io/pci-10de.present": "true"}),
    node("ill-unhealthy", labels=T4, gpus={GPU: "4"}, working={GPU: "3"}),
    node("ill-bare", gpus={GPU: "2"}),
    node("ill-mixed", labels={**T4, "nvidia.com/gpu.count": "2"}, gpus={GPU: "4"}),
    node("ill-layout", labels={**T4, PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-INVALID"}),
    node("ill-driver", labels={**T4, "nvidia.com/cuda.driver-version.major": "470"}, gpus={GPU: "4"}),
    node(
        "ill-mig",
        labels={**T4, "nvidia.com/mig.config": "all-1g.5gb", "nvidia.com/mig.config.state": "failed"},
        gpus={GPU: "4"},
    ),
    node(
        "ill-pending",
        labels={**T4, "nvidia.com/mig.config": "all-1g.5gb", "nvidia.com/mig.config.state": "pending"},
        gpus={GPU: "4"},
    ),
    node(
        "ill-strategy",
        labels={
            **T4,
            PRODUCT: "NVIDIA-A100-SXM4-40GB",
            "nvidia.com/mig.strategy": "single",
            "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        },
        gpus={GPU: "3", "nvidia.com/mig-1g.5gb": "7"},
    ),
    node("ill-taint", labels=T4, gpus={GPU: "4"}, taints=[{"key": "team", "value": "vision", "effect": "NoSchedule"}]),
    node("ill-cordon", labels=T4, gpus={GPU: "4"}, unschedulable=True),
    node(
        "ill-shared",
        labels={PRODUCT: "NVIDIA-L40-SHARED", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "4"},
        gpus={GPU: "4"},
    ),
    node("ill-silent", labels=T4, gpus={GPU: "4"}, is_simulated=False),
)

A100 = {"display_name": "A100", "resource": GPU, "match": {PRODUCT: "NVIDIA-A100-SXM4-80GB"}}


def ill_values(cluster: Cluster) -> dict[str, Any]:
    """Return values that want what the cluster lacks."""
    values = well(
        cluster,
        images={"new": {"display_name": "New", "image": cluster.notebook_image, "cuda": "13.0"}},
        memory={"min": "512M", "max": "8000G", "step": "512M", "default": "1G", "guarantee": 1},
        gpus={
            "big": {**A100, "max_count": 16, "runtime_class": "no-such-runtime"},
            "typo": {**A100, "match": {PRODUCT: "NVIDIA-A100-SXM4-81GB"}},
            "shares": {**A100, "match": {PRODUCT: "NVIDIA-L40-SHARED"}, "max_count": 4, "unit": "shared"},
        },
        presets={"gone": {"display_name": "Gone", "gpu": "no-such-type"}},
        policy={"default": {"gpus": ["no-such-type", "*"]}},
        priorities={
            "urgent": {"display_name": "Urgent", "class": "no-such-class", "value": 1000},
            "later": {"display_name": "Later", "class": "doctor-later", "value": 5},
        },
        queue={"local_queue": "no-such-queue"},
    )
    values["singleuser"] = {"storage": {"type": "dynamic"}, "image": {"pullSecrets": ["no-such-secret"]}}
    return values


def ill_objects(cluster: Cluster) -> tuple[Planted, ...]:
    """Return objects that are wrong, or wrong in what they let the hub do."""
    secret_reader = {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]}
    account = {"kind": "ServiceAccount", "name": "hub", "namespace": ILL}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "doctor-secrets"}
    binding = {"metadata": {"name": "doctor-secrets"}, "roleRef": role, "subjects": [account]}
    broken = {"name": "c", "image": cluster.pause_image, "imagePullPolicy": "Never", "command": ["/bin/false"]}
    labels, on_node = {"app": "nvidia-device-plugin"}, {"kubernetes.io/hostname": cluster.real_node}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": on_node, "containers": [broken]}}
    daemon_set = {
        "metadata": {"name": "nvidia-device-plugin-daemonset"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    return (
        (f"{rbac}/clusterroles", {"metadata": {"name": "doctor-secrets"}, **secret_reader}),
        (f"{rbac}/clusterrolebindings", binding),
        (f"/apis/apps/v1/namespaces/{ILL}/daemonsets", daemon_set),
        # The chart's own image, of a chart that is too old; what it would run does not matter, it never gets so far.
        hub_pod(ILL, on=cluster.real_node, image="quay.io/jupyterhub/k8s-hub:3.3.7", imagePullPolicy="Never"),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "doctor-later"}, "value": 7}),
    )


def tight_limits() -> tuple[Planted, ...]:
    """Return limits that keep every server out of the namespace, once the hub's pod is there."""
    hard = {"requests.nvidia.com/gpu": "0", "pods": "0"}
    limits = [{"type": "Container", "max": {"memory": "256Mi"}}]
    namespace = f"/api/v1/namespaces/{ILL}"
    return (
        (f"{namespace}/resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": hard}}),
        (f"{namespace}/limitranges", {"metadata": {"name": "small"}, "spec": {"limits": limits}}),
    )


@contextmanager
def all_planted(cluster: Cluster, api: ApiClient) -> Iterator[None]:
    """Have a cluster and a namespace with much that is wrong inside the block."""
    few_rights(api)
    try:
        with planted(api, *NODES, *ill_objects(cluster)):
            wait_settled(api, [body["metadata"]["name"] for _, body in NODES[:-1]])
            # If kubelet misses that a container ended at once, it syncs the pod again after a minute (syncFrequency).
            wait_for(lambda: crash_looping(api, ILL, "nvidia-device-plugin"), "a plugin that crashes", timeout_s=150)
            wait_for(lambda: waiting_reason(api, ILL, "hub") == "ErrImageNeverPull", "a hub without an image")
            with planted(api, *tight_limits()):
                yield
    finally:
        remove_rbac(api, ILL)


def few_rights(api: ApiClient) -> None:
    """Give the hub of the namespace all rights of the shipped roles but some."""
    apply_rbac(api, ILL)
    rights = client.RbacAuthorizationV1Api(api)
    for name in ("nodes", "pods"):
        rights.delete_cluster_role_binding(f"gpuspawner-{name}-{ILL}")
    rights.delete_namespaced_role_binding(f"gpuspawner-quotas-{ILL}", ILL)
    name = f"gpuspawner-hub-{ILL}"
    own = next(each for each in manifests(ILL) if each["metadata"]["name"] == name and "rules" in each)
    pods = next(rule for rule in own["rules"] if rule["resources"] == ["pods"])
    pods["verbs"].remove("delete")
    apply(api, own)


def waiting_reason(api: ApiClient, namespace: str, name: str) -> str:
    pod = client.CoreV1Api(api).read_namespaced_pod(name, namespace)
    waiting = [each.state.waiting for each in pod.status.container_statuses or []]
    return waiting[0].reason if waiting and waiting[0] else ""


FAULTS = [
    ("fault", "device-plugin-missing", "ill-plugin"),
    ("fault", "device-plugin-missing", "ill-pci"),
    ("fault", "device-plugin-failing", f"{ILL}/nvidia-device-plugin-daemonset"),
    ("fault", "gpu-unhealthy", "ill-unhealthy"),
    ("warning", "gpu-unlabelled", "ill-bare"),
    ("warning", "gpu-labels-contradict", "ill-mixed"),
    ("fault", "mig-invalid", "ill-layout"),
    ("warning", "driver-too-old", "ill-driver"),
    ("fault", "mig-config-failed", "ill-mig"),
    ("warning", "mig-config-pending", "ill-pending"),
    ("warning", "mig-strategy-mismatch", "ill-strategy"),
    ("warning", "taint-untolerated", "ill-taint"),
    ("warning", "node-cordoned", "ill-cordon"),
    ("warning", "node-not-ready", "ill-silent"),
    ("warning", "shared-count", "shares"),
    ("warning", "limit-too-large", "big"),
    ("warning", "limit-too-large", "memory"),
    ("fault", "type-without-node", "typo"),
    ("fault", "runtime-class-missing", "no-such-runtime"),
    ("fault", "priority-class-missing", "no-such-class"),
    ("warning", "priority-value", "doctor-later"),
    ("fault", "kueue-missing", "no-such-queue"),
    ("fault", "storage-class-missing", None),
    ("fault", "pull-secret-missing", "no-such-secret"),
    ("fault", "preset-invalid", "gone"),
    ("warning", "policy-type-unknown", "policy.default.gpus"),
    ("fault", "quota-no-gpu", "none"),
    ("fault", "quota-no-pods", "none"),
    ("fault", "limit-range", "small"),
    ("fault", "rights-hub", f"{ILL}/hub"),
    ("warning", "rights-nodes", f"{ILL}/hub"),
    ("warning", "rights-pods", f"{ILL}/hub"),
    ("warning", "rights-quotas", f"{ILL}/hub"),
    ("warning", "rights-dangerous", f"{ILL}/hub"),
    ("fault", "hub-failing", "hub"),
    ("fault", "hub-too-old", "quay.io/jupyterhub/k8s-hub:3.3.7"),
    ("fault", "hub-without-gpuspawner", "hub"),
]


@pytest.fixture(scope="module")
def told(
    prepared: None, cluster: Cluster, api: ApiClient, doctor: Callable[..., tuple[int, Found]]
) -> tuple[tuple[int, Found], tuple[int, Found]]:
    """Return what is found with all of it planted, and once it was taken out again."""
    with all_planted(cluster, api):
        ill = doctor(ILL, values=ill_values(cluster))
    return ill, doctor(WELL, values=well(cluster))


@pytest.mark.parametrize(("severity", "code", "named"), FAULTS)
def test_planted_faults_are_found_by_name(
    severity: str, code: str, named: str | None, told: tuple[tuple[int, Found], tuple[int, Found]]
):
    found = [each for each in told[0][1].get(code, []) if named is None or named in each["objects"]]
    assert [each["severity"] for each in found][:1] == [severity], told[0][1].get(code)
    assert all(each["what"] and each["why"] and each["fix"] for each in found)


def test_nothing_else_is_found(told: tuple[tuple[int, Found], tuple[int, Found]]):
    assert (told[0][0], set(told[0][1])) == (1, {code for _, code, _ in FAULTS})


def test_removed_faults_are_found_no_more(told: tuple[tuple[int, Found], tuple[int, Found]]):
    assert told[1] == (0, {})


# -- what would disturb the others -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("prepared")
def test_what_autoscalers_and_queues_lack_is_found(
    cluster: Cluster, api: ApiClient, doctor: Callable[..., tuple[int, Found]]
):
    growing = {**A100, "match": {"pool": "new"}, "scale_up": {"max_nodes": 1, "gpus_per_node": 1, "minutes": 5}}
    values = well(cluster, gpus={"growing": growing}, queue={"local_queue": "gpus"})
    values["singleuser"] = {"storage": {"type": "dynamic"}}
    storage_class = {
        "metadata": {"name": "zonal", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "example.org/none",
    }
    zone = "topology.kubernetes.io/zone"
    with (
        planted(api, ("/apis/storage.k8s.io/v1/storageclasses", storage_class)),
        labelled(api, ["cpu-1"], zone, "a"),
        labelled(api, ["cpu-2"], zone, "b"),
        definition(api, bare_definition("kueue.x-k8s.io", "v1beta1", "LocalQueue", plural="localqueues")),
    ):
        status, found = doctor(WELL, "--hub-account", f"{WELL}:missing", values=values)
        assert (status, {code: each[0]["objects"] for code, each in found.items()}) == (
            1,
            {
                "autoscaler-missing": ["growing"],
                "hub-account-missing": [f"{WELL}/missing"],
                "queue-missing": ["gpus"],
                "storage-immediate": ["zonal"],
            },
        )


@pytest.mark.usefixtures("prepared")
def test_karpenters_pools_that_add_nothing_are_found(
    cluster: Cluster, api: ApiClient, doctor: Callable[..., tuple[int, Found]]
):
    (definition_of_pools,) = build.sources("karpenter").glob("pkg/apis/crds/karpenter.sh_nodepools.yaml")

    def pool(name: str, **limits: str) -> tuple[str, dict[str, Any]]:
        reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
        template = {"spec": {"requirements": [], "nodeClassRef": reference}}
        body = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": template, **({"limits": limits} if limits else {})},
        }
        return "/apis/karpenter.sh/v1/nodepools", body

    rights = client.RbacAuthorizationV1Api(api)
    with (
        definition(api, yaml.safe_load(definition_of_pools.read_text())),
        planted(api, pool("spent", **{GPU: "0"}), pool("fine", cpu="100"), pool("broken")),
    ):
        ready = {"type": "Ready", "status": "False", "reason": "NoClass", "message": "NodeClass not found"}
        ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        client.CustomObjectsApi(api).patch_cluster_custom_object_status(
            "karpenter.sh", "v1", "nodepools", "broken", {"status": {"conditions": [ready]}}
        )
        rights.delete_cluster_role_binding(f"gpuspawner-nodepools-{WELL}")
        status, found = doctor(WELL, values=well(cluster))
        assert (status, {code: each[0]["objects"] for code, each in found.items()}) == (
            1,
            {
                "nodepool-exhausted": ["spent"],
                "nodepool-not-ready": ["broken"],
                "rights-nodepools": [f"{WELL}/hub"],
            },
        )
        apply_rbac(api, WELL)


# -- the probe ---------------------------------------------------------------------------------------------------------


def probes(api: ApiClient) -> list[str]:
    found = client.CoreV1Api(api).list_namespaced_pod(WELL, label_selector="gpuspawner.jupyter.org/probe=true")
    return [pod.metadata.name for pod in found.items]


def leaking(device: Path) -> tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]:
    """Return what gives a GPU to pods that asked for none, as a runtime does that is the default one by mistake."""
    mount = 'Object.spec.containers.volumeMounts{name: "leak", mountPath: "/dev/nvidia0"}'
    expression = (
        "Object{spec: Object.spec{"
        f'volumes: [Object.spec.volumes{{name: "leak", hostPath: Object.spec.volumes.hostPath{{path: "{device}"}}}}],'
        'containers: object.spec.containers.filter(c, c.name != "void").map(c, '
        f"Object.spec.containers{{name: c.name, volumeMounts: [{mount}]}})"
        "}}"
    )
    group = "/apis/admissionregistration.k8s.io/v1"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    policy = {
        "metadata": {"name": "doctor-leak"},
        "spec": {
            "matchConstraints": {
                "resourceRules": rules,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": WELL}},
            },
            "reinvocationPolicy": "Never",
            "failurePolicy": "Fail",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}},
            ],
        },
    }
    binding = {"metadata": {"name": "doctor-leak"}, "spec": {"policyName": "doctor-leak"}}
    return (f"{group}/mutatingadmissionpolicies", policy), (f"{group}/mutatingadmissionpolicybindings", binding)


def probing(cluster: Cluster) -> list[str]:
    return ["--probe", "--probe-image", cluster.pause_image, "--probe-pull-policy", "Never"]


@pytest.mark.usefixtures("prepared")
def test_a_probe_sees_no_gpu_that_it_did_not_ask_for_and_is_gone(
    cluster: Cluster, api: ApiClient, doctor: Callable[..., tuple[int, Found]], capsys: pytest.CaptureFixture[str]
):
    assert doctor(WELL, *probing(cluster), values=well(cluster)) == (0, {})
    assert capsys.readouterr().err == f"probing {cluster.real_node}\n"
    assert probes(api) == []


@pytest.mark.usefixtures("prepared")
def test_a_leak_is_found(cluster: Cluster, api: ApiClient, doctor: Callable[..., tuple[int, Found]]):
    def is_leaking() -> bool:
        pod = {"metadata": {"name": "dry"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
        made = client.CoreV1Api(api).create_namespaced_pod(WELL, pod, dry_run="All")
        return any(volume.name == "leak" for volume in made.spec.volumes or [])

    with planted(api, *leaking(cluster.run_dir / "devices" / "nvidia0")):
        wait_for(is_leaking, "the leak at work")
        status, found = doctor(WELL, *probing(cluster), values=well(cluster))
    (leak,) = found.pop("gpu-leak")
    assert (status, found, leak["severity"], leak["objects"]) == (0, {}, "warning", [cluster.real_node])
    assert "sees /dev/nvidia0, by its image alone." in leak["what"]
    assert probes(api) == []


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_probe_that_is_interrupted_leaves_nothing(cluster: Cluster, api: ApiClient, sent: signal.Signals):
    arguments = ["--probe", "--probe-image", "no-such-image:1", "--probe-pull-policy", "Never"]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("gpuspawner")), "doctor", *connection(cluster, WELL), *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: probes(api), "a probe pod")
        process.send_signal(sent)
        _, notes = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, notes.splitlines()[-1], probes(api)) == (
        3,
        "gpuspawner doctor: interrupted",
        [],
    )
