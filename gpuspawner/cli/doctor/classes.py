"""Things of the cluster that settings name: they have to be there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuspawner.cli.doctor.facts import Facts, Kind, Object, name_of
from gpuspawner.cli.doctor.finding import Finding, Severity
from gpuspawner.core.rawjson import mapping, mappings, text, whole

_DEFAULT_STORAGE = "storageclass.kubernetes.io/is-default-class"
_ZONE = "topology.kubernetes.io/zone"


class _Volume(NamedTuple):
    """Whose volume it is, what happens without it, and which values change that."""

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


def runtime_classes(facts: Facts) -> Iterator[Finding]:
    """Yield RuntimeClasses of GPU types that there are not."""
    wanted: dict[str, list[str]] = {}
    for slug, gpu in facts.configured.gpus.items():
        if gpu.runtime_class is not None:
            wanted.setdefault(gpu.runtime_class, []).append(slug)
    for name, slugs in wanted.items():
        if facts.lacks(Kind.RUNTIME_CLASSES, name):
            yield Finding(
                severity=Severity.FAULT,
                code="runtime-class-missing",
                what=f"There is no RuntimeClass {name}, which GPU type {', '.join(slugs)} asks for.",
                why="Kubernetes refuses every server with it.",
                fix="kubectl apply -f - <<'EOF'\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\n"
                f"metadata:\n  name: {name}\nhandler: {name}\nEOF\n"
                "# the nodes' container runtime needs that handler: nvidia-ctk runtime configure\n"
                f"# or, where NVIDIA's runtime is the default one: gpus.{slugs[0]}.runtime_class: null",
                objects=(name, *slugs),
            )


def priority_classes(facts: Facts) -> Iterator[Finding]:
    """Yield PriorityClasses that settings and values name and that there are not, or that are worth something else."""
    wanted = {each.priority_class: each.value for each in facts.configured.priorities.values()}
    if facts.wishes is not None and facts.wishes.priority_class:
        wanted.setdefault(facts.wishes.priority_class, 0)
    values = {name_of(each): whole(each.get("value")) for each in facts.of(Kind.PRIORITY_CLASSES)}
    own = {each.priority_class for each in facts.configured.priorities.values()}
    for name, value in wanted.items():
        if facts.lacks(Kind.PRIORITY_CLASSES, name):
            yield Finding(
                severity=Severity.FAULT,
                code="priority-class-missing",
                what=f"There is no PriorityClass {name}.",
                why="Kubernetes refuses every server with it.",
                fix=f"kubectl create priorityclass {name} --value={value}",
                objects=(name,),
            )
        elif name in own and values.get(name) not in (None, value):
            yield Finding(
                severity=Severity.WARNING,
                code="priority-value",
                what=f"PriorityClass {name} has the value {values[name]}, and the settings say {value}.",
                why="The form foresees another order of who gets a GPU first than kube-scheduler keeps.",
                fix=f"# Helm values: the priority with class: {name} needs value: {values[name]}",
                objects=(name,),
            )


def queues(facts: Facts) -> Iterator[Finding]:
    """Yield what Kueue lacks of what the settings want of it."""
    queue = facts.configured.queue
    if queue is None:
        return
    if Kind.LOCAL_QUEUES in facts.unserved:
        yield Finding(
            severity=Severity.FAULT,
            code="kueue-missing",
            what=f"Servers with GPUs are to go through the queue {queue.local_queue}, and there is no Kueue.",
            why="Nothing queues them: they start in any order, past every quota of the queue.",
            fix="helm install kueue oci://registry.k8s.io/kueue/charts/kueue --namespace kueue-system "
            "--create-namespace\n# or take it away: hub.config.GPUSpawner.queue: null",
            objects=(queue.local_queue,),
        )
    elif facts.lacks(Kind.LOCAL_QUEUES, queue.local_queue):
        known = ", ".join(map(name_of, facts.of(Kind.LOCAL_QUEUES))) or "none"
        yield Finding(
            severity=Severity.FAULT,
            code="queue-missing",
            what=f"There is no LocalQueue {queue.local_queue} in the namespace {facts.namespace} (there: {known}).",
            why="Servers with GPUs wait in it forever.",
            fix="kubectl apply -f - <<'EOF'\napiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata:\n"
            f"  name: {queue.local_queue}\n  namespace: {facts.namespace}\nspec:\n  clusterQueue: NAME\nEOF",
            objects=(queue.local_queue,),
        )
    else:
        yield from _inactive(facts, queue.local_queue)
    if queue.priority_class and facts.lacks(Kind.QUEUE_PRIORITIES, queue.priority_class):
        yield Finding(
            severity=Severity.FAULT,
            code="queue-priority-missing",
            what=f"There is no WorkloadPriorityClass {queue.priority_class}.",
            why="Kueue takes no server in.",
            fix="kubectl apply -f - <<'EOF'\napiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\n"
            f"metadata:\n  name: {queue.priority_class}\nvalue: 0\ndescription: notebooks\nEOF",
            objects=(queue.priority_class,),
        )


def storage(facts: Facts) -> Iterator[Finding]:
    """Yield why volumes will not be made, or will bind users' servers to a zone too early."""
    if facts.wishes is None or Kind.STORAGE_CLASSES not in facts.read:
        return
    yield from _missing_storage(facts)
    if not facts.wishes.wants_claims:
        return
    used = _used(facts, facts.wishes.storage_class)
    zones = {node.labels[_ZONE] for node in facts.nodes if _ZONE in node.labels}
    if used and len(zones) > 1 and used[0].get("volumeBindingMode", "Immediate") == "Immediate":
        yield Finding(
            severity=Severity.WARNING,
            code="storage-immediate",
            what=f"StorageClass {name_of(used[0])} makes volumes at once, and nodes are in {len(zones)} zones.",
            why="A volume may be made where there is no GPU of the type that was picked: the server never starts.",
            fix=f"kubectl get storageclass {name_of(used[0])} -o yaml | "
            "sed 's/volumeBindingMode: Immediate/volumeBindingMode: WaitForFirstConsumer/' | "
            "kubectl replace --force -f -",
            objects=(name_of(used[0]),),
        )


def _missing_storage(facts: Facts) -> Iterator[Finding]:
    """Yield the StorageClasses that there are not, each once."""
    wanted: dict[str, list[_Volume]] = {}
    if facts.wishes is not None and facts.wishes.wants_claims:
        wanted.setdefault(facts.wishes.storage_class, []).append(_HOME)
    # That of a hub that was put on a node is there.
    is_up = any(mapping(each.get("spec")).get("nodeName") for each in facts.of(Kind.HUB_PODS))
    if facts.wishes is not None and facts.wishes.database_class is not None and not is_up:
        wanted.setdefault(facts.wishes.database_class, []).append(_DATABASE)
    known = facts.of(Kind.STORAGE_CLASSES)
    for name, volumes in wanted.items():
        if _used(facts, name):
            continue
        what = f"no StorageClass {name}" if name else "no default StorageClass"
        there = ", ".join(map(name_of, known)) or "none"
        first = name_of(known[0]) if known else "NAME"
        who = ", and ".join(each.who for each in volumes)
        yield Finding(
            severity=Severity.FAULT,
            code="storage-class-missing",
            what=f"{who[0].upper()}{who[1:]}, and there is {what} (there: {there}).",
            why=" ".join(each.why for each in volumes),
            fix=f"kubectl annotate storageclass {first} {_DEFAULT_STORAGE}=true --overwrite"
            + "".join(f"\n# or Helm values: {each.instead}" for each in volumes),
            objects=(name,) if name else (),
        )


def _used(facts: Facts, name: str) -> list[Object]:
    """Return the StorageClass of a name, or the default one where there is no name."""
    known = facts.of(Kind.STORAGE_CLASSES)
    return [each for each in known if (name_of(each) == name if name else _is_default(each))]


def _inactive(facts: Facts, name: str) -> Iterator[Finding]:
    queue = next((each for each in facts.of(Kind.LOCAL_QUEUES) if name_of(each) == name), {})
    for each in mappings(mapping(queue.get("status")).get("conditions")):
        if each.get("type") == "Active" and each.get("status") == "False":
            told = text(each.get("message")) or text(each.get("reason"))
            yield Finding(
                severity=Severity.FAULT,
                code="queue-inactive",
                what=f"LocalQueue {name} of the namespace {facts.namespace} is not active: {told}.",
                why="Servers with GPUs wait in it until it is.",
                fix=f"kubectl describe localqueue {name} -n {facts.namespace}",
                objects=(name,),
            )


def _is_default(storage_class: Object) -> bool:
    annotations = mapping(mapping(storage_class.get("metadata")).get("annotations"))
    return annotations.get(_DEFAULT_STORAGE) == "true"
