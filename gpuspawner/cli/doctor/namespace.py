"""Rules of ``doctor`` about the servers' namespace, and about the scheduler of the servers' pods.

The rules examine the namespace's ResourceQuotas, LimitRanges and pull secrets, and webhooks that concern its pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity, make_diagnosis, shorten_list
from gpuspawner.cli.doctor.facts import (
    SERVICE_NAME_LABEL,
    ClusterFacts,
    KubernetesObject,
    ObjectKind,
    PodWebhook,
    get_object_name,
    list_pod_webhooks,
)
from gpuspawner.cli.doctor.pod_health import parse_timestamp
from gpuspawner.cli.values.chart_config import DEFAULT_SCHEDULER
from gpuspawner.core.catalog.kueue import QUEUE_LABEL
from gpuspawner.core.catalog.model import Bounds
from gpuspawner.core.cluster.decode import decode_resources
from gpuspawner.core.cluster.decode_selectors import decode_selector
from gpuspawner.core.cluster.selectors import selects_labels
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text, as_text_map
from gpuspawner.core.progress.pod_status import is_bound, is_untouched, read_phase, read_scheduler

_POD_COUNTS = ("pods", "count/pods")
_LOOKED_AT_WITHIN = timedelta(seconds=30)
_LEASE_RENEWED_WITHIN = timedelta(minutes=5)
"""A scheduler counts as down if it has not renewed its Lease for this time.

Schedulers renew their Leases every few seconds. The limit is longer, because the clock of the admin's machine may be
wrong by minutes.
"""
_DEFAULT_SCHEDULER_LEASE = "kube-scheduler"
_UNITS = {"cpu": (1000, "CPUs"), "memory": (1024**3, "GiB")}


def check_namespace(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if the namespace is missing or being deleted."""
    namespaces = facts.list_objects(ObjectKind.NAMESPACES)
    if facts.lacks(ObjectKind.NAMESPACES, facts.namespace):
        row = "namespace-missing"
    elif any(as_dict(namespace.get("metadata")).get("deletionTimestamp") for namespace in namespaces):
        row = "namespace-missing/leaving"
    else:
        return
    yield make_diagnosis(row, objects=[facts.namespace], namespace=facts.namespace)


def check_quotas(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each ResourceQuota that allows 0 pods or 0 GPUs."""
    offered = sorted({gpu.resource for gpu in facts.catalog.gpus.values()})
    for quota in facts.list_objects(ObjectKind.QUOTAS):
        spec, name = as_dict(quota.get("spec")), get_object_name(quota)
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue  # skip a ResourceQuota with scopes, because its scopes may exclude servers
        hard = decode_resources(spec.get("hard"))
        common: dict[str, Any] = {"objects": [name], "quota": name, "namespace": facts.namespace}
        pods = next((key for key in _POD_COUNTS if hard.get(key) == 0), None)
        if pods is not None:
            yield make_diagnosis("quota-no-pods", key=pods, **common)
        for resource in offered:
            if hard.get(key := f"requests.{resource}") == 0:
                yield make_diagnosis("quota-no-gpu", key=key, resource=resource, **common)


def check_limit_ranges(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each limit in a LimitRange that forbids servers which the settings allow."""
    for found in facts.list_objects(ObjectKind.LIMIT_RANGES):
        for item in as_dicts(as_dict(found.get("spec")).get("limits")):
            if item.get("type") in ("Container", "Pod"):
                case = _LimitRangeItem(namespace=facts.namespace, name=get_object_name(found), item=item)
                for resource, bounds in (("cpu", facts.configured.cpu), ("memory", facts.configured.memory)):
                    if bounds is not None:
                        yield from case.find_refusals(resource, bounds)
                yield from case.find_gpu_refusals({gpu.resource for gpu in facts.catalog.gpus.values()})


def check_pod_webhooks(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each Service that must answer pod admission webhooks, but has no ready endpoint.

    If a new pod is subject to such a webhook and the Service does not answer, the API server rejects the pod.
    """
    if ObjectKind.ENDPOINT_SLICES not in facts.read:
        return
    answering = {
        (as_text(metadata.get("namespace")), as_text_map(metadata.get("labels")).get(SERVICE_NAME_LABEL, ""))
        for endpoints in facts.list_objects(ObjectKind.ENDPOINT_SLICES)
        if (metadata := as_dict(endpoints.get("metadata")))
        and any(
            as_dict(found.get("conditions")).get("ready") is not False for found in as_dicts(endpoints.get("endpoints"))
        )
    }
    queue = facts.configured.queue
    labels = {QUEUE_LABEL: queue.local_queue} if queue is not None else {}
    silent: dict[tuple[str, str], list[PodWebhook]] = {}
    for webhook in list_pod_webhooks(facts.read, facts.namespace):
        is_asked = not webhook.object_selector or selects_labels(decode_selector(webhook.object_selector), labels)
        if is_asked and webhook.service not in answering:
            silent.setdefault(webhook.service, []).append(webhook)
    for (owner, service), webhooks in silent.items():
        names = tuple(dict.fromkeys(webhook.name for webhook in webhooks))
        yield make_diagnosis(
            "webhook-silent",
            objects=names,
            webhooks=", ".join(names),
            service=service,
            owner=owner,
            label=SERVICE_NAME_LABEL,
            configurations=", ".join(dict.fromkeys(webhook.configuration for webhook in webhooks)),
            refused="Kubernetes refuses every server that goes through the queue."
            if all(webhook.object_selector for webhook in webhooks)
            else f"Kubernetes refuses every new pod in the namespace {facts.namespace}: every server, with or without "
            "a GPU, and a new pod of the hub.",
        )


def check_pull_secrets(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each image pull secret that does not exist."""
    for name in facts.requirements.pull_secrets if facts.requirements is not None else ():
        if facts.lacks(ObjectKind.SECRETS, name):
            yield make_diagnosis("pull-secret-missing", objects=[name], secret=name, namespace=facts.namespace)


def check_overlooked_pods(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each scheduler that has ignored a pod of the servers' namespace for 30 s or longer.

    A pod counts as ignored if it has no sign of an attempt to schedule it, such as the condition PodScheduled.
    """
    for name, pods in _group_overlooked_pods(facts).items():
        yield make_diagnosis(
            "scheduler-idle",
            objects=[name, *pods],
            namespace=facts.namespace,
            waiting="1 pod waits" if len(pods) == 1 else f"{len(pods)} pods wait",
            them="it" if len(pods) == 1 else "them",
            scheduler=name,
            pods=shorten_list(pods),
            lease=_name_lease(name),
        )


def check_scheduler(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if the scheduler that the Helm values name for servers is down or probably does not exist."""
    name = facts.requirements.scheduler if facts.requirements is not None else DEFAULT_SCHEDULER
    if name in _group_overlooked_pods(facts):
        return
    lease = _name_lease(name)
    leases = [found for found in facts.list_objects(ObjectKind.LEASES) if lease in get_object_name(found)]
    deployments = [found for found in facts.list_objects(ObjectKind.DEPLOYMENTS) if lease in get_object_name(found)]
    own_leases = [found for found in leases if get_object_name(found) in (lease, f"{lease}-lock")]
    own_deployments = [found for found in deployments if get_object_name(found) == lease]
    if own_leases and not any(_is_renewed(found, facts) for found in own_leases):
        sign = f"its Lease {get_object_name(own_leases[0])} was not renewed for 5 minutes or longer"
    elif own_deployments and not any(as_int(_get_status(found).get("availableReplicas")) for found in own_deployments):
        sign = f"the Deployment {get_object_name(own_deployments[0])} has no available pod"
    else:
        if not (leases or deployments or name == DEFAULT_SCHEDULER):
            yield from _check_unknown_scheduler(facts, name)
        return
    yield make_diagnosis("scheduler-down", objects=[name], scheduler=name, sign=sign, lease=lease)


def _check_unknown_scheduler(facts: ClusterFacts, name: str) -> Iterator[Diagnosis]:
    is_complete = {ObjectKind.LEASES, ObjectKind.DEPLOYMENTS, ObjectKind.PODS} <= facts.read.keys()
    # Before the chart is installed, a missing scheduler is no problem: the chart installs it together with the hub.
    has_hub = bool(facts.list_objects(ObjectKind.HUB_PODS))
    has_placed = any(is_bound(pod) and read_scheduler(pod) == name for pod in facts.list_objects(ObjectKind.PODS))
    if is_complete and has_hub and not has_placed:
        yield make_diagnosis(
            "scheduler-unknown", objects=[name], scheduler=name, namespace=facts.namespace, lease=_name_lease(name)
        )


def _group_overlooked_pods(facts: ClusterFacts) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pod in facts.list_objects(ObjectKind.PODS):
        metadata = as_dict(pod.get("metadata"))
        created = parse_timestamp(metadata.get("creationTimestamp"))
        is_old = created is not None and facts.now - created >= _LOOKED_AT_WITHIN
        is_waiting = read_phase(pod) == "Pending" and not metadata.get("deletionTimestamp")
        if is_old and is_waiting and is_untouched(pod):
            found.setdefault(read_scheduler(pod), []).append(get_object_name(pod))
    return found


def _is_renewed(lease: KubernetesObject, facts: ClusterFacts) -> bool:
    spec = as_dict(lease.get("spec"))
    renewed = parse_timestamp(spec.get("renewTime"))
    # Check holderIdentity, too: it is empty if the scheduler stopped cleanly and released its Lease, even if renewTime
    # is recent.
    return (
        renewed is not None
        and facts.now - renewed < _LEASE_RENEWED_WITHIN
        and bool(as_text(spec.get("holderIdentity")))
    )


def _get_status(found: KubernetesObject) -> dict[str, object]:
    return as_dict(found.get("status"))


def _name_lease(scheduler: str) -> str:
    return _DEFAULT_SCHEDULER_LEASE if scheduler == DEFAULT_SCHEDULER else scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class _LimitRangeItem:
    namespace: str
    name: str
    item: KubernetesObject

    def find_refusals(self, resource: str, bounds: Bounds) -> Iterator[Diagnosis]:
        most, least = (decode_resources(self.item.get(key)).get(resource) for key in ("max", "min"))
        ratio = as_dict(self.item.get("maxLimitRequestRatio")).get(resource)
        if most is not None and bounds.max > most:
            severity = DiagnosisSeverity.FAULT if bounds.min > most else DiagnosisSeverity.WARNING
            yield self._make_diagnosis(
                severity, resource, says=f"allows at most {_format_amount(most, resource)}", key="max"
            )
        if least is not None and bounds.min * bounds.guarantee < least:
            yield self._make_diagnosis(
                DiagnosisSeverity.WARNING,
                resource,
                says=f"asks for at least {_format_amount(least, resource)}",
                key="min",
            )
        if isinstance(ratio, str) and bounds.guarantee and 1 / bounds.guarantee > _parse_ratio(ratio):
            yield self._make_diagnosis(
                DiagnosisSeverity.FAULT, resource, says=f"allows a limit of {ratio} times the request", key="guarantee"
            )

    def find_gpu_refusals(self, offered: set[str]) -> Iterator[Diagnosis]:
        allowed = decode_resources(self.item.get("max"))
        for resource in sorted(offered):
            if allowed.get(resource) == 0:
                yield self._make_diagnosis(DiagnosisSeverity.FAULT, resource, says="allows 0", key="")

    def _make_diagnosis(self, severity: DiagnosisSeverity, resource: str, *, says: str, key: str) -> Diagnosis:
        return make_diagnosis(
            "limit-range",
            severity=severity,
            objects=[self.name],
            range=self.name,
            namespace=self.namespace,
            says=says,
            resource=resource,
            type=str(self.item.get("type")).lower(),
            setting=f"\n# or Helm values: hub.config.GPUSpawner.{resource}.{key}" if key else "",
        )


def _format_amount(amount: int, resource: str) -> str:
    size, unit = _UNITS[resource]
    return f"{amount / size:.4g} {unit}"


def _parse_ratio(quantity: str) -> float:
    """Return the maxLimitRequestRatio of a LimitRange as a number, or infinity (no maximum) if it cannot be parsed."""
    found = decode_resources({"cpu": quantity}).get("cpu")
    return float("inf") if found is None else found / 1000
