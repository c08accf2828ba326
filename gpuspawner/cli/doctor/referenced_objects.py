"""Rules about objects that the Helm values name: RuntimeClasses, PriorityClasses, Kueue's queues, StorageClasses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity
from gpuspawner.cli.doctor.facts import ClusterFacts, KubernetesObject, ObjectKind, get_object_name
from gpuspawner.cli.values.chart_config import ChartRequirements
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text
from gpuspawner.core.request.field_definitions import PRIORITY, Priority

_DEFAULT_STORAGE = "storageclass.kubernetes.io/is-default-class"
_ZONE = "topology.kubernetes.io/zone"


class _Volume(NamedTuple):
    """Texts about a volume: who needs it, the consequence if it is missing, and Helm values that avoid it."""

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
    """Yield a finding for each missing RuntimeClass that GPU types name."""
    slugs_by_class: dict[str, list[str]] = {}
    for slug, gpu in facts.configured.gpus.items():
        if gpu.runtime_class is not None:
            slugs_by_class.setdefault(gpu.runtime_class, []).append(slug)
    for name, slugs in slugs_by_class.items():
        if facts.lacks(ObjectKind.RUNTIME_CLASSES, name):
            yield Diagnosis(
                severity=DiagnosisSeverity.FAULT,
                code="runtime-class-missing",
                what=f"There is no RuntimeClass {name}, which GPU type {', '.join(slugs)} asks for.",
                why="Kubernetes refuses every server with it.",
                fix="kubectl apply -f - <<'EOF'\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\n"
                f"metadata:\n  name: {name}\nhandler: {name}\nEOF\n"
                "# the nodes' container runtime needs that handler: nvidia-ctk runtime configure\n"
                f"# or, where NVIDIA's runtime is the default one: gpus.{slugs[0]}.runtime_class: null",
                objects=(name, *slugs),
            )


def check_priority_classes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each PriorityClass that is missing, or has another value than the settings say."""
    priorities = facts.configured.choices.get(PRIORITY.name, {}).values()
    own = {each.priority_class: each.value for each in priorities if isinstance(each, Priority)}
    required = dict(own)
    if facts.requirements is not None and facts.requirements.priority_class:
        required.setdefault(facts.requirements.priority_class, 0)
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
    """Yield a finding for each object of Kueue that the settings name and that is missing or inactive."""
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
            fix="kubectl apply -f - <<'EOF'\napiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata:\n"
            f"  name: {queue.local_queue}\n  namespace: {facts.namespace}\nspec:\n  clusterQueue: NAME\nEOF",
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
            fix="kubectl apply -f - <<'EOF'\napiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\n"
            f"metadata:\n  name: {queue.priority_class}\nvalue: 0\ndescription: notebooks\nEOF",
            objects=(queue.priority_class,),
        )


def check_storage(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield findings about StorageClasses that are missing or that create home volumes before a server is scheduled."""
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
    # If the hub's pod is on a node, the volume of its database exists and needs no StorageClass any more.
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


def _check_inactive_queue(facts: ClusterFacts, name: str) -> Iterator[Diagnosis]:
    queue = next((each for each in facts.list_objects(ObjectKind.LOCAL_QUEUES) if get_object_name(each) == name), {})
    for each in as_dicts(as_dict(queue.get("status")).get("conditions")):
        if each.get("type") == "Active" and each.get("status") == "False":
            reason = as_text(each.get("message")) or as_text(each.get("reason"))
            yield Diagnosis(
                severity=DiagnosisSeverity.FAULT,
                code="queue-inactive",
                what=f"LocalQueue {name} of the namespace {facts.namespace} is not active: {reason}.",
                why="Servers with GPUs wait in it until it is.",
                fix=f"kubectl describe localqueue {name} -n {facts.namespace}",
                objects=(name,),
            )


def _is_default(storage_class: KubernetesObject) -> bool:
    annotations = as_dict(as_dict(storage_class.get("metadata")).get("annotations"))
    return annotations.get(_DEFAULT_STORAGE) == "true"
