"""Rules of ``doctor`` about objects that the Helm values name.

The objects are RuntimeClasses, PriorityClasses, Kueue's queues and StorageClasses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gpuspawner.cli.doctor.choices import can_scale_up
from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity, shorten_list
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
_OLD_KUEUE = "# Kueue before 0.15 serves v1beta1 only."


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
            yield Diagnosis(
                severity=DiagnosisSeverity.FAULT,
                code="runtime-class-missing",
                what=f"There is no RuntimeClass {name}, which "
                + (f"GPU type {', '.join(slugs)} asks for." if slugs else "a kubespawner_override asks for."),
                why="Kubernetes refuses every server with it.",
                fix="kubectl apply -f - <<'EOF'\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\n"
                f"metadata:\n  name: {name}\nhandler: {name}\nEOF\n"
                "# the nodes' container runtime needs that handler: nvidia-ctk runtime configure\n"
                + (
                    f"# or, where NVIDIA's runtime is the default one: gpus.{slugs[0]}.runtime_class: null"
                    if slugs
                    else ""
                ),
                objects=(name, *slugs),
            )


def _list_overrides(facts: ClusterFacts) -> Iterator[TraitValues]:
    """Yield each ``kubespawner_override`` of images and GPU types in the settings."""
    configured = facts.configured
    yield from (image.overrides for image in configured.images.values())
    yield from (gpu.overrides for gpu in configured.gpus.values())


def check_priority_classes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each PriorityClass of servers that is missing, or whose value differs from the settings."""
    priorities = facts.configured.choices.get(PRIORITY.name, {}).values()
    own = {each.priority_class: each.value for each in priorities if isinstance(each, Priority)}
    required = dict(own)
    if facts.requirements is not None and facts.requirements.priority_class:
        required.setdefault(facts.requirements.priority_class, 0)
    for overrides in _list_overrides(facts):
        if name := as_text(overrides.get("priority_class_name")):
            required.setdefault(name, 0)
    values = {
        get_object_name(each): as_int(each.get("value")) for each in facts.list_objects(ObjectKind.PRIORITY_CLASSES)
    }
    for name, value in required.items():
        if facts.lacks(ObjectKind.PRIORITY_CLASSES, name):
            yield Diagnosis(
                severity=DiagnosisSeverity.FAULT,
                code="priority-class-missing",
                what=f"There is no PriorityClass {name}.",
                why="Kubernetes refuses every server with it.",
                fix=f"kubectl create priorityclass {name} --value={value}",
                objects=(name,),
            )
        elif name in own and values.get(name) not in (None, value):
            yield Diagnosis(
                severity=DiagnosisSeverity.WARNING,
                code="priority-value",
                what=f"PriorityClass {name} has the value {values[name]}, and the settings say {value}.",
                why="The form foresees another order of who gets a GPU first than kube-scheduler keeps.",
                fix=f"# Helm values: the priority with class: {name} needs value: {values[name]}",
                objects=(name,),
            )


def check_queues(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield findings if Kueue, a LocalQueue or a WorkloadPriorityClass is missing, or if a queue is inactive.

    The settings name the LocalQueue and the WorkloadPriorityClass. :func:`check_queue_capacity` reports a missing
    ClusterQueue.
    """
    queue = facts.configured.queue
    if queue is None:
        return
    if ObjectKind.LOCAL_QUEUES in facts.unserved:
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="kueue-missing",
            what=f"Servers with GPUs are to go through the queue {queue.local_queue}, and there is no Kueue.",
            why="Nothing queues them: they start in any order, past every quota of the queue.",
            fix="helm install kueue oci://registry.k8s.io/kueue/charts/kueue --namespace kueue-system "
            "--create-namespace\n# or take it away: hub.config.GPUSpawner.queue: null",
            objects=(queue.local_queue,),
        )
    elif facts.lacks(ObjectKind.LOCAL_QUEUES, queue.local_queue):
        known = ", ".join(map(get_object_name, facts.list_objects(ObjectKind.LOCAL_QUEUES))) or "none"
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="queue-missing",
            what=f"There is no LocalQueue {queue.local_queue} in the namespace {facts.namespace} (there: {known}).",
            why="Servers with GPUs wait in it forever.",
            fix="kubectl apply -f - <<'EOF'\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata:\n"
            f"  name: {queue.local_queue}\n  namespace: {facts.namespace}\nspec:\n  clusterQueue: NAME\nEOF\n"
            f"{_OLD_KUEUE}",
            objects=(queue.local_queue,),
        )
    else:
        yield from _check_inactive_queue(facts, queue.local_queue)
    if queue.priority_class and facts.lacks(ObjectKind.QUEUE_PRIORITIES, queue.priority_class):
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="queue-priority-missing",
            what=f"There is no WorkloadPriorityClass {queue.priority_class}.",
            why="Kueue takes no server in.",
            fix="kubectl apply -f - <<'EOF'\napiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\n"
            f"metadata:\n  name: {queue.priority_class}\nvalue: 0\ndescription: notebooks\nEOF\n{_OLD_KUEUE}",
            objects=(queue.priority_class,),
        )


def _find_object(facts: ClusterFacts, kind: ObjectKind, *, name: str) -> KubernetesObject:
    return next((each for each in facts.list_objects(kind) if get_object_name(each) == name), {})


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
            yield Diagnosis(
                severity=DiagnosisSeverity.FAULT,
                code="queue-inactive",
                what=f"{called} of the namespace {facts.namespace} is not active: {reason.rstrip('.')}.",
                why="Servers with GPUs wait in it until it is.",
                fix=f"kubectl describe {kind.value.removesuffix('s')} {key}{where}",
                objects=(key,),
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
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="queue-missing",
            what=f"There is no ClusterQueue {name}, to which LocalQueue {queue.local_queue} of the namespace "
            f"{facts.namespace} belongs.",
            why="Kueue admits no server with a GPU.",
            fix="kubectl get clusterqueues\n# an example: helm-values/kueue.yaml",
            objects=(name,),
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
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="queue-excludes-namespace",
            what=f"The namespaceSelector of ClusterQueue {name} does not select the namespace {facts.namespace}.",
            why="Kueue admits no server with a GPU.",
            fix=f'kubectl patch clusterqueue {name} --type=merge -p \'{{"spec": {{"namespaceSelector": '
            f'{{"matchLabels": {{"kubernetes.io/metadata.name": "{facts.namespace}"}}}}}}}}\'',
            objects=(name,),
        )


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
        slugs = shorten_list([gpu.slug for gpu in own])
        listed = ", ".join(f"{key}={value}" for key, value in labels.items())
        yield Diagnosis(
            severity=DiagnosisSeverity.NOTE if can_scale_up(facts) else DiagnosisSeverity.WARNING,
            code="queue-flavor-empty",
            what=f"No node with GPU type {slugs} has the nodeLabels of ResourceFlavor {flavor.name} in ClusterQueue "
            f"{name}: {listed}.",
            why="Kueue adds these labels to the node selector of a server that it admits with this flavor: the server "
            "then waits for a node, or for an autoscaler that adds one.",
            fix=f"kubectl get nodes -l {','.join(f'{key}={value}' for key, value in labels.items())}\n"
            f"kubectl edit resourceflavor {flavor.name}",
            objects=(flavor.name, *(gpu.slug for gpu in own)),
        )


@dataclass(frozen=True, slots=True)
class _QueuedType:
    facts: ClusterFacts
    queue: str
    capacity: QueueCapacity
    gpu: GPUType

    def find_obstacles(self) -> Iterator[Diagnosis]:
        one, slug = self._judge(1), self.gpu.slug
        match one.answer:
            case QuotaAnswer.UNCOVERED:
                yield self._make_fault(
                    code="queue-uncovered",
                    what=f"ClusterQueue {self.queue} has no quota for {one.resource}, which servers with GPU type "
                    f"{slug} request.",
                    advice=f"# add {one.resource} to coveredResources and to each flavor,\n# unless Kueue's own "
                    "configuration takes it out of requests\n# (resources.excludeResourcePrefixes, .transformations)",
                )
            case QuotaAnswer.NO_FLAVOR:
                yield self._make_fault(
                    code="queue-flavor-mismatch",
                    what=f"No ResourceFlavor of ClusterQueue {self.queue} lets servers with GPU type {slug} in: "
                    f"the nodeLabels or nodeTaints of {shorten_list(one.flavors) or 'its flavors'} contradict them.",
                    advice=f"kubectl get resourceflavors {' '.join(one.flavors)} -o yaml\n"
                    f"# nodeLabels need the labels of gpus.{slug}.match, or none of the flavors has these labels;\n"
                    f"# nodeTaints need tolerations, in the flavor or in gpus.{slug}.tolerations",
                )
            case QuotaAnswer.EXCEEDED:
                yield self._make_fault(
                    code="queue-quota-small",
                    what=f"The whole quota of ClusterQueue {self.queue} for {one.resource}, with all that it may "
                    f"borrow, is less than a server with one GPU of type {slug} requests by default.",
                    advice=f"# more nominalQuota for {one.resource} in one of: {', '.join(one.flavors)}",
                )
            case _:
                yield from self._find_excess()

    def _find_excess(self) -> Iterator[Diagnosis]:
        gpu = self.gpu
        judged = {count: self._judge(count) for count in range(2, gpu.max_count + 1)}
        too_many = next((count for count, each in judged.items() if each.answer is QuotaAnswer.EXCEEDED), None)
        if too_many is not None:
            resource = judged[too_many].resource
            yield Diagnosis(
                severity=DiagnosisSeverity.WARNING,
                code="queue-quota-small",
                what=f"The form offers up to {gpu.max_count} GPUs of type {gpu.slug}, and the whole quota of "
                f"ClusterQueue {self.queue} for {resource} is enough for {too_many - 1}.",
                why="Kueue never admits a server with more.",
                fix=f"kubectl edit clusterqueue {self.queue}\n# or Helm values:\nhub:\n  config:\n    GPUSpawner:\n"
                f"      gpus:\n        {gpu.slug}:\n          max_count: {too_many - 1}",
                objects=(self.queue, gpu.slug),
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

    def _make_fault(self, *, code: str, what: str, advice: str) -> Diagnosis:
        return Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code=code,
            what=what,
            why="Kueue never admits such a server.",
            fix=f"kubectl edit clusterqueue {self.queue}\n{advice}",
            objects=(self.queue, self.gpu.slug),
        )


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
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="storage-immediate",
            what=f"StorageClass {get_object_name(used[0])} makes volumes at once, and nodes are in {len(zones)} zones.",
            why="A volume may be made where there is no GPU of the type that was picked: the server never starts.",
            fix=f"kubectl get storageclass {get_object_name(used[0])} -o yaml | "
            "sed 's/volumeBindingMode: Immediate/volumeBindingMode: WaitForFirstConsumer/' | "
            "kubectl replace --force -f -",
            objects=(get_object_name(used[0]),),
        )


def _check_storage_classes(facts: ClusterFacts, requirements: ChartRequirements) -> Iterator[Diagnosis]:
    volumes_by_class: dict[str, list[_Volume]] = {}
    if requirements.wants_claims:
        volumes_by_class.setdefault(requirements.storage_class, []).append(_HOME)
    # If the hub's pod is on a node, the volume of the hub's database exists and needs no StorageClass any more.
    is_up = any(as_dict(each.get("spec")).get("nodeName") for each in facts.list_objects(ObjectKind.HUB_PODS))
    if requirements.database_class is not None and not is_up:
        volumes_by_class.setdefault(requirements.database_class, []).append(_DATABASE)
    known = facts.list_objects(ObjectKind.STORAGE_CLASSES)
    for name, volumes in volumes_by_class.items():
        if _find_storage_classes(facts, name):
            continue
        what = f"no StorageClass {name}" if name else "no default StorageClass"
        there = ", ".join(map(get_object_name, known)) or "none"
        first = get_object_name(known[0]) if known else "NAME"
        who = ", and ".join(each.who for each in volumes)
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="storage-class-missing",
            what=f"{who[0].upper()}{who[1:]}, and there is {what} (there: {there}).",
            why=" ".join(each.why for each in volumes),
            fix=f"kubectl annotate storageclass {first} {_DEFAULT_STORAGE}=true --overwrite"
            + "".join(f"\n# or Helm values: {each.instead}" for each in volumes),
            objects=(name,) if name else (),
        )


def _find_storage_classes(facts: ClusterFacts, name: str) -> list[KubernetesObject]:
    known = facts.list_objects(ObjectKind.STORAGE_CLASSES)
    return [each for each in known if (get_object_name(each) == name if name else _is_default(each))]


def _is_default(storage_class: KubernetesObject) -> bool:
    annotations = as_dict(as_dict(storage_class.get("metadata")).get("annotations"))
    return annotations.get(_DEFAULT_STORAGE) == "true"
