"""Measures one start, from the check of the user's choice until the server answers or the start fails.

The measurement ends when JupyterHub completes its future of the start. Each start therefore counts once, even if the
hub refuses it, Kubernetes ends it, it times out, or the user cancels it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tornado import web

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.progress.model import Stage
from gpuspawner.hub.errors import ClusterFailure, RefusedStart
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import find_pod
from gpuspawner.hub.metrics import registry
from gpuspawner.hub.spawner_protocol import HubSpawner

READY = "ready"
CANCELLED = "cancelled"

_AT_ONCE_S = 10.0
"""If a pod waits longer than this many seconds for a node, its start counts as ``waited``. If a node has room, the pod
waits less."""


def classify_outcome(error: BaseException | None) -> str:
    """Return a code for how a start ended.

    The code is ``ready``, ``cancelled``, ``timeout``, ``cluster`` (:class:`ClusterFailure`), the ``code`` of a
    :class:`RefusedStart`, ``refused`` (any other HTTP error below 500), or ``error``.

    :param error: the exception that ended the start, or None if the server answers.
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
    """Return a code for a start's real outcome; a metric compares the code with the verdict (the prediction).

    The code is ``ready``, ``waited`` (ready, but the pod waited longer than :data:`_AT_ONCE_S` for a node),
    ``refused``, ``no_node`` (failed before the pod had a node), ``failed`` (failed later) or ``cancelled``.

    :param outcome: result of :func:`classify_outcome`.
    :param refused: whether the start was refused before its pod was created.
    :param waited_s: seconds that the pod waited for a node; None if the pod never had a node.
    """
    if outcome == CANCELLED:
        return CANCELLED
    if outcome == READY:
        return "waited" if (waited_s or 0.0) > _AT_ONCE_S else READY
    if refused:
        return "refused"
    return "no_node" if waited_s is None else "failed"


def measure_wait_s(pod: Mapping[str, Any] | None) -> float | None:
    """Return how many seconds a pod waited for its node; 0 if the JSON lacks the times, None if the pod has no node.

    :param pod: JSON of the pod, as the API server sends it.
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
    """Measures one start.

    :param gpu: metric label of the GPU type; a caller may change the attribute once the type is known.
    :param elapsed_s: seconds from the beginning of the start to the creation of this object.
    """

    def __init__(self, gpu: str, *, elapsed_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.gpu = gpu
        self._clock = clock
        self._began = clock() - elapsed_s
        self._verdict = ""
        self._is_created = False
        self._waited_s: float | None = None
        self._stage = ""
        self._stage_began = self._began

    def note_verdict(self, verdict: str) -> None:
        """Record the verdict: the hub's prediction whether the pod of this start starts now."""
        self._verdict = verdict

    def enter_stage(self, stage: str) -> None:
        """Begin a stage and end the previous one; a call with the current stage does nothing.

        :param stage: name of the stage that begins, or empty if the start ends.
        """
        if stage == self._stage:
            return
        now = self._clock()
        if self._stage not in ("", Stage.FAILED):
            registry.observe_stage(self.gpu, self._stage, seconds=now - self._stage_began)
        self._stage, self._stage_began = stage, now

    def note_pod(self, pod: Mapping[str, Any] | None) -> None:
        """Record that the pod exists, and how long it waited for its node.

        :param pod: JSON of the pod, as the API server sends it; None if there is no pod: nothing is recorded.
        """
        if pod is not None:
            self._is_created = True
            waited = measure_wait_s(pod)
            self._waited_s = self._waited_s if waited is None else waited

    def end(self, error: BaseException | None) -> None:
        """End the measurement, and count the start and its verdict.

        :param error: the exception that ended the start, or None if the server answers.
        """
        outcome = classify_outcome(error)
        self.enter_stage("")
        registry.count_spawn(self.gpu, outcome, seconds=self._clock() - self._began)
        is_refused = isinstance(error, RefusedStart) and not self._is_created
        if is_refused:
            registry.count_refusal(outcome)
        if self._verdict:
            result = classify_verdict(outcome, refused=is_refused, waited_s=self._waited_s)
            registry.count_verdict(self._verdict, result)


def begin_measuring(spawner: HubSpawner, gpu: str, *, elapsed_s: float = 0.0) -> None:
    """Begin to measure a spawner's start; do nothing if it is already measured, or if no start is in progress.

    :param gpu: metric label of the GPU type.
    :param elapsed_s: seconds since the start began, if an earlier process of the hub began it; else 0.
    """
    future = private_api.get_spawn_future(spawner)
    if spawner.start_state.meter is not None or future is None or future.done():
        return
    spawner.start_state.meter = meter = SpawnMeter(gpu, elapsed_s=elapsed_s)

    def end(done: asyncio.Future[Any]) -> None:
        meter.end(asyncio.CancelledError() if done.cancelled() else done.exception())

    future.add_done_callback(end)


def note_gpu(spawner: HubSpawner, gpu: str) -> None:
    """Record the GPU type of a spawner's start, if the start is measured.

    :param gpu: metric label of the GPU type.
    """
    if spawner.start_state.meter is not None:
        spawner.start_state.meter.gpu = gpu


def enter_stage(spawner: HubSpawner, stage: str) -> None:
    """Record that a spawner's start has reached a stage, if the start is measured."""
    if spawner.start_state.meter is not None:
        spawner.start_state.meter.enter_stage(stage)


def note_pod(spawner: HubSpawner, pod: Mapping[str, Any] | None = None) -> None:
    """Record the state of a start's pod, if the start is measured.

    :param pod: JSON of the pod, or an empty dict for a pod just created; by default the pod in the reflector.
    """
    meter = spawner.start_state.meter
    if meter is not None and pod is not None:
        meter.note_pod(pod)
    elif meter is not None:
        meter.note_pod(find_pod(spawner))


def find_gpu_label(options: object, catalog: Catalog) -> str:
    """Return the metric label of the GPU type in user options.

    The label is the slug of the GPU type, ``none`` for no GPU, or ``other`` if the catalog lacks the type.

    :param options: user options, not yet checked.
    """
    chosen = options if isinstance(options, Mapping) else {}
    slug = chosen.get("preset")
    preset = catalog.presets.get(slug) if isinstance(slug, str) else None
    default = next((each for each, _ in catalog.default_gpus), None)
    gpu = chosen.get("gpu", default if preset is None else preset.options.get("gpu", default))
    if not gpu:
        return registry.NO_GPU
    return gpu if isinstance(gpu, str) and gpu in catalog.gpus else registry.OTHER_LABEL
