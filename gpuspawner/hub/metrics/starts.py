"""Measures one start, from when the hub took the choice until the server answers or is given up.

It ends with JupyterHub's own future of the start, so that whatever ends a start is counted once: the gate, Kubernetes,
one of the hub's timeouts, the person.

What became of a start, in one word for a metric: ``ready``, or a code of a closed list.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from tornado import web

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.progress.model import Stage
from gpuspawner.hub.errors import ClusterFailure, RefusedStart
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.metrics import registry
from gpuspawner.hub.spawner_protocol import PodWatchingSpawner

READY = "ready"
CANCELLED = "cancelled"

_AT_ONCE_S = 10.0
"""Until a pod has its node, where there is room: kube-scheduler takes a second, ten when very many start at once."""


def classify_outcome(error: BaseException | None) -> str:
    """Return how a start ended.

    :param error: what it ended with; only codes of our own are taken from it.
    """
    match error:
        case None:
            return READY
        case asyncio.CancelledError():
            return CANCELLED
        case RefusedStart():
            return error.code
        case ClusterFailure():
            return "cluster"
        case TimeoutError():
            return "timeout"
        case web.HTTPError() if error.status_code < 500:  # noqa: PLR2004
            return "refused"
    return "error"


def classify_verdict(outcome: str, *, refused: bool, waited_s: float | None) -> str:
    """Return what came of a verdict.

    :param outcome: how the start ended.
    :param refused: nothing was created.
    :param waited_s: seconds until the pod had a node; None when it never had one.
    """
    if outcome == CANCELLED:
        return CANCELLED
    if outcome == READY:
        return "waited" if (waited_s or 0.0) > _AT_ONCE_S else READY
    if refused:
        return "refused"
    return "no_node" if waited_s is None else "failed"


def measure_wait_s(pod: Mapping[str, Any] | None) -> float | None:
    """Return the seconds a pod waited for its node, None while it has none.

    :param pod: as the API server sends it.
    """
    if not pod or not (pod.get("spec") or {}).get("nodeName"):
        return None
    conditions = (pod.get("status") or {}).get("conditions") or []
    bound = next((each.get("lastTransitionTime") for each in conditions if each.get("type") == "PodScheduled"), None)
    created = (pod.get("metadata") or {}).get("creationTimestamp")
    if not bound or not created:
        return 0.0
    return max(0.0, (datetime.fromisoformat(bound) - datetime.fromisoformat(created)).total_seconds())


class SpawnMeter:
    """One start.

    :param gpu: slug of the GPU type, or what stands for one.
    :param clock: steady seconds.
    """

    def __init__(self, gpu: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gpu = gpu
        self._clock = clock
        self._began = clock()
        self._verdict = ""
        self._is_created = False
        self._waited_s: float | None = None
        self._stage = ""
        self._stage_began = self._began

    def note_verdict(self, verdict: str) -> None:
        """Note what the start was told to come to."""
        self._verdict = verdict

    def enter_stage(self, stage: str) -> None:
        """Note that a stage begins, which ends the one before; again and again the same is one stage."""
        if stage == self._stage:
            return
        now = self._clock()
        if self._stage not in ("", Stage.FAILED):
            registry.observe_stage(self._gpu, self._stage, seconds=now - self._stage_began)
        self._stage, self._stage_began = stage, now

    def note_pod(self, pod: Mapping[str, Any] | None) -> None:
        """Note how far the pod got, before it is deleted; what was seen of it once counts when it has gone.

        :param pod: as the API server sends it, None where there is none.
        """
        if pod is not None:
            self._is_created = True
            waited = measure_wait_s(pod)
            self._waited_s = self._waited_s if waited is None else waited

    def end(self, error: BaseException | None) -> None:
        """Count the start.

        :param error: what it ended with, None when the server answers.
        """
        outcome = classify_outcome(error)
        self.enter_stage("")
        registry.count_spawn(self._gpu, outcome, seconds=self._clock() - self._began)
        is_refused = isinstance(error, RefusedStart) and not self._is_created
        if is_refused:
            registry.count_refusal(outcome)
        if self._verdict:
            came = classify_verdict(outcome, refused=is_refused, waited_s=self._waited_s)
            registry.count_verdict(self._verdict, came)


class MeasuredStart(Protocol):
    """The state of a start.

    :ivar meter: None before the start is measured.
    """

    meter: SpawnMeter | None


class MeasuredSpawner(PodWatchingSpawner, Protocol):
    """A spawner and its start."""

    @property
    def start_state(self) -> MeasuredStart:
        """The state of the spawner's start."""


def begin_measuring(spawner: MeasuredSpawner, options: object, *, catalogue: Catalog) -> None:
    """Measure a start of a spawner, unless that is done already.

    :param options: user options, not yet checked.
    """
    future = private_api.get_spawn_future(spawner)
    if spawner.start_state.meter is not None or future is None or future.done():
        return
    spawner.start_state.meter = meter = SpawnMeter(find_gpu_label(options, catalogue))

    def ended(done: asyncio.Future[Any]) -> None:
        meter.end(asyncio.CancelledError() if done.cancelled() else done.exception())

    future.add_done_callback(ended)


def enter_stage(spawner: MeasuredSpawner, stage: str) -> None:
    """Note that a start of a spawner has reached a stage."""
    if spawner.start_state.meter is not None:
        spawner.start_state.meter.enter_stage(stage)


def note_pod(spawner: MeasuredSpawner, pod: Mapping[str, Any] | None = None) -> None:
    """Note how far the pod of a start got, while it can still be seen.

    :param pod: as it was seen, or taken by the API server; as it is there now if not given.
    """
    if spawner.start_state.meter is not None and pod is not None:
        spawner.start_state.meter.note_pod(pod)
    elif spawner.start_state.meter is not None and spawner.pod_reflector is not None:
        spawner.start_state.meter.note_pod(spawner.pod_reflector.pods.get(f"{spawner.namespace}/{spawner.pod_name}"))


def find_gpu_label(options: object, catalogue: Catalog) -> str:
    """Return the label of what user options, right or wrong, ask for: only what is offered is called by its name."""
    if not isinstance(options, Mapping):
        return registry.NO_GPU
    preset = options.get("preset")
    bundle = catalogue.presets.get(preset) if isinstance(preset, str) else None
    gpu = options.get("gpu", bundle.options.get("gpu") if bundle is not None else None)
    if not gpu:
        return registry.NO_GPU
    return gpu if isinstance(gpu, str) and gpu in catalogue.gpus else registry.OTHER_LABEL
