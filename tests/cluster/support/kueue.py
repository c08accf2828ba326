"""The real Kueue, as its own Helm chart installs it, in a pod on the cluster's real node."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from kubernetes import client
from kubernetes.client import ApiClient, ApiException
from kubernetes.utils import create_from_dict

from devcluster import Cluster, build
from devcluster.hub import CHECKOUT
from tests.cluster.support.waiting import wait_for

NAMESPACE = "kueue-system"
GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
_DEPLOYMENT = "kueue-controller-manager"
_CERTIFICATE = "kueue-webhook-server-cert"
_BINARY_FOLDER = "/opt/kueue"
_DOCUMENTED = CHECKOUT / "helm-values" / "kueue.yaml"
_EXAMPLE_INDENT = "#     "


@dataclass(frozen=True, slots=True)
class Kueue:
    """Kueue while it is installed.

    :param namespace: one that its webhooks select.
    """

    api: ApiClient
    namespace: str

    def stop(self) -> None:
        """End the controller's pod and wait until its webhooks and its API answer no more."""
        self._scale(0)
        wait_for(lambda: not self._pods(), "Kueue stopped", timeout_s=60)

    def start(self) -> None:
        """Run the controller again and wait until its webhooks and its API answer."""
        self._scale(1)
        self.wait_ready()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Have Kueue stopped inside the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def wait_ready(self) -> None:
        wait_for(self._answers, "Kueue answering", timeout_s=120)

    @contextmanager
    def objects(self, *objects: Mapping[str, Any]) -> Iterator[None]:
        """Have these objects of Kueue inside the block, created in this order and deleted in the reverse one."""
        created: list[Mapping[str, Any]] = []
        try:
            for each in objects:
                # Two queues may share a class of priorities.
                with _ignore(HTTPStatus.CONFLICT):
                    self.create(each)
                    created.append(each)
            yield
        finally:
            for each in reversed(created):
                self.delete(each)

    def create(self, body: Mapping[str, Any]) -> None:
        custom = client.CustomObjectsApi(self.api)
        namespace = body["metadata"].get("namespace")
        if namespace:
            custom.create_namespaced_custom_object(GROUP, VERSION, namespace, _plural(body), dict(body))
        else:
            custom.create_cluster_custom_object(GROUP, VERSION, _plural(body), dict(body))

    def delete(self, body: Mapping[str, Any]) -> None:
        """Delete an object and wait until it is gone: Kueue's finalizers hold queues that are in use."""
        custom = client.CustomObjectsApi(self.api)
        namespace, name = body["metadata"].get("namespace"), body["metadata"]["name"]
        where = (GROUP, VERSION, *((namespace,) if namespace else ()), _plural(body), name)
        scope = "namespaced" if namespace else "cluster"
        with _ignore(HTTPStatus.NOT_FOUND):
            getattr(custom, f"delete_{scope}_custom_object")(*where)

        def is_gone() -> bool:
            try:
                getattr(custom, f"get_{scope}_custom_object")(*where)
            except ApiException as error:
                return bool(error.status == 404)
            return False

        wait_for(is_gone, f"{body['kind']} {name} gone", timeout_s=60)

    def workloads(self, namespace: str) -> list[dict[str, Any]]:
        """Return the Workloads of a namespace."""
        found = client.CustomObjectsApi(self.api).list_namespaced_custom_object(GROUP, VERSION, namespace, "workloads")
        return list(found["items"])

    def waiting(self, namespace: str, local_queue: str) -> list[str]:
        """Return the pods that wait in a LocalQueue, the next one first, as Kueue's visibility API tells."""
        workloads = {each["metadata"]["name"]: each for each in self.workloads(namespace)}
        found = client.CustomObjectsApi(self.api).get_namespaced_custom_object(
            f"visibility.{GROUP}", VERSION, namespace, "localqueues", f"{local_queue}/pendingworkloads"
        )
        pending = sorted(found["items"], key=lambda each: each["positionInClusterQueue"])
        return [
            owner["name"]
            for each in pending
            for owner in workloads[each["metadata"]["name"]]["metadata"]["ownerReferences"]
        ]

    def wait_until_next_is_last(self, namespace: str) -> None:
        """Wait until a workload that is created now comes after all others of this namespace and priority.

        Kueue orders workloads of one priority by creation time. Kubernetes stores that in whole seconds, and Kueue
        orders workloads of the same second by UID (``baseCompareFunc`` in its ``pkg/cache/queue/cluster_queue.go``).
        The API server runs on this machine, so both have the same clock.
        """
        seconds = [each["metadata"]["creationTimestamp"] for each in self.workloads(namespace)]
        newest = max(map(datetime.fromisoformat, seconds), default=datetime.min.replace(tzinfo=UTC))
        wait_for(lambda: datetime.now(UTC) >= newest + timedelta(seconds=1), "the newest workload a second old")

    def _scale(self, replicas: int) -> None:
        client.AppsV1Api(self.api).patch_namespaced_deployment_scale(
            _DEPLOYMENT, NAMESPACE, {"spec": {"replicas": replicas}}
        )

    def _pods(self) -> Sequence[Any]:
        return client.CoreV1Api(self.api).list_namespaced_pod(NAMESPACE).items

    def _answers(self) -> bool:
        """Tell whether webhook, CRD conversion and visibility API all answer."""
        probe = {
            "metadata": {"name": "probe", "labels": {f"{GROUP}/queue-name": "any"}},
            "spec": {"containers": [{"name": "c", "image": "none"}]},
        }
        try:
            pod = client.CoreV1Api(self.api).create_namespaced_pod(self.namespace, probe, dry_run="All")
            custom = client.CustomObjectsApi(self.api)
            custom.list_cluster_custom_object(GROUP, VERSION, "clusterqueues")
            visibility = f"visibility.{GROUP}"
            custom.list_cluster_custom_object(visibility, VERSION, "clusterqueues/any/pendingworkloads")
        except ApiException as error:
            # The API server passes on that there is no such queue.
            return error.status == 404 and "clusterqueue" in (error.body or "").lower()
        return bool(pod.spec.scheduling_gates)


@contextmanager
def installed_kueue(
    cluster: Cluster, api: ApiClient, *, namespace: str = "default", settings: Mapping[str, Any] | None = None
) -> Iterator[Kueue]:
    """Install Kueue inside the block, and leave nothing of it.

    :param namespace: one that its webhooks select.
    :param settings: keys of Kueue's ``Configuration`` beside the chart's own.
    """
    folder = build.ensure(["helm", "kueue"])
    objects = _render(folder, cluster, settings or {})
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    installed: list[dict[str, Any]] = []
    kueue = Kueue(api, namespace)
    try:
        for each in objects:
            create_from_dict(api, each)
            installed.append(each)
        # Kueue makes its certificate when it runs for the first time. The kubelet would show it to this pod a minute or
        # two later, and shows it to a new one at once.
        wait_for(lambda: core.read_namespaced_secret(_CERTIFICATE, NAMESPACE).data, "Kueue's certificate", timeout_s=60)
        core.delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0)
        kueue.wait_ready()
        yield kueue
    finally:
        for each in reversed(installed):
            _delete(api, each)
        core.delete_namespace(NAMESPACE)
        wait_for(lambda: NAMESPACE not in _namespaces(core), "Kueue gone", timeout_s=60)
        # Kubernetes may apply an aggregated role that it read before it was deleted, and so create it again.
        wait_for(lambda: not _delete_roles(api, installed), "Kueue's roles gone", timeout_s=60)
        # Kubernetes deletes the objects of a kind before the kind; until it has, the kind cannot be made again.
        wait_for(lambda: not _kinds(api), "Kueue's kinds gone", timeout_s=60)


def _render(folder: Path, cluster: Cluster, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the chart installs, with Kueue's program of this machine in place of an image."""
    chart = build.sources("kueue") / "charts" / "kueue"
    configuration = yaml.safe_load(
        yaml.safe_load((chart / "values.yaml").read_text())["managerConfig"]["controllerManagerConfigYaml"]
    )
    image, _, tag = cluster.pause_image.rpartition(":")
    values = {
        "controllerManager": {
            "manager": {
                "image": {"repository": image, "tag": tag, "pullPolicy": "Never"},
                "podSecurityContext": {"runAsUser": 65534},
                "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {}},
            },
            "readinessProbe": {"initialDelaySeconds": 1, "periodSeconds": 1},
            "nodeSelector": {"kubernetes.io/hostname": cluster.real_node},
            "tolerations": [{"operator": "Exists"}],
        },
        "managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump({**configuration, **settings})},
    }
    done = subprocess.run(
        [str(folder / "helm"), "template", "kueue", str(chart), f"--namespace={NAMESPACE}", "--values=-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    for each in objects:
        if each["kind"] == "Deployment":
            _run_from_host(each["spec"]["template"]["spec"], folder, cluster)
    return sorted(objects, key=lambda each: _ORDER.get(each["kind"], 1))


_ORDER = {"CustomResourceDefinition": 0, "ServiceAccount": 0, "Deployment": 2, "APIService": 3}
"""Webhooks refuse no object of the chart's own, but an aggregated API that is not there yet slows down others."""


def _run_from_host(pod: dict[str, Any], folder: Path, cluster: Cluster) -> None:
    (manager,) = pod["containers"]
    server = urlsplit(cluster.server)
    manager["command"] = [f"{_BINARY_FOLDER}/kueue"]
    # No kube-proxy leads the Service's address to the API server.
    manager["env"] = [
        {"name": "KUBERNETES_SERVICE_HOST", "value": server.hostname},
        {"name": "KUBERNETES_SERVICE_PORT", "value": str(server.port)},
    ]
    manager["volumeMounts"].append({"name": "program", "mountPath": _BINARY_FOLDER, "readOnly": True})
    pod["volumes"].append({"name": "program", "hostPath": {"path": str(folder)}})
    pod["automountServiceAccountToken"] = True


def _delete(api: ApiClient, body: Mapping[str, Any]) -> None:
    """Delete what has no namespace; the rest goes with the namespace."""
    name = body["metadata"]["name"]
    extensions, rbac = client.ApiextensionsV1Api(api), client.RbacAuthorizationV1Api(api)
    admission, registration = client.AdmissionregistrationV1Api(api), client.ApiregistrationV1Api(api)
    deletions = {
        "CustomResourceDefinition": extensions.delete_custom_resource_definition,
        "ClusterRole": rbac.delete_cluster_role,
        "ClusterRoleBinding": rbac.delete_cluster_role_binding,
        "MutatingWebhookConfiguration": admission.delete_mutating_webhook_configuration,
        "ValidatingWebhookConfiguration": admission.delete_validating_webhook_configuration,
        "APIService": registration.delete_api_service,
    }
    if body["kind"] in deletions:
        with _ignore(HTTPStatus.NOT_FOUND):
            deletions[body["kind"]](name)
    elif body["kind"] == "RoleBinding" and body["metadata"].get("namespace") != NAMESPACE:
        with _ignore(HTTPStatus.NOT_FOUND):
            rbac.delete_namespaced_role_binding(name, body["metadata"]["namespace"])


def _delete_roles(api: ApiClient, installed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Delete the ClusterRoles among these objects, and return the names of those that were there."""
    rbac = client.RbacAuthorizationV1Api(api)
    names = {each["metadata"]["name"] for each in installed if each["kind"] == "ClusterRole"}
    found = [role.metadata.name for role in rbac.list_cluster_role().items if role.metadata.name in names]
    for name in found:
        with _ignore(HTTPStatus.NOT_FOUND):
            rbac.delete_cluster_role(name)
    return found


@contextmanager
def _ignore(status: HTTPStatus) -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        if error.status != status:
            raise


def _namespaces(core: client.CoreV1Api) -> set[str]:
    return {each.metadata.name for each in core.list_namespace().items}


def _kinds(api: ApiClient) -> set[str]:
    found = client.ApiextensionsV1Api(api).list_custom_resource_definition().items
    return {each.metadata.name for each in found if each.spec.group == GROUP}


def documented_objects() -> list[dict[str, Any]]:
    """Return the objects of Kueue that a comment in ``helm-values/kueue.yaml`` tells administrators to create."""
    lines = _DOCUMENTED.read_text(encoding="utf-8").splitlines()
    example = [line.removeprefix(_EXAMPLE_INDENT) for line in lines if line.startswith(_EXAMPLE_INDENT)]
    return [dict(each) for each in yaml.safe_load_all("\n".join(example))]


def objects_for(
    namespace: str, queue: Mapping[str, Any], *, labels: Mapping[str, str], gpus: int
) -> list[dict[str, Any]]:
    """Return the documented objects for other settings: one flavor, in a queue of another name and namespace.

    :param queue: the section ``queue`` of gpuspawner's settings.
    :param labels: of the nodes of the flavor.
    :param gpus: the quota.
    """
    name = f"{namespace}-{queue['local_queue']}"
    objects = {each["kind"]: each for each in deepcopy(documented_objects())}
    objects["ResourceFlavor"]["metadata"]["name"] = name
    objects["ResourceFlavor"]["spec"]["nodeLabels"] = dict(labels)
    objects["ClusterQueue"]["metadata"]["name"] = name
    objects["ClusterQueue"]["spec"]["namespaceSelector"]["matchLabels"] = {"kubernetes.io/metadata.name": namespace}
    (group,) = objects["ClusterQueue"]["spec"]["resourceGroups"]
    flavor = group["flavors"][0]
    group["flavors"] = [{**flavor, "name": name}]
    for each in flavor["resources"]:
        if "/" in each["name"]:
            each["nominalQuota"] = gpus
    objects["LocalQueue"]["metadata"] = {"name": queue["local_queue"], "namespace": namespace}
    objects["LocalQueue"]["spec"]["clusterQueue"] = name
    objects["WorkloadPriorityClass"]["metadata"]["name"] = queue["priority_class"]
    return list(objects.values())


def _plural(body: Mapping[str, Any]) -> str:
    kind = str(body["kind"]).lower()
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"
