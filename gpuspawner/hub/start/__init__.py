"""Checks a start's pod before anything is created, reports the start's progress, and ends a start that cannot succeed.

KubeSpawner creates the pod and waits for it. This package decides whether to end the wait, and tells the user why.

The input is a spawner with an admitted choice, the offer, and the pods and events in KubeSpawner's reflectors. The
output is progress reports for the page, and a :class:`~gpuspawner.hub.errors.RefusedStart` with other choices that may
work, or a ``SlowStartError``. This package contains no code that parses or admits a choice, or renders a form.

- ``state``: the state of one start. ``preflight``: the verdict and the API server's dry run before the start.
- ``gpu_nodes``: keeps servers without a GPU off GPU nodes.
- ``supervisor``: ends a start that cannot succeed. ``observer``: collects the facts about the start's pod.
- ``stream``: progress and the cancel button for open pages.
- ``alternatives``: other choices in the error that ends a start.
- ``endings``: the pods that failed starts have left, and the reasons why servers ended. ``resumption``: starts that
  outlast the hub's process.
"""

from gpuspawner.hub.start.alternatives import add_alternatives
from gpuspawner.hub.start.endings import (
    add_announcements,
    can_have_left_pod,
    has_failed_start,
    has_never_run,
    note_end,
    read_pods,
    repeat_until_accepted,
    stop_server,
    wait_for_cancelled_start,
)
from gpuspawner.hub.start.gpu_nodes import GPUNodeExclusion
from gpuspawner.hub.start.observer import StartObserver, WorkThrottle
from gpuspawner.hub.start.preflight import draft_pod, run_preflight
from gpuspawner.hub.start.resumption import (
    build_record,
    can_read_pods,
    load_record,
    store_state,
    wait_for_pod,
)
from gpuspawner.hub.start.state import StartingSpawner, StartState
from gpuspawner.hub.start.stream import ProgressFeed, stream_progress
from gpuspawner.hub.start.supervisor import supervise_start

__all__ = [
    "GPUNodeExclusion",
    "ProgressFeed",
    "StartObserver",
    "StartState",
    "StartingSpawner",
    "WorkThrottle",
    "add_alternatives",
    "add_announcements",
    "build_record",
    "can_have_left_pod",
    "can_read_pods",
    "draft_pod",
    "has_failed_start",
    "has_never_run",
    "load_record",
    "note_end",
    "read_pods",
    "repeat_until_accepted",
    "run_preflight",
    "stop_server",
    "store_state",
    "stream_progress",
    "supervise_start",
    "wait_for_cancelled_start",
    "wait_for_pod",
]
