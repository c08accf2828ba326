"""Pods and events as the API sends them, and starts that are followed, for tests of a start's progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuspawner.core.progress.model import Facts, Report, Stage
from gpuspawner.core.progress.tracker import Tracker

Json = dict[str, Any]

IMAGE = "quay.io/example/notebook:1"


def pod(
    *,
    node: str = "",
    phase: str = "Pending",
    reason: str = "",
    message: str = "",
    conditions: Mapping[str, Json] | None = None,
    containers: list[Json] | None = None,
    init_containers: list[Json] | None = None,
    gates: tuple[str, ...] = (),
    gpus: int = 1,
    metadata: Json | None = None,
) -> Json:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec: Json = {
        "containers": [{"name": "notebook", "image": IMAGE, "resources": {"limits": limits}}],
        "schedulingGates": [{"name": name} for name in gates],
    }
    if node:
        spec["nodeName"] = node
    status: Json = {"phase": phase, "reason": reason, "message": message}
    status["conditions"] = [{"type": kind, "status": "True", **rest} for kind, rest in (conditions or {}).items()]
    status["containerStatuses"] = containers or []
    status["initContainerStatuses"] = init_containers or []
    own = {"name": "jupyter-ada", "namespace": "hub", "uid": "1", "creationTimestamp": "2026-05-04T08:00:00Z"}
    return {"metadata": own | (metadata or {}), "spec": spec, "status": status}


def container(state: Json, *, last: Json | None = None, restarts: int = 0, name: str = "notebook") -> Json:
    return {"name": name, "image": IMAGE, "state": state, "lastState": last or {}, "restartCount": restarts}


def waits(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, "message": message}}


def ended(reason: str, exit_code: int, message: str = "") -> Json:
    return {"terminated": {"reason": reason, "exitCode": exit_code, "message": message}}


def event(component: str, reason: str, message: str = "", *, at_s: int = 0, count: int = 1) -> Json:
    return {
        "type": "Normal",
        "reason": reason,
        "message": message,
        "count": count,
        "lastTimestamp": f"2026-05-04T08:{at_s // 60:02d}:{at_s % 60:02d}Z",
        "source": {"component": component},
        "involvedObject": {"kind": "Pod", "namespace": "hub", "name": "jupyter-ada", "uid": "1"},
    }


class Start:
    """A start that is looked at again and again."""

    def __init__(self, *, is_resumed: bool = False, **always: Any) -> None:
        self.progress = Tracker(is_resumed=is_resumed)
        self.reports: list[Report] = []
        self._always = {"gpu_name": "A100", **always}

    def at(self, since_s: float, raw: Json | None, *events: Json, **facts: Any) -> list[str]:
        """Return what is new to say."""
        known = {**self._always, **facts}
        new = self.progress.observe(Facts(pod=raw, events=events, since_s=since_s, **known))
        self.reports.extend(new)
        return [report.sentence for report in new]

    @property
    def stages(self) -> list[Stage]:
        return [report.stage for report in self.reports]

    @property
    def code(self) -> str | None:
        hopeless = self.reports[-1].failure
        return hopeless.code if hopeless else None
