"""Works on KubeSpawner's watches: keeps them alive, and reads the pods and events of servers from them.

KubeSpawner watches the pods and events of all its servers through reflectors, which are shared by all spawners of a
namespace. This room reads what the reflectors hold and repairs them where KubeSpawner does not. It asks the API server
nothing itself.

What enters is a spawner or a reflector; what leaves are pods and events as the API server sends them, and who owns a
pod. The room knows nothing of choices, policy or starts.

reflectors: replace dead reflectors, tolerate that the hub may not read events. hub_pods: the pods of this hub's
servers and their owners. events: the events of a pod. private_api: the private names of JupyterHub and KubeSpawner.
"""

from gpuspawner.hub.kubespawner.events import PodEvent, PodEventIndex, select_pod_events
from gpuspawner.hub.kubespawner.hub_pods import (
    ensure_pods_watched,
    has_read_pods,
    list_pods_with,
    list_watched_pods,
    read_pod_owners,
)
from gpuspawner.hub.kubespawner.reflectors import EventsAccess, give_up_dead_reflectors, is_given_up

__all__ = [
    "EventsAccess",
    "PodEvent",
    "PodEventIndex",
    "ensure_pods_watched",
    "give_up_dead_reflectors",
    "has_read_pods",
    "is_given_up",
    "list_pods_with",
    "list_watched_pods",
    "read_pod_owners",
    "select_pod_events",
]
