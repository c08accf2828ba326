"""Runs a start: checks its pod before anything is created, observes it, reports progress and ends it in time.

KubeSpawner creates the pod and waits for it. This room decides whether the wait goes on, and says why not.

What enters are a spawner with an admitted choice, the offer, and the pods and events of KubeSpawner's reflectors. What
leaves are progress reports for the page, and a :class:`~gpuspawner.hub.errors.RefusedStart` or ``SlowStartError`` with
the choices to make instead. The room does not know how a choice is parsed or admitted, nor how a form is built.

state: what a spawner keeps of one start. preflight: the verdict and the dry run before the start. supervisor: ends a
start that cannot succeed. observer: collects the facts about the pod. stream: reports for open pages. alternatives:
choices named in the error. cancellation: the cancel button, and what a failed start has left.
"""

from gpuspawner.hub.start.alternatives import add_alternatives
from gpuspawner.hub.start.observer import StartObserver, WorkThrottle
from gpuspawner.hub.start.preflight import draft_pod, run_preflight
from gpuspawner.hub.start.state import StartingSpawner, StartState
from gpuspawner.hub.start.stream import ProgressFeed, stream_progress
from gpuspawner.hub.start.supervisor import supervise_start

__all__ = [
    "ProgressFeed",
    "StartObserver",
    "StartState",
    "StartingSpawner",
    "WorkThrottle",
    "add_alternatives",
    "draft_pod",
    "run_preflight",
    "stream_progress",
    "supervise_start",
]
