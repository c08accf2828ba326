"""The demo on a cluster of the user's own: a namespace with a hub in it, and a port of this machine that leads there.

Nothing is built and no cluster is started. The hub runs as a pod, because on most clusters pods cannot reach this
machine.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client import ApiClient, CoreV1Api
from kubernetes.client.exceptions import ApiException, NotFoundException
from urllib3.exceptions import HTTPError

from devcluster.demo.forward import Forward
from devcluster.demo.hub_pod import HUB_PORT, POD, PROXY_API_PORT, PROXY_PORT, STATE_DIR, HubPod
from devcluster.demo.local import ADMIN, PASSWORD, Report, make_admin_password, refuse_taken_port
from devcluster.demo.values import OWN_CLUSTER, Values
from devcluster.errors import DevclusterError
from devcluster.hub_config import HubSettings, Notebook, Wiring, hub_config
from devcluster.hub_rbac import SERVICE_ACCOUNT, apply, apply_rbac, remove_rbac
from devcluster.processes import poll

NAMESPACE = "gpuspawner-demo"
OWNER = {"app.kubernetes.io/managed-by": "gpuspawner-demo"}
CONNECT_TIMEOUT_S = 10
START_TIMEOUT_S = 600
STOP_TIMEOUT_S = 120
LOG_LINES = 15
_HOPELESS = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CrashLoopBackOff", "CreateContainerConfigError"}


class OwnClusterDemo:
    """A hub on the cluster of a kubeconfig context; what it creates it deletes.

    :param port: of the address users open.
    :param report: gets a line for each step.
    :param adapt: changes the hub's pod before it is created.
    :param kubeconfig: file with the context, None = where kubectl would look.
    """

    def __init__(
        self,
        *,
        context: str,
        port: int,
        report: Report,
        values: Path = OWN_CLUSTER,
        adapt: Callable[[dict[str, Any]], dict[str, Any]] = dict,
        kubeconfig: Path | None = None,
    ) -> None:
        self._values = Values.read(values)
        self._api = connect(context, kubeconfig)
        self._core: Any = CoreV1Api(self._api)  # typed for its own models only, though it takes plain dicts as well
        self._port = port
        self._report = report
        self._adapt = adapt
        self.admin_password = make_admin_password()
        self._started = ExitStack()
        self._told = ""

    def start(self) -> str:
        """Start everything and return the address to open.

        :raises DevclusterError: something is missing or did not start; what had started until then still runs.
        """
        refuse_taken_port(self._port)
        self._claim_namespace()
        self._started.callback(self._remove)
        self._report(f"creating a hub in the namespace {NAMESPACE}")
        apply_rbac(self._api, NAMESPACE)
        hub = self._hub_pod()
        self._core.create_namespaced_secret(NAMESPACE, hub.secret())
        self._core.create_namespaced_config_map(NAMESPACE, hub.code())
        self._core.create_namespaced_pod(NAMESPACE, self._adapt(hub.pod()))
        if not poll(self._hub_ready, timeout_s=START_TIMEOUT_S, interval_s=1):
            raise DevclusterError(f"the hub's pod is not ready after {START_TIMEOUT_S} s: {self._told}")
        pod = (NAMESPACE, POD)
        forward = Forward(self._api.configuration, pod, pod_port=PROXY_PORT, port=self._port)
        self._started.callback(forward.close)
        return f"http://127.0.0.1:{self._port}"

    def failure(self) -> str:
        """Say what has ended by itself, empty while all runs."""
        try:
            pod = self._core.read_namespaced_pod(POD, NAMESPACE)
        except NotFoundException:
            return "the hub's pod was deleted"
        except (ApiException, HTTPError):
            return ""  # the cluster cannot be asked right now, which is no failure of the hub
        return self._trouble(pod)

    def stop(self) -> None:
        """Delete everything that was created."""
        self._started.close()
        self._api.close()  # type: ignore[no-untyped-call]

    def _hub_pod(self) -> HubPod:
        sections = self._values.hub_sections()
        offer = sections.pop("GPUSpawner", {})
        settings = HubSettings(
            namespace=NAMESPACE,
            gpuspawner=offer,
            extra=sections,
            password=PASSWORD,
            admin_users=(ADMIN,),
            admin_password=self.admin_password,
        )
        wiring = Wiring(
            hub_host="0.0.0.0",  # noqa: S104 - servers in other pods have to reach it; it asks for their tokens
            hub_port=HUB_PORT,
            public_port=PROXY_PORT,
            proxy_api_port=PROXY_API_PORT,
            api_token=secrets.token_hex(16),
            run_dir=STATE_DIR,
        )
        notebook = Notebook(image=sections.get("KubeSpawner", {}).get("image", ""), pull_policy="IfNotPresent")
        return HubPod(
            namespace=NAMESPACE,
            service_account=SERVICE_ACCOUNT,
            hub_image=self._values.image("hub.image"),
            proxy_image=self._values.image("proxy.chp.image"),
            config=hub_config(settings, wiring, notebook=notebook),
            proxy_token=secrets.token_hex(16),
        )

    def _claim_namespace(self) -> None:
        with suppress(NotFoundException):
            found = self._core.read_namespace(NAMESPACE)
            if not OWNER.items() <= (found.metadata.labels or {}).items():
                raise DevclusterError(f"the namespace {NAMESPACE} exists and is not the demo's; delete or rename it")
            self._report("removing what an earlier demo has left")
            self._remove()
        apply(self._api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": OWNER}})

    def _hub_ready(self) -> bool:
        pod = self._core.read_namespaced_pod(POD, NAMESPACE)
        if trouble := self._trouble(pod):
            raise DevclusterError(trouble)
        state = _state(pod)
        if state and state != self._told:
            self._told = state
            self._report(f"waiting for the hub: {state}")
        return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or [])

    def _trouble(self, pod: Any) -> str:
        for container in pod.status.container_statuses or []:
            waiting, ended = container.state.waiting, container.state.terminated
            if waiting and waiting.reason in _HOPELESS:
                why = self._log(container.name) if waiting.reason == "CrashLoopBackOff" else waiting.message or ""
                return f"the {container.name} of the demo does not start: {waiting.reason}: {why}"
            if ended:
                return f"the {container.name} of the demo ended:\n{self._log(container.name)}"
        return ""

    def _log(self, container: str) -> str:
        try:
            return str(self._core.read_namespaced_pod_log(POD, NAMESPACE, container=container, tail_lines=LOG_LINES))
        except ApiException:
            return "(no log)"

    def _remove(self) -> None:
        self._report(f"deleting the namespace {NAMESPACE} with every server in it")
        remove_rbac(self._api, NAMESPACE)
        with suppress(NotFoundException):
            self._core.delete_namespace(NAMESPACE)
        if not poll(self._is_gone, timeout_s=STOP_TIMEOUT_S, interval_s=0.5):
            raise DevclusterError(f"the namespace {NAMESPACE} is still being deleted; the cluster will finish that")

    def _is_gone(self) -> bool:
        try:
            self._core.read_namespace(NAMESPACE)
        except NotFoundException:
            return True
        return False


def connect(context: str, kubeconfig: Path | None = None) -> ApiClient:
    """Return a client of the cluster that a kubeconfig context names.

    :raises DevclusterError: there is no such context, or its cluster does not answer; one line says which.
    """
    file = str(kubeconfig) if kubeconfig else None
    try:
        contexts, _ = config.list_kube_config_contexts(file)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise DevclusterError(f"there is no kubeconfig to find the context {context!r} in: {error}") from error
    names = [str(found["name"]) for found in contexts]
    if context not in names:
        there = f"there are {', '.join(names)}" if names else "there are none"
        raise DevclusterError(f"your kubeconfig has no context {context!r}; {there}")
    api: ApiClient = config.new_client_from_config(file, context=context)  # type: ignore[no-untyped-call]
    try:
        CoreV1Api(api).list_namespace(limit=1, _request_timeout=CONNECT_TIMEOUT_S)
    except ApiException as error:
        raise DevclusterError(f"the cluster of {context!r} refuses: {error.status} {error.reason}") from error
    except (HTTPError, OSError) as error:
        raise DevclusterError(f"the cluster of {context!r} does not answer at {api.configuration.host}") from error
    return api


def _state(pod: Any) -> str:
    """Say in a few words what keeps a pod from being ready."""
    waiting = [
        f"{container.name} {container.state.waiting.reason}"
        for container in pod.status.container_statuses or []
        if container.state.waiting
    ]
    refused = [one.message for one in pod.status.conditions or [] if one.type == "PodScheduled" and one.message]
    return ", ".join(waiting) or "; ".join(refused) or str(pod.status.phase)
