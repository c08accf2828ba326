"""Servers as their users have them: through the hub's REST API and its pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError

from kubernetes.client import V1Pod

from devcluster.hub import Hub
from devcluster.hub_client import Answer
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.waiting import wait_for

READY_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of one hub, and the pods behind them."""

    hub: Hub
    pods: Pods

    def ask(self, user: str, options: Mapping[str, object]) -> Answer:
        """Make the user known and ask for a server; the answer may be a refusal."""
        self.hub.client.create_user(user)
        return self.hub.client.start_server(user, options)

    def begin(self, user: str, options: Mapping[str, object]) -> None:
        """Ask for a server that the hub has to accept."""
        answer = self.ask(user, options)
        assert answer.status in {201, 202}, answer

    def state(self, user: str) -> dict[str, Any]:
        """Return the hub's view of a user's server, empty where it has none."""
        return dict(self.hub.client.servers(user).get("", {}))

    def live_state(self, user: str) -> dict[str, Any]:
        """Return the hub's view of a server that starts or runs; fail if the hub has given up."""
        state = self.state(user)
        assert state.get("ready") or state.get("pending"), f"the server of {user} failed: {self.last_told(user)}"
        return state

    def wait_ready(self, user: str) -> None:
        """Wait until a server answers; fail as soon as the hub has given up."""

        def look() -> bool:
            return bool(self.live_state(user).get("ready"))

        wait_for(look, f"the server of {user} ready", timeout_s=READY_TIMEOUT_S)

    def wait_pod_running(self, user: str) -> V1Pod:
        """Wait until the pod of a start runs, and return it; fail as soon as the hub has given up."""

        def look() -> V1Pod | None:
            self.live_state(user)
            pod = self.pods.find(user)
            return pod if pod is not None and pod.status.phase == "Running" else None

        return wait_for(look, f"the pod of {user} running")

    def verdict(self, user: str, gpu: str, number: int) -> dict[str, Any]:
        """Return the verdict that the form shows a user before Start."""
        fields = {"image": "lab", "cpu": "1", "memory": "1G", "gpu": gpu, "gpu_count": str(number)}
        return dict(visit(self.hub.url, user).get("/hub/spawn", choice=fields).island()["verdict"])

    def wait_verdict(self, user: str, gpu: str, number: int, *, sentence: str) -> dict[str, Any]:
        """Wait until the form's verdict contains a sentence, or a part of one, and return the verdict.

        The hub reuses what it has read of Kueue's flavors for half a minute.
        """
        seen: list[dict[str, Any]] = []

        def is_said() -> bool:
            seen[:] = [self.verdict(user, gpu, number)]
            return sentence in str(seen[0]["sentence"])

        try:
            wait_for(is_said, sentence, timeout_s=45)
        except AssertionError:
            assert [each["sentence"] for each in seen] == [sentence]
        return seen[0]

    def wait_told(self, user: str, text: str) -> str:
        """Follow the progress of a server that starts until this text comes, and return the sentence it comes with.

        :param text: a part of the sentence, or of the message of the event that it is about.
        """
        told: list[str] = []
        for event in self.hub.client.progress(user):
            told.append(str(event.get("message", "")))
            if text in told[-1] or text in str((event.get("raw_event") or {}).get("message", "")):
                return told[-1]
        raise AssertionError(f"{user}'s page showed {told}, but not {text!r}")

    def last_told(self, user: str) -> str:
        """Return the last sentence of the progress of a server that runs or has failed."""
        try:
            events = list(self.hub.client.progress(user))
        except HTTPError as error:
            return str(error)
        return str(events[-1].get("message", "")) if events else ""

    def start(self, user: str, options: Mapping[str, object]) -> None:
        """Ask for a server and wait until it answers."""
        self.begin(user, options)
        self.wait_ready(user)

    def stop(self, user: str) -> None:
        """Stop a server, also one that waits or that failed, and wait until its pod is gone."""

        def at_rest() -> bool:
            state = self.state(user)
            # Asked again as long as it takes: a start that is interrupted as it succeeds leaves a server that runs.
            if state.get("ready") or state.get("pending") == "spawn":
                self.hub.client.stop_server(user)
            return not state.get("pending") and not state.get("ready")

        wait_for(at_rest, f"the server of {user} at rest")
        self.pods.wait_gone(user)

    @contextmanager
    def running(self, choices: Mapping[str, Mapping[str, object]]) -> Iterator[None]:
        """Start several users' servers at once, and stop them in the end."""
        try:
            for user, options in choices.items():
                self.begin(user, options)
            for user in choices:
                self.wait_ready(user)
            yield
        finally:
            for user in choices:
                self.stop(user)

    @contextmanager
    def asked(self, user: str, options: Mapping[str, object]) -> Iterator[None]:
        """Ask for one server without waiting for it, and stop it in the end."""
        try:
            self.begin(user, options)
            yield
        finally:
            self.stop(user)
