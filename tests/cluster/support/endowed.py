"""A cluster that has everything that a hub may read, and a hub in it with settings that make it ask for all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import yaml
from kubernetes.client import (
    ApiClient,
    AuthorizationV1Api,
    CoreV1Api,
    CustomObjectsApi,
    RbacAuthorizationV1Api,
    StorageV1Api,
)

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from devcluster.hub_rbac import SERVICE_ACCOUNT, apply, ensure_namespace, manifests
from gpuspawner.cli.cluster.shipped_roles import ResourceRight, read_shipped_rights
from tests.cluster.support.dra import node_with_devices
from tests.cluster.support.fixtures import AS_ROOT, offer
from tests.cluster.support.fleet import KINDS, WHOLE_CARD, Kind
from tests.cluster.support.karpenter import NODE_POOLS, definition, kinds_served
from tests.cluster.support.kueue import GROUP as KUEUE_GROUP
from tests.cluster.support.kueue import VERSION as KUEUE_VERSION
from tests.cluster.support.nodes import labelled
from tests.cluster.support.pages import Page, visit
from tests.cluster.support.planting import bare_definition, planted
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

GPU = "nvidia.com/gpu"
GPU_NAME = "karpenter.k8s.aws/instance-gpu-name"
SCALED = "scaled"
"""A GPU type that Karpenter would add a node for."""
IMPOSSIBLE = "impossible"
"""One on nodes that have no GPU, by a resource that is not a DRA driver's; no autoscaler adds more of them."""
ONLY_DRA = "l40s"
"""One that only a DRA driver offers."""
GROWING = "growing"
"""One that the cluster-autoscaler may add, as far as the admin knows; its only node group has its largest size."""
PROMISED = "promised"
"""One that the settings say may be added."""
SANDBOXED = KINDS["T4"].slug
"""One whose servers have a RuntimeClass."""
QUEUE = "gpu-queue"
_PRIORITY_CLASS = "people"
QUOTA = 4
"""GPUs that the namespace's quota has."""
QUEUED = KINDS["V100"].slug
"""The GPU type that is queued for."""
ATTACHING = "attaching"
"""A user whose home is a disk of a CSI driver, of which the nodes with A100 80 GB may have none."""
SETTLED = "settled"
"""A user whose home exists, on the node that runs pods."""

_MACHINE = "node.kubernetes.io/instance-type"
# GKE's mark on a node is taken for a sign that an autoscaler may add what no NodePool does.
_GKE_NODES = ["gke-k80-1"]
_HOMES = 16
_STORAGE = "homes-of-rights"
"""A class of their own: claims that other tests have left would else be given these volumes."""
_DRIVER = "disk.rights.example"
_REAL = {"key": "gpuspawner.jupyter.org/real", "operator": "In", "values": ["true"]}
_ON_REAL_NODE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [_REAL]}]}}


@dataclass(frozen=True, slots=True)
class Site:
    """One hub, and what its administrator does."""

    hub: Hub
    api: ApiClient

    @property
    def namespace(self) -> str:
        return self.hub.settings.namespace

    @property
    def servers(self) -> Servers:
        return Servers(self.hub, Pods(self.api, self.namespace))

    def form(self, user: str, **choice: str) -> Page:
        """Open the form with the verdict on a choice."""
        fields = {"image": "lab", "cpu": "1", "memory": "1G", "gpu": WHOLE_CARD.slug, "gpu_count": "1", **choice}
        return visit(self.hub.url, user).get("/hub/spawn", choice=fields)

    def verdict(self, user: str, **choice: str) -> tuple[str, str]:
        """Return the verdict on a choice: its outcome, and the sentence."""
        verdict = self.form(user, **choice).island()["verdict"]
        return verdict["outcome"], verdict["sentence"]

    @contextmanager
    def without(self, part: str) -> Iterator[None]:
        """Take one part of rbac.yaml from the hub inside the block."""
        rbac = RbacAuthorizationV1Api(self.api)
        binding = self._binding(part)
        name = binding["metadata"]["name"]
        if binding["kind"] == "RoleBinding":
            rbac.delete_namespaced_role_binding(name, binding["metadata"]["namespace"])
        else:
            rbac.delete_cluster_role_binding(name)
        try:
            wait_for(lambda: not self._may(part), f"the API server without {name}", timeout_s=10)
            yield
        finally:
            apply(self.api, binding)

    def _binding(self, part: str) -> dict[str, Any]:
        name = f"gpuspawner-{part}-{self.namespace}"
        (found,) = (
            each
            for each in manifests(self.namespace)
            if each["kind"].endswith("RoleBinding") and each["metadata"]["name"] == name
        )
        return found

    def _may(self, part: str) -> bool:
        right = next(each for each in read_shipped_rights() if each.part == part)
        user = f"system:serviceaccount:{self.namespace}:{SERVICE_ACCOUNT}"
        return is_allowed(self.api, right, right.verbs[0], user=user, namespace=self.namespace)

    def restart(self, *, is_gated: bool = False) -> None:
        """Restart the hub.

        :param is_gated: each pod gets the gate that Kueue's webhook would give it.
        """
        extra = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]} if is_gated else {}
        sections = dict(self.hub.settings.extra)
        sections["KubeSpawner"] = {**sections["KubeSpawner"], "extra_pod_config": extra}
        self.hub.settings = replace(self.hub.settings, extra=sections)
        self.hub.restart()


def is_allowed(api: ApiClient, right: ResourceRight, verb: str, *, user: str, namespace: str) -> bool:
    """Ask the API server whether an account has a verb of a right in the servers' namespace."""
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": verb,
        "group": right.api_group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace if right.is_namespaced else right.elsewhere,
        "name": right.name,
    }
    review = {"spec": {"user": user, "resourceAttributes": attributes}}
    return bool(AuthorizationV1Api(api).create_subject_access_review(review).status.allowed)


@contextmanager
def endowed(cluster: Cluster, api: ApiClient, namespace: str, **how: Any) -> Iterator[Site]:
    """Run a hub among all that it may read.

    :param how: further arguments of :class:`Hub`.
    """
    with ExitStack() as stack:
        stack.enter_context(labelled(api, _GKE_NODES, "cloud.google.com/gke-nodepool", None))
        stack.enter_context(kinds_served(api))
        stack.enter_context(_node_pool(api))
        stack.enter_context(_node_groups(api))
        labels = {"nvidia.com/gpu.product": "NVIDIA-L40S"}
        stack.enter_context(node_with_devices(api, "dra", labels=labels, devices=4))
        stack.enter_context(_volumes(cluster, api, namespace))
        stack.enter_context(_queue(api, namespace))
        stack.enter_context(_limited(api))
        runtime_class = {"metadata": {"name": namespace}, "handler": "sandbox"}
        stack.enter_context(planted(api, ("/apis/node.k8s.io/v1/runtimeclasses", runtime_class)))
        hub = stack.enter_context(Hub(cluster, _settings(cluster, namespace), **how))
        hard = {f"requests.{GPU}": str(QUOTA)}
        core, quota = CoreV1Api(api), {"metadata": {"name": "gpus"}, "spec": {"hard": hard}}
        core.create_namespaced_resource_quota(namespace, quota)
        wait_for(lambda: core.read_namespaced_resource_quota("gpus", namespace).status.used, "the quota counted")
        yield Site(hub, api)


def _settings(cluster: Cluster, namespace: str) -> HubSettings:
    volumes, _ = cluster.notebook_volumes()
    home = {"name": "home", "persistentVolumeClaim": {"claimName": "claim-{user_server}"}}
    kubespawner = {
        **AS_ROOT,
        "storage_pvc_ensure": True,
        "storage_capacity": "1Mi",
        "storage_class": _STORAGE,
        "storage_access_modes": ["ReadWriteOnce"],
        "volumes": [*volumes, home],
        # These servers hold no user's work.
        "delete_grace_period": 0,
    }
    gpuspawner = offer(
        cluster,
        gpus={
            SCALED: _gpu_type("Scaled", **{GPU_NAME: "l4"}),
            IMPOSSIBLE: {**_gpu_type("Impossible", **{_MACHINE: "m7i.4xlarge"}), "resource": "amd.com/gpu"},
            GROWING: {**_gpu_type("Growing", **{GPU_NAME: "b300"}), "new_nodes": "possible"},
            PROMISED: {
                **_gpu_type("Promised", **{GPU_NAME: "gb200"}),
                "scale_up": {"max_nodes": 1, "gpus_per_node": 2, "minutes": 5},
            },
            WHOLE_CARD.slug: _gpu_type("A100", **_labels_of(WHOLE_CARD)),
            SANDBOXED: {**_gpu_type("T4", **_labels_of(KINDS["T4"])), "runtime_class": namespace},
        },
        run_time={"min": "10m", "max": "8h", "step": "10m", "default": "1h"},
        policy={"default": {"max_gpus": 8, "max_runtime": "4h"}},
        queue={"local_queue": QUEUE, "gpus": [QUEUED], "priority_class": _PRIORITY_CLASS},
    )
    # Its bounds are those of the nodes.
    del gpuspawner["memory"]
    return HubSettings(namespace=namespace, gpuspawner=gpuspawner, extra={"KubeSpawner": kubespawner})


@contextmanager
def _queue(api: ApiClient, namespace: str) -> Iterator[None]:
    """Have a queue whose quota is in use, with the objects that Kueue would read; it does not run here."""
    flavor = {"metadata": {"name": QUEUED}, "spec": {"nodeLabels": dict(_labels_of(KINDS["V100"]))}}
    quotas = {GPU: 2, "cpu": 64, "memory": "256Gi"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": QUEUED, "resources": resources}]}
    # Kueue lists each resource of each flavor, and calls a ClusterQueue that admits Workloads active.
    totals = [{"name": name, "total": 2 if name == GPU else 0} for name in quotas]
    in_use = [{"name": QUEUED, "resources": totals}]
    active = {"type": "Active", "status": "True", "reason": "Ready", "message": ""}
    cluster_queue = {
        "metadata": {"name": QUEUE},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        "status": {"conditions": [active], "flavorsReservation": in_use, "pendingWorkloads": 1},
    }
    local_queue = {"metadata": {"name": QUEUE}, "spec": {"clusterQueue": QUEUE}}
    objects = {
        "ResourceFlavor": ("resourceflavors", flavor),
        "WorkloadPriorityClass": ("workloadpriorityclasses", {"metadata": {"name": _PRIORITY_CLASS}, "value": 5}),
        "ClusterQueue": ("clusterqueues", cluster_queue),
        "LocalQueue": (f"namespaces/{namespace}/localqueues", local_queue),
    }
    with ExitStack() as stack:
        for kind, (path, body) in objects.items():
            *where, plural = path.split("/")
            kinds = bare_definition(KUEUE_GROUP, KUEUE_VERSION, kind, plural=plural, is_namespaced=bool(where))
            stack.enter_context(definition(api, kinds))
            whole = {"apiVersion": f"{KUEUE_GROUP}/{KUEUE_VERSION}", "kind": kind, **body}
            stack.enter_context(planted(api, (f"/apis/{KUEUE_GROUP}/{KUEUE_VERSION}/{path}", whole)))
        yield


def _labels_of(kind: Kind) -> Mapping[str, str]:
    return {label: value for label, (value,) in kind.match.items()}


def _gpu_type(name: str, **labels: str) -> Mapping[str, Any]:
    match = {label: [value] for label, value in labels.items()}
    return {"display_name": name, "resource": GPU, "match": match, "max_count": 2}


@contextmanager
def _node_pool(api: ApiClient) -> Iterator[None]:
    """Have a NodePool that would add nodes, if Karpenter were here."""
    objects = CustomObjectsApi(api)
    requirements = [
        {"key": GPU_NAME, "operator": "In", "values": ["l4"]},
        {"key": _MACHINE, "operator": "In", "values": ["g6.xlarge"]},
    ]
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    body = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": SCALED},
        "spec": {"template": {"spec": {"requirements": requirements, "nodeClassRef": reference}}},
    }
    objects.create_cluster_custom_object(**NODE_POOLS, body=body)
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"conditions": [{**ready, "message": ""}]}}
    objects.patch_cluster_custom_object_status(**NODE_POOLS, name=SCALED, body=status)
    try:
        yield
    finally:
        objects.delete_cluster_custom_object(**NODE_POOLS, name=SCALED)


@contextmanager
def _node_groups(api: ApiClient) -> Iterator[None]:
    """Have the status of a cluster-autoscaler, as it writes it; none runs here."""
    core, namespace, name = CoreV1Api(api), "kube-system", "cluster-autoscaler-status"
    written = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f %z} UTC"
    group = {
        "name": "gpus",
        "health": {"status": "Healthy", "cloudProviderTarget": 4, "minSize": 0, "maxSize": 4},
        "scaleUp": {"status": "NoActivity"},
    }
    status = yaml.safe_dump({"time": written, "autoscalerStatus": "Running", "nodeGroups": [group]}, sort_keys=False)
    metadata = {"name": name, "annotations": {"cluster-autoscaler.kubernetes.io/last-updated": written}}
    core.create_namespaced_config_map(namespace, {"metadata": metadata, "data": {"status": status}})
    try:
        yield
    finally:
        core.delete_namespaced_config_map(name, namespace)


@contextmanager
def _volumes(cluster: Cluster, api: ApiClient, namespace: str) -> Iterator[None]:
    """Have volumes for the homes of a namespace; one user's is on the node that runs pods."""
    core = CoreV1Api(api)
    ensure_namespace(api, namespace)
    with ExitStack() as made:
        for number in range(_HOMES):
            name = f"{namespace}-{number}"
            core.create_persistent_volume(_volume(cluster, name))
            made.callback(core.delete_persistent_volume, name)
        claim = {"namespace": namespace, "name": f"claim-{SETTLED}"}
        core.create_persistent_volume(_volume(cluster, SETTLED, claimRef=claim, nodeAffinity=_ON_REAL_NODE))
        made.callback(core.delete_persistent_volume, SETTLED)
        disk = {"metadata": {"name": ATTACHING}, "spec": {**_volume(cluster, ATTACHING)["spec"], "hostPath": None}}
        disk["spec"]["csi"] = {"driver": _DRIVER, "volumeHandle": ATTACHING}
        disk["spec"]["claimRef"] = {"namespace": namespace, "name": f"claim-{ATTACHING}"}
        core.create_persistent_volume(disk)
        made.callback(core.delete_persistent_volume, ATTACHING)
        room = {"requests": {"storage": "1Mi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": _STORAGE, "resources": room}
        for user in (SETTLED, ATTACHING):
            body = {"metadata": {"name": f"claim-{user}"}, "spec": spec}
            core.create_namespaced_persistent_volume_claim(namespace, body)
        made.callback(core.delete_collection_namespaced_persistent_volume_claim, namespace)
        yield


@contextmanager
def _limited(api: ApiClient) -> Iterator[None]:
    """Have a CSI driver that attaches nothing to the nodes with A100 80 GB."""
    (product,) = KINDS["A100 80 GB"].match["nvidia.com/gpu.product"]
    nodes = CoreV1Api(api).list_node(label_selector=f"nvidia.com/gpu.product={product}").items
    storage = StorageV1Api(api)
    with ExitStack() as made:
        for name in (node.metadata.name for node in nodes):
            driver = {"name": _DRIVER, "nodeID": name, "topologyKeys": None, "allocatable": {"count": 0}}
            storage.create_csi_node({"metadata": {"name": name}, "spec": {"drivers": [driver]}})
            made.callback(storage.delete_csi_node, name)
        yield


def _volume(cluster: Cluster, name: str, **spec: Any) -> Mapping[str, Any]:
    usual = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": _STORAGE,
        "hostPath": {"path": str(cluster.run_dir / "homes" / name), "type": "DirectoryOrCreate"},
    }
    return {"metadata": {"name": name}, "spec": {**usual, **spec}}
