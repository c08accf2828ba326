"""The real scheduler as one that answers: put a scene up, ask about a pod, take the scene down.

One question is open at a time in each control plane: pods under way together would count each other. The scheduler sees
all pods in the order they are written, but nodes and volumes on streams of their own; a witness, a pod that can only go
to the node that was made last, shows that it has seen the whole scene.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from bench.api import Api
from bench.control_plane import ControlPlane
from bench.fit.pods import witness
from bench.fit.scene import Manifest, Scene
from bench.fit.vocabulary import (
    DELAYED,
    DEVICE,
    LIMIT_RANGE,
    NAMESPACES,
    PLACED_CLASSES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
)
from devcluster.errors import DevclusterError

NODES = "/api/v1/nodes"
VOLUMES = "/api/v1/persistentvolumes"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
PODS = "/api/v1/pods"
PREEMPTION_S = 10.0
"""How long after its creation a pod is bound at the latest if the scheduler preempts others for it."""
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Decision:
    """The scheduler's decision about a pod.

    :param node: where it was bound, empty where nowhere.
    :param reason: of the condition PodScheduled, where it was not bound.
    :param message: the scheduler's words about it.
    :param preempting: the node where the scheduler ends pods of lower priority to make room.
    :param is_in_vain: whether the scheduler refuses the same pod once those pods are gone.
    """

    node: str = ""
    reason: str = ""
    message: str = ""
    preempting: str = ""
    is_in_vain: bool = False


class Oracle:
    """Asks one control plane; for one thread."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._api = plane.connect()
        self._watching: Api | None = None
        self._lines: Iterator[bytes] = iter(())
        self._prepare()

    def close(self) -> None:
        """Close the connections."""
        self._api.close()
        if self._watching is not None:
            self._watching.close()

    def put_up(self, scene: Scene) -> tuple[list[Manifest], list[Manifest]]:
        """Make the scene and return its nodes and pods as the API server has them."""
        for volume in scene.volumes:
            self._api.create(VOLUMES, volume)
        for claim in scene.claims:
            self._api.create(_collection("persistentvolumeclaims", claim), claim)
        for csi_node in scene.csi_nodes:
            self._api.create(CSI_NODES, csi_node)
        for attachment in scene.attachments:
            self._api.create(ATTACHMENTS, attachment)
        for node in scene.nodes:
            self._api.create(NODES, node)
        for pod in scene.pods:
            self._put_up_pod(pod, scene)
        self._wait_until_seen(scene)
        return self.read_objects()

    def read_objects(self) -> tuple[list[Manifest], list[Manifest]]:
        """Return the nodes and pods as the API server has them now."""
        return self._api.get(NODES)["items"], self._api.get(PODS)["items"]

    def take_down(self, scene: Scene) -> None:
        """Remove the scene."""
        for namespace in NAMESPACES:
            self._api.delete(f"/api/v1/namespaces/{namespace}/pods")
        for path in (NODES, CSI_NODES, ATTACHMENTS):
            self._api.delete(path)
        for claim in scene.claims:
            self._api.delete(f"{_collection('persistentvolumeclaims', claim)}/{claim['metadata']['name']}")
        for volume in scene.volumes:
            self._api.delete(f"{VOLUMES}/{volume['metadata']['name']}")

    def admit(self, pod: Manifest) -> Manifest:
        """Return the pod that the API server makes of a manifest, without creating it."""
        return self._api.create(f"{_collection('pods', pod)}?dryRun=All", pod)

    def decide(self, pod: Manifest) -> Decision:
        """Return what the scheduler does with a pod, which is gone afterwards, as are the pods that it preempted.

        Raises RefusedError where the API server does not take it, DevclusterError where the scheduler says nothing.
        """
        created = self._api.create(_collection("pods", pod), pod)
        try:
            decision = self._decision(created)
            if not decision.preempting:
                return decision
            decision = self._complete_preemption(created, decision)
            return decision if decision.node else replace(decision, is_in_vain=self._is_refused(pod))
        finally:
            self._delete_pod(pod)

    def _complete_preemption(self, created: Manifest, decision: Decision) -> Decision:
        """Remove the pods that the scheduler ends, as kubelet does, and return where the pod is bound within 10 s.

        The scheduler counts on every pod of lower priority that is on its way out already.
        """
        priority, deadline = created["spec"]["priority"], time.monotonic() + PREEMPTION_S
        while not (bound := self._find_node(created)) and time.monotonic() < deadline:
            for pod in self._api.get(PODS)["items"]:
                spec, metadata = pod["spec"], pod["metadata"]
                is_victim = spec.get("nodeName") == decision.preempting and spec["priority"] < priority
                if is_victim and "deletionTimestamp" in metadata:
                    self._api.delete(f"{_collection('pods', pod)}/{metadata['name']}")
            time.sleep(POLL_S)
        return replace(decision, node=bound)

    def _is_refused(self, pod: Manifest) -> bool:
        """Create a pod anew, and return whether the scheduler refuses it without another preemption."""
        self._delete_pod(pod)
        decision = self._decision(self._api.create(_collection("pods", pod), pod))
        return not decision.node and not decision.preempting

    def _delete_pod(self, pod: Manifest) -> None:
        self._api.delete(f"{_collection('pods', pod)}/{pod['metadata']['name']}")

    def _find_node(self, created: Manifest) -> str:
        found = self._api.get(f"{_collection('pods', created)}/{created['metadata']['name']}")
        return str(found["spec"].get("nodeName", ""))

    def _prepare(self) -> None:
        """Make what all scenes share."""
        for name, fields in PRIORITY_CLASSES.items():
            self._api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, **fields})
        for name, labels in NAMESPACES.items():
            self._api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": dict(labels)}})
        for name, overhead in RUNTIME_CLASSES.items():
            body = {"metadata": {"name": name}, "handler": name, "overhead": {"podFixed": dict(overhead)}}
            self._api.create("/apis/node.k8s.io/v1/runtimeclasses", body)
        for name, scheduling in PLACED_CLASSES.items():
            body = {"metadata": {"name": name}, "handler": name, "scheduling": dict(scheduling)}
            self._api.create("/apis/node.k8s.io/v1/runtimeclasses", body)
        limits = [{"type": "Container", "defaultRequest": LIMIT_RANGE["defaultRequest"]}]
        limit_range = {
            "metadata": {"name": "defaults", "namespace": LIMIT_RANGE["namespace"]},
            "spec": {"limits": limits},
        }
        self._api.create(_collection("limitranges", limit_range), limit_range)
        # No controller makes volumes of this class: the scheduler looks for existing ones, and there are none.
        self._api.create(
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "metadata": {"name": DELAYED},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": DELAYED,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        self._api.create("/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": DEVICE}, "spec": {}})
        request = {"name": "one", "exactly": {"deviceClassName": DEVICE}}
        for namespace in NAMESPACES:
            claim = {"metadata": {"name": DELAYED, "namespace": namespace}, "spec": spec}
            self._api.create(_collection("persistentvolumeclaims", claim), claim)
            devices = {"metadata": {"name": DEVICE}, "spec": {"devices": {"requests": [request]}}}
            self._api.create(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", devices)

    def _put_up_pod(self, pod: Manifest, scene: Scene) -> None:
        name = pod["metadata"]["name"]
        created = self._api.create(_collection("pods", pod), pod)
        status = scene.statuses.get(name, {})
        if "nominatedNodeName" in status:
            self._decision(created)  # the scheduler takes back what was written before its first look
        if status:
            self._api.patch(f"{_collection('pods', pod)}/{name}/status", {"status": status})
        if name in scene.leaving:
            self._api.delete(f"{_collection('pods', pod)}/{name}", grace_s=None)

    def _wait_until_seen(self, scene: Scene) -> None:
        name = f"witness-{scene.seed}"
        amounts = {"pods": "1"}
        node = {"metadata": {"name": name, "labels": {}}, "status": {"allocatable": amounts, "capacity": amounts}}
        self._api.create(NODES, node)
        pod = witness(name, node=name)
        # Where the scheduler saw the pod before the node, it says no first and tries again once it sees the node.
        self._decision(self._api.create(_collection("pods", pod), pod), only_bound=True)

    def _decision(self, created: Manifest, *, only_bound: bool = False) -> Decision:
        """Return the first decision about a pod that was just created."""
        if decision := _read(created):
            return decision
        metadata = created["metadata"]
        mark = f'"uid":"{metadata["uid"]}"'.encode()
        while True:
            try:
                for line in self._lines:
                    decision = _read(json.loads(line)["object"]) if mark in line else None
                    if decision is not None and (decision.node or not only_bound):
                        return decision
            except TimeoutError as error:
                name = metadata["name"]
                raise DevclusterError(f"the scheduler says nothing about {name}:\n{self._plane.log_tail()}") from error
            self._watch(since=metadata["resourceVersion"])

    def _watch(self, *, since: str) -> None:
        """Watch all pods, first or again: the API server ends each watch after a while."""
        if self._watching is not None:
            self._watching.close()
        self._watching = self._plane.connect()
        self._lines = self._watching.watch(PODS, since=since)


def _collection(resource: str, thing: Manifest) -> str:
    return f"/api/v1/namespaces/{thing['metadata']['namespace']}/{resource}"


def _read(pod: Manifest) -> Decision | None:
    """Return what was decided about a pod, None where nothing was yet."""
    if node := pod["spec"].get("nodeName"):
        return Decision(node=node)
    conditions: list[dict[str, Any]] = pod["status"].get("conditions", [])
    for condition in conditions:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Decision(
                reason=condition.get("reason", ""),
                message=condition.get("message", ""),
                preempting=pod["status"].get("nominatedNodeName", ""),
            )
    return None
