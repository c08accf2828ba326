"""Rules of ``doctor`` about objects that the Helm values name.

The objects are RuntimeClasses, PriorityClasses, Kueue's queues and StorageClasses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuspawner.cli.doctor.choices import can_scale_up
from gpuspawner.cli.doctor.diagnosis import Diagnosis, make_diagnosis, shorten_list
from gpuspawner.cli.doctor.facts import ClusterFacts, KubernetesObject, ObjectKind, get_object_name
from gpuspawner.cli.values.chart_config import ChartRequirements
from gpuspawner.core.catalog.kueue import (
    FlavorCapacity,
    QueueCapacity,
    QuotaAnswer,
    QuotaJudgment,
    read_capacity,
)
from gpuspawner.core.catalog.model import GPUType, TraitValues
from gpuspawner.core.cluster.decode_selectors import InvalidSelectorError, decode_selector
from gpuspawner.core.cluster.model import NodeSelectorTerm, PodConstraints, SelectorRequirement
from gpuspawner.core.cluster.selectors import DOES_NOT_EXIST, IN, selects_labels
from gpuspawner.core.form.fields import try_validate
from gpuspawner.core.json_access import as_dict, as_int, as_message, as_text, as_text_map, find_condition
from gpuspawner.core.request.field_definitions import PRIORITY, Priority
from gpuspawner.core.request.pod_requirements import calculate_resources

_DEFAULT_STORAGE = "storageclass.kubernetes.io/is-default-class"
_ZONE = "topology.kubernetes.io/zone"


class _Volume(NamedTuple):
    """Texts about a volume, for the finding that its StorageClass is missing.

    :param who: clause about who gets the volume.
    :param why: sentence about the consequence.
    :param instead: Helm values that the admin may change instead of creating the StorageClass.
    """

    who: str
    why: str
    instead: str


_HOME = _Volume(
    "each user gets a volume",
    "The volume is never made, and its server waits for it until it times out.",
    "singleuser.storage.dynamic.storageClass, or singleuser.storage.type: none",
)
_DATABASE = _Volume(
    "the hub's database gets a volume",
    "Without that of its database the hub does not start.",
    "hub.db.pvc.storageClassName, or hub.db.type: sqlite-memory, which forgets everything at each restart",
)


def check_runtime_classes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each missing RuntimeClass that the settings name.

    A GPU type or a ``kubespawner_override`` may name a RuntimeClass.
    """
    slugs_by_class: dict[str, list[str]] = {}
    for slug, gpu in facts.configured.gpus.items():
        if gpu.runtime_class is not None:
            slugs_by_class.setdefault(gpu.runtime_class, []).append(slug)
    # An empty list means that only a kubespawner_override names the RuntimeClass.
    for overrides in _list_overrides(facts):
        pod = as_dict(overrides.get("extra_pod_config"))
        if name := as_text(pod.get("runtimeClassName")) or as_text(pod.get("runtime_class_name")):
            slugs_by_class.setdefault(name, [])
    for name, slugs in slugs_by_class.items():
        if facts.lacks(ObjectKind.RUNTIME_CLASSES, name):
            described = (
                f"# or, where NVIDIA's runtime is the default one: gpus.{slugs[0]}.runtime_class: null" if slugs else ""
            )
            yield make_diagnosis(
                "runtime-class-missing",
                objects=[name, *slugs],
                runtime=name,
                who=f"GPU type {', '.join(slugs)}" if slugs else "a kubespawner_override",
                instead=described,
            )


def _list_overrides(facts: ClusterFacts) -> Iterator[TraitValues]:
    """Yield each ``kubespawner_override`` of images and GPU types in the settings."""
    configured = facts.configured
    yield from (image.overrides for image in configured.images.values())
    yield from (gpu.overrides for gpu in configured.gpus.values())


def check_priority_classes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each PriorityClass of servers that is missing, or whose value differs from the settings."""
    priorities = facts.configured.choices.get(PRIORITY.name, {}).values()
    own = {priority.priority_class: priority.value for priority in priorities if isinstance(priority, Priority)}
    required = dict(own)
    if facts.requirements is not None and facts.requirements.priority_class:
        required.setdefault(facts.requirements.priority_class, 0)
    for overrides in _list_overrides(facts):
        if name := as_text(overrides.get("priority_class_name")):
            required.setdefault(name, 0)
    values = {
        get_object_name(found): as_int(found.get("value")) for found in facts.list_objects(ObjectKind.PRIORITY_CLASSES)
    }
    for name, value in required.items():
        if facts.lacks(ObjectKind.PRIORITY_CLASSES, name):
            yield make_diagnosis("priority-class-missing", objects=[name], priority=name, value=value)
        elif name in own and values.get(name) not in (None, value):
            yield make_diagnosis("priority-value", objects=[name], priority=name, value=value, real=values[name])


def check_queues(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield findings if Kueue, a LocalQueue or a WorkloadPriorityClass is missing, or if a queue is inactive.

    The settings name the LocalQueue and the WorkloadPriorityClass. :func:`check_queue_capacity` reports a missing
    ClusterQueue.
    """
    queue = facts.configured.queue
    if queue is None:
        return
    name, priority = queue.local_queue, queue.priority_class
    if ObjectKind.LOCAL_QUEUES in facts.unserved:
        yield make_diagnosis("kueue-missing", objects=[name], queue=name)
    elif facts.lacks(ObjectKind.LOCAL_QUEUES, name):
        known = ", ".join(map(get_object_name, facts.list_objects(ObjectKind.LOCAL_QUEUES))) or "none"
        yield make_diagnosis("queue-missing", objects=[name], queue=name, namespace=facts.namespace, known=known)
    else:
        yield from _check_inactive_queue(facts, name)
    if priority and facts.lacks(ObjectKind.QUEUE_PRIORITIES, priority):
        yield make_diagnosis("queue-priority-missing", objects=[priority], priority=priority)


def _find_object(facts: ClusterFacts, kind: ObjectKind, *, name: str) -> KubernetesObject:
    return next((found for found in facts.list_objects(kind) if get_object_name(found) == name), {})


def _find_cluster_queue(facts: ClusterFacts, local_queue: str) -> str:
    found = _find_object(facts, ObjectKind.LOCAL_QUEUES, name=local_queue)
    return as_text(as_dict(found.get("spec")).get("clusterQueue"))


def _explain_inactive(queue: KubernetesObject) -> str:
    active, policy = find_condition(queue, "Active"), as_dict(queue.get("spec")).get("stopPolicy")
    if active.get("status") == "False":
        return as_message(active.get("message")) or as_text(active.get("reason"))
    return f"its stopPolicy is {policy}" if policy not in (None, "None") else ""


def _check_inactive_queue(facts: ClusterFacts, name: str) -> Iterator[Diagnosis]:
    above = _find_cluster_queue(facts, name)
    # If both queues are inactive, report only the ClusterQueue: only its message says why.
    for kind, key, called, where in (
        (ObjectKind.CLUSTER_QUEUES, above, f"ClusterQueue {above} of LocalQueue {name}", ""),
        (ObjectKind.LOCAL_QUEUES, name, f"LocalQueue {name}", f" -n {facts.namespace}"),
    ):
        if reason := _explain_inactive(_find_object(facts, kind, name=key)):
            yield make_diagnosis(
                "queue-inactive",
                objects=[key],
                queue=called,
                namespace=facts.namespace,
                reason=reason.rstrip("."),
                kind=kind.value.removesuffix("s"),
                where=f"{key}{where}",
            )
            return


def check_queue_capacity(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield findings about the ClusterQueue of the LocalQueue that the settings name.

    - The ClusterQueue is missing, or does not select the namespace.
    - Kueue never admits servers with a GPU type, or only servers with fewer GPUs than ``max_count``.
    - Kueue may assign a ResourceFlavor to servers, but no node with their GPU types has the flavor's labels.
    """
    queue = facts.configured.queue
    name = _find_cluster_queue(facts, queue.local_queue) if queue is not None else ""
    if queue is None or not name or ObjectKind.CLUSTER_QUEUES not in facts.read:
        return
    if facts.lacks(ObjectKind.CLUSTER_QUEUES, name):
        yield make_diagnosis(
            "queue-missing/cluster", objects=[name], queue=name, local=queue.local_queue, namespace=facts.namespace
        )
        return
    yield from _check_selected_namespace(facts, name)
    cluster_queue = _find_object(facts, ObjectKind.CLUSTER_QUEUES, name=name)
    capacity = read_capacity(cluster_queue, flavors=facts.read.get(ObjectKind.QUEUE_FLAVORS))
    if capacity is None:
        return
    types = [gpu for gpu in facts.catalog.gpus.values() if queue.accepts(gpu.slug)]
    for gpu in types:
        yield from _QueuedType(facts, name, capacity, gpu).find_obstacles()
    yield from _check_empty_flavors(facts, name, capacity=capacity, types=types)


def _check_selected_namespace(facts: ClusterFacts, name: str) -> Iterator[Diagnosis]:
    found = _find_object(facts, ObjectKind.NAMESPACES, name=facts.namespace)
    selector = as_dict(_find_object(facts, ObjectKind.CLUSTER_QUEUES, name=name).get("spec")).get("namespaceSelector")
    try:
        is_selected = selects_labels(
            decode_selector(selector), as_text_map(as_dict(found.get("metadata")).get("labels"))
        )
    except InvalidSelectorError:
        return
    if found and not is_selected:
        yield make_diagnosis("queue-excludes-namespace", objects=[name], queue=name, namespace=facts.namespace)


def _make_constraints(facts: ClusterFacts, gpu: GPUType) -> PodConstraints:
    terms = tuple(
        NodeSelectorTerm(
            expressions=tuple(
                SelectorRequirement(key=key, operator=IN if values else DOES_NOT_EXIST, values=tuple(values))
                for key, values in match.items()
            )
        )
        for match in gpu.label_matches
    )
    return PodConstraints(
        node_selector=dict(facts.catalog.own.node_selector),
        node_terms=terms if all(gpu.label_matches) else None,
        tolerations=(*facts.tolerations, *gpu.tolerations),
    )


def _check_empty_flavors(
    facts: ClusterFacts, name: str, *, capacity: QueueCapacity, types: list[GPUType]
) -> Iterator[Diagnosis]:
    let_in: dict[str, list[GPUType]] = {}
    flavors: dict[str, FlavorCapacity] = {}
    for gpu in types:
        for flavor in capacity.list_flavors(gpu.resource, _make_constraints(facts, gpu)):
            flavors[flavor.name] = flavor
            let_in.setdefault(flavor.name, []).append(gpu)
    for flavor in flavors.values():
        labels = flavor.node.labels if flavor.node is not None else {}
        nodes = [node for node in facts.nodes if labels.items() <= node.labels.items()]
        own = let_in[flavor.name]
        if not labels or any(gpu.matches_labels(node.labels) for gpu in own for node in nodes):
            continue
        written = [f"{key}={value}" for key, value in labels.items()]
        yield make_diagnosis(
            "queue-flavor-empty/growing" if can_scale_up(facts) else "queue-flavor-empty",
            objects=[flavor.name, *(gpu.slug for gpu in own)],
            slugs=shorten_list([gpu.slug for gpu in own]),
            flavor=flavor.name,
            queue=name,
            labels=", ".join(written),
            selector=",".join(written),
        )


_ROWS_BY_ANSWER = {
    QuotaAnswer.UNCOVERED: "queue-uncovered",
    QuotaAnswer.NO_FLAVOR: "queue-flavor-mismatch",
    QuotaAnswer.EXCEEDED: "queue-quota-small",
}


@dataclass(frozen=True, slots=True)
class _QueuedType:
    facts: ClusterFacts
    queue: str
    capacity: QueueCapacity
    gpu: GPUType

    def find_obstacles(self) -> Iterator[Diagnosis]:
        one = self._judge(1)
        if one.answer in _ROWS_BY_ANSWER:
            yield self._make_diagnosis(
                _ROWS_BY_ANSWER[one.answer],
                resource=one.resource,
                which=shorten_list(one.flavors) or "its flavors",
                flavors=(", " if one.answer is QuotaAnswer.EXCEEDED else " ").join(one.flavors),
            )
            return
        judged = {count: self._judge(count) for count in range(2, self.gpu.max_count + 1)}
        too_many = next((count for count, each in judged.items() if each.answer is QuotaAnswer.EXCEEDED), None)
        if too_many is not None:
            yield self._make_diagnosis(
                "queue-quota-small/count",
                resource=judged[too_many].resource,
                count=self.gpu.max_count,
                most=too_many - 1,
            )

    def _judge(self, count: int) -> QuotaJudgment:
        gpu, catalog = self.gpu, self.facts.catalog
        requests = {gpu.resource: count}
        selection = try_validate({"gpu": gpu.slug, "gpu_count": count}, catalog)
        if selection is not None:
            chosen = calculate_resources(selection, catalog)
            amounts = {
                "cpu": chosen.cpu_request_millis or chosen.cpu_limit_millis,
                "memory": chosen.memory_request_bytes or chosen.memory_limit_bytes,
            }
            requests |= {name: number for name, number in amounts.items() if number is not None}
        return self.capacity.judge(requests, _make_constraints(self.facts, gpu))

    def _make_diagnosis(self, row: str, **words: Any) -> Diagnosis:
        slug = self.gpu.slug
        return make_diagnosis(row, objects=[self.queue, slug], queue=self.queue, slug=slug, **words)


def check_storage(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield findings about missing StorageClasses, and about home volumes that may be in the wrong zone.

    A home volume may be in a zone without the chosen GPUs if the cluster has several zones and the StorageClass creates
    volumes before their pods are scheduled.
    """
    if facts.requirements is None or ObjectKind.STORAGE_CLASSES not in facts.read:
        return
    yield from _check_storage_classes(facts, facts.requirements)
    if not facts.requirements.wants_claims:
        return
    used = _find_storage_classes(facts, facts.requirements.storage_class)
    zones = {node.labels[_ZONE] for node in facts.nodes if _ZONE in node.labels}
    if used and len(zones) > 1 and used[0].get("volumeBindingMode", "Immediate") == "Immediate":
        name = get_object_name(used[0])
        yield make_diagnosis("storage-immediate", objects=[name], storage=name, zones=len(zones))


def _check_storage_classes(facts: ClusterFacts, requirements: ChartRequirements) -> Iterator[Diagnosis]:
    volumes_by_class: dict[str, list[_Volume]] = {}
    if requirements.wants_claims:
        volumes_by_class.setdefault(requirements.storage_class, []).append(_HOME)
    # If the hub's pod is on a node, the volume of the hub's database exists and needs no StorageClass any more.
    is_up = any(as_dict(pod.get("spec")).get("nodeName") for pod in facts.list_objects(ObjectKind.HUB_PODS))
    if requirements.database_class is not None and not is_up:
        volumes_by_class.setdefault(requirements.database_class, []).append(_DATABASE)
    known = facts.list_objects(ObjectKind.STORAGE_CLASSES)
    for name, volumes in volumes_by_class.items():
        if _find_storage_classes(facts, name):
            continue
        who = ", and ".join(volume.who for volume in volumes)
        yield make_diagnosis(
            "storage-class-missing",
            objects=[name] if name else [],
            who=f"{who[0].upper()}{who[1:]}",
            what=f"no StorageClass {name}" if name else "no default StorageClass",
            known=", ".join(map(get_object_name, known)) or "none",
            lost=" ".join(volume.why for volume in volumes),
            first=get_object_name(known[0]) if known else "NAME",
            instead="\n".join(f"# or Helm values: {volume.instead}" for volume in volumes),
        )


def _find_storage_classes(facts: ClusterFacts, name: str) -> list[KubernetesObject]:
    known = facts.list_objects(ObjectKind.STORAGE_CLASSES)
    return [found for found in known if (get_object_name(found) == name if name else _is_default(found))]


def _is_default(storage_class: KubernetesObject) -> bool:
    annotations = as_dict(as_dict(storage_class.get("metadata")).get("annotations"))
    return annotations.get(_DEFAULT_STORAGE) == "true"
