"""Mishaps that keep a pod from starting, done to a real cluster and undone again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kubernetes import client
from kubernetes.client import ApiClient, ApiException

from devcluster import Cluster
from devcluster.processes import Process
from devcluster.run_dir import RunDir
from tests.cluster.support.own_pods import REAL_NODE
from tests.cluster.support.pods import Pods
from tests.cluster.support.waiting import wait_for

REFUSAL = "GPUs rest on Sundays."


@contextmanager
def scheduler_halted(cluster: Cluster) -> Iterator[None]:
    """Have no pod scheduled inside the block, so that the test can do it."""
    found = Process.load(RunDir(cluster.run_dir).pids / "kube-scheduler")
    assert found is not None
    found.kill(signal.SIGSTOP)
    try:
        yield
    finally:
        found.kill(signal.SIGCONT)


def bind(pods: Pods, user: str, node: str) -> None:
    """Put a user's pod onto a node as a scheduler does."""
    name = pods.of(user).metadata.name
    body: Any = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    # The answer is a Status, which the client takes for a broken Binding.
    answer = pods.core.create_namespaced_pod_binding(name, pods.namespace, body, _preload_content=False)
    answer.drain_conn()
    answer.release_conn()


def evict(pods: Pods, user: str) -> None:
    """Send a user's pod away from its node, as a drain does."""
    metadata = {"name": pods.of(user).metadata.name, "namespace": pods.namespace}
    answer = pods.core.create_namespaced_pod_eviction(
        metadata["name"], pods.namespace, {"metadata": metadata}, _preload_content=False
    )
    answer.drain_conn()
    answer.release_conn()


@contextmanager
def taint(api: ApiClient, node: str, key: str) -> Iterator[None]:
    """Keep off a node inside the block what does not tolerate this."""
    core = client.CoreV1Api(api)
    before = api.sanitize_for_serialization(core.read_node(node).spec.taints or [])
    try:
        core.patch_node(node, {"spec": {"taints": [*before, {"key": key, "effect": "NoSchedule"}]}})
        yield
    finally:
        core.patch_node(node, {"spec": {"taints": before or None}})


@contextmanager
def silent_node(api: ApiClient, name: str, *, labels: Mapping[str, str], gpus: int) -> Iterator[None]:
    """Have a node inside the block that is Ready and on which no pod starts: no kubelet is behind it."""
    core = client.CoreV1Api(api)
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    core.create_node({"metadata": metadata})
    try:
        status = {"capacity": amounts, "allocatable": amounts}
        core.patch_node_status(name, {"status": {**status, "conditions": [_readiness("True")]}})
        wait_for(lambda: not core.read_node(name).spec.taints, f"node {name} in service")
        yield
    finally:
        delete_node(api, name)


@contextmanager
def bound_pod(api: ApiClient, name: str, *, node: str, limits: Mapping[str, str]) -> Iterator[None]:
    """Have a pod on a node inside the block that has some of it, whether or not a kubelet runs it."""
    core = client.CoreV1Api(api)
    container = {"name": "c", "image": "none", "resources": {"limits": dict(limits)}}
    core.create_namespaced_pod(
        "default", {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}
    )
    try:
        yield
    finally:
        core.delete_namespaced_pod(name, "default", grace_period_seconds=0)


def lose(api: ApiClient, node: str) -> None:
    """Have a node tell that it is no longer Ready."""
    client.CoreV1Api(api).patch_node_status(node, {"status": {"conditions": [_readiness("False")]}})


def delete_node(api: ApiClient, name: str) -> None:
    try:
        client.CoreV1Api(api).delete_node(name)
    except ApiException as error:
        if error.status != 404:
            raise


def _readiness(status: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, "reason": "KubeletReady" if status == "True" else "KubeletNotReady"}


@contextmanager
def quota(api: ApiClient, namespace: str, hard: Mapping[str, str]) -> Iterator[None]:
    """Limit what the pods of a namespace may ask for together, inside the block."""
    core = client.CoreV1Api(api)
    core.create_namespaced_resource_quota(namespace, {"metadata": {"name": "tight"}, "spec": {"hard": dict(hard)}})
    try:
        wait_for(
            lambda: core.read_namespaced_resource_quota("tight", namespace).status.hard, f"the quota of {namespace}"
        )
        yield
    finally:
        core.delete_namespaced_resource_quota("tight", namespace)
        wait_for(lambda: not refusal(api, namespace), "no quota any more")


@contextmanager
def limit_range(api: ApiClient, namespace: str, most: Mapping[str, str]) -> Iterator[None]:
    """Limit what each container of a namespace may have, inside the block."""
    core = client.CoreV1Api(api)
    limit = {"type": "Container", "max": dict(most)}
    core.create_namespaced_limit_range(namespace, {"metadata": {"name": "small"}, "spec": {"limits": [limit]}})
    try:
        yield
    finally:
        core.delete_namespaced_limit_range("small", namespace)


@contextmanager
def refusing_policy(api: ApiClient, namespace: str) -> Iterator[None]:
    """Have the API server admit no pod with a GPU to a namespace inside the block, by a rule of its admin's."""
    admission = client.AdmissionregistrationV1Api(api)
    name = f"no-gpus-in-{namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    has_none = "!object.spec.containers.exists(c, has(c.resources.limits) && 'nvidia.com/gpu' in c.resources.limits)"
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": has_none, "message": REFUSAL}],
    }
    admission.create_validating_admission_policy({"metadata": {"name": name}, "spec": policy})
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": where}
    admission.create_validating_admission_policy_binding({"metadata": {"name": name}, "spec": binding})

    def is_refused() -> bool:
        return REFUSAL in refusal(api, namespace)

    try:
        wait_for(is_refused, "the API server's refusal")
        yield
    finally:
        admission.delete_validating_admission_policy_binding(name)
        admission.delete_validating_admission_policy(name)
        wait_for(lambda: not is_refused(), "no refusal any more")


def refusal(api: ApiClient, namespace: str) -> str:
    """Return why the API server would not take a pod with a GPU, empty where it would."""
    container = {"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    try:
        client.CoreV1Api(api).create_namespaced_pod(namespace, probe, dry_run="All")
    except ApiException as error:
        return str(error.body)
    return ""


@contextmanager
def urgent_pod(api: ApiClient, cluster: Cluster, *, limits: Mapping[str, str]) -> Iterator[None]:
    """Have a pod inside the block that everything on the real node has to give way to."""
    scheduling, core = client.SchedulingV1Api(api), client.CoreV1Api(api)
    scheduling.create_priority_class({"metadata": {"name": "urgent"}, "value": 1_000_000})
    container = {"name": "c", "image": cluster.pause_image, "imagePullPolicy": "Never", "resources": {"limits": limits}}
    spec = {"priorityClassName": "urgent", "nodeSelector": REAL_NODE, "containers": [container]}
    core.create_namespaced_pod("default", {"metadata": {"name": "urgent"}, "spec": spec})
    try:
        yield
    finally:
        core.delete_namespaced_pod("urgent", "default", grace_period_seconds=0)
        scheduling.delete_priority_class("urgent")


@contextmanager
def far_disk(api: ApiClient, namespace: str, claim: str) -> Iterator[Callable[[], None]]:
    """Have a disk inside the block in a zone where there is no node; what is yielded makes a claim that gets it."""
    core = client.CoreV1Api(api)
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-far"]}
    size = {"storage": "1Mi"}
    disk = {
        "capacity": size,
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
        "claimRef": {"namespace": namespace, "name": claim},
    }
    core.create_persistent_volume({"metadata": {"name": f"{namespace}-{claim}"}, "spec": disk})

    def bind_claim() -> None:
        wanted = {"storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}
        core.create_namespaced_persistent_volume_claim(namespace, {"metadata": {"name": claim}, "spec": wanted})

    try:
        yield bind_claim
    finally:
        try:
            core.delete_namespaced_persistent_volume_claim(claim, namespace)
        except ApiException as error:
            if error.status != 404:
                raise
        core.delete_persistent_volume(f"{namespace}-{claim}")
