"""A cluster in one page of text, for the report of a test that failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubernetes.client import CoreV1Api

from devcluster import Cluster
from devcluster.hub import Hub

EVENTS_SHOWN = 40


def describe(cluster: Cluster, hubs: Iterable[Hub]) -> str:
    """Return pods, the last events and the hubs' logs; an error on the way ends the text instead of the report."""
    lines: list[str] = []
    try:
        with cluster.api_client() as api:
            for part in (_pods(CoreV1Api(api)), _events(CoreV1Api(api)), _logs(hubs)):
                lines.extend(part)
    except Exception as error:  # noqa: BLE001 - the test's own failure is what must be read
        lines.append(f"(no more: {type(error).__name__}: {error})")
    return "\n".join(lines)


def _pods(core: CoreV1Api) -> Iterator[str]:
    yield "-- pods"
    for pod in core.list_pod_for_all_namespaces().items:
        conditions = [f"{c.type}={c.status} {c.message or ''}".strip() for c in pod.status.conditions or []]
        place = f"{pod.metadata.namespace}/{pod.metadata.name} on {pod.spec.node_name}"
        yield f"{place}: {pod.status.phase} {'; '.join(conditions)}"


def _events(core: CoreV1Api) -> Iterator[str]:
    yield "-- last events"
    events = core.list_event_for_all_namespaces().items
    events.sort(key=lambda event: str(event.last_timestamp or event.event_time or event.metadata.creation_timestamp))
    for event in events[-EVENTS_SHOWN:]:
        yield f"{event.involved_object.kind}/{event.involved_object.name} {event.reason}: {event.message}"


def _logs(hubs: Iterable[Hub]) -> Iterator[str]:
    for hub in hubs:
        yield f"-- log of the hub in {hub.run_dir}"
        yield hub.log_tail()
