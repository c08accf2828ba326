"""Looks at pods the way an administrator does, not through the hub."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kubernetes import client
from kubernetes.client import ApiClient, V1Pod
from kubernetes.stream import stream

from tests.cluster.support.waiting import wait_for

USER_ANNOTATION = "hub.jupyter.org/username"
COMMAND_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command in a pod ended, and what it printed to either stream."""

    status: int
    out: str


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one namespace."""

    api: ApiClient
    namespace: str

    @property
    def core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self.api)

    def all(self) -> list[V1Pod]:
        return list(self.core.list_namespaced_pod(self.namespace).items)

    def find(self, user: str) -> V1Pod | None:
        """Return the pod of a user's only server, None where there is none."""
        for pod in self.all():
            if (pod.metadata.annotations or {}).get(USER_ANNOTATION) == user:
                return pod
        return None

    def of(self, user: str) -> V1Pod:
        """Wait until a user has a pod and return it."""
        return wait_for(lambda: self.find(user), f"a pod of {user}")

    def wait_gone(self, user: str, *, timeout_s: float = 60) -> None:
        wait_for(lambda: self.find(user) is None, f"no pod of {user}", timeout_s=timeout_s)

    def wait_bound(self, user: str) -> str:
        """Wait until the scheduler has chosen a node and return its name."""
        return wait_for(lambda: self.of(user).spec.node_name, f"a node for the pod of {user}")

    def wait_unschedulable(self, user: str) -> str:
        """Wait until the scheduler has found no node and return its message."""
        return wait_for(lambda: _refusal(self.find(user)), f"the pod of {user} found unschedulable")

    def run(self, user: str, *command: str) -> Finished:
        """Run a command in a user's notebook container."""
        pod = self.of(user)
        # The client's websocket calls replace a method of the ApiClient they are given: it gets one of its own.
        with ApiClient(self.api.configuration) as own:
            channel = stream(
                client.CoreV1Api(own).connect_get_namespaced_pod_exec,
                pod.metadata.name,
                self.namespace,
                container="notebook",
                command=list(command),
                stdout=True,
                stderr=True,
                stdin=False,
                tty=False,
                _preload_content=False,
            )
            channel.run_forever(timeout=COMMAND_TIMEOUT_S)
            finished = Finished(channel.returncode, channel.read_all())
            channel.sock.shutdown()
        return finished

    def gpus_listed(self, user: str) -> int:
        """Return how many GPUs nvidia-smi lists in a user's notebook."""
        return len(re.findall(r"^GPU \d+: ", self.run(user, "nvidia-smi").out, flags=re.MULTILINE))

    def claims(self) -> set[str]:
        """Return for which users there is a volume claim."""
        claims = self.core.list_namespaced_persistent_volume_claim(self.namespace).items
        return {(claim.metadata.annotations or {}).get(USER_ANNOTATION, "") for claim in claims}


def _refusal(pod: V1Pod | None) -> str | None:
    conditions = (pod.status.conditions if pod else None) or []
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            return str(condition.message)
    return None
