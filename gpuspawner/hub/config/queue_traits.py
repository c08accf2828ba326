"""The trait for a queue of Kueue, with an example as Helm values."""

from __future__ import annotations

from traitlets import Dict
from traitlets.config import LoggingConfigurable


class QueueTraits(LoggingConfigurable):
    """What servers with a GPU go through before they get a node."""

    queue = Dict(
        allow_none=True,
        help="""
        A queue of Kueue (https://kueue.sigs.k8s.io) that servers with a GPU go through. Left out: they ask the
        scheduler for a node at once. ::

            hub:
              config:
                GPUSpawner:
                  queue: {local_queue: gpu-queue, priority_class: interactive, timeout: 3600, gpus: ["*"]}

        `local_queue` is the name of a LocalQueue in the namespace of the servers, `priority_class` that of a
        WorkloadPriorityClass. `timeout` is how long the hub waits for a server that is queued, in seconds; where its
        type has a longer `start_timeout`, that counts. `gpus` holds the GPU types whose servers are queued, by slug.
        Labels of yours in `KubeSpawner.extra_labels` stay as they are: docs/queue.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)
