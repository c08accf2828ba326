"""Random fleets, each of one number: nodes, pods on them and before them, NodePools, a queue, and a hub's settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.fit.draw import Draw
from bench.truth.queues import Queue, draw_queue
from bench.truth.vocabulary import (
    GPU,
    INSTANCE_TYPE,
    MACHINE_GPUS,
    OTHERS_PRIORITIES,
    PRODUCT,
    PRODUCTS,
    TEAM_TAINT,
    USUAL_TAINT,
    Manifest,
    gpu_labels,
    machine_name,
    node,
    pod,
)
from devcluster.simulated import SIMULATED

AWS = "karpenter.k8s.aws/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One random cluster and the settings of its hub.

    :param pools: Karpenter's NodePools.
    :param placeholders: pods of the lowest priority, bound to nodes.
    :param pods: others: bound to nodes, or waiting.
    :param is_refilled: whether a controller creates ended placeholders anew, as zero-to-jupyterhub's StatefulSet does.
    :param settings: section GPUSpawner of the hub's configuration.
    :param queue: Kueue's queue for servers with GPUs; None for none.
    :param hides_pools: whether the hub sees nothing of the autoscaler, neither NodePools nor a label that it reads, as
        with most autoscalers.
    """

    seed: int
    nodes: tuple[Manifest, ...]
    pools: tuple[Manifest, ...]
    placeholders: tuple[Manifest, ...]
    pods: tuple[Manifest, ...]
    is_refilled: bool
    settings: Manifest
    queue: Queue | None = None
    hides_pools: bool = False

    @property
    def products(self) -> frozenset[str]:
        """Return the label values of the GPUs that the fleet has or may get."""
        labels = [each["metadata"]["labels"] for each in self.nodes]
        labels += [each["spec"]["template"]["metadata"]["labels"] for each in self.pools]
        return frozenset(each[PRODUCT] for each in labels if PRODUCT in each)


def draw_fleet(seed: int) -> Fleet:
    """Return the fleet of that number, the same in every process."""
    draw = Draw(f"truth-{seed}")
    slugs = draw.some(list(PRODUCTS), least=2, most=3)
    nodes = [each for slug in slugs for each in _gpu_nodes(draw, slug)] + list(_cpu_nodes(draw))
    pool_slugs = draw.some(list(PRODUCTS), most=2) if draw.chance(75) else []
    pools = [_pool(draw, f"pool-{number}", product=PRODUCTS[slug]) for number, slug in enumerate(pool_slugs)]
    placeholders, bound = _bound_pods(draw, nodes)
    waiting = [
        _waiting_pod(draw, f"waiting-{number}", products=[PRODUCTS[slug] for slug in slugs])
        for number in range(draw.weighted({0: 3, 1: 2, 3: 1}))
    ]
    # The settings describe the types that no node has yet; the others are discovered by their labels, or described.
    is_refilled = draw.chance(50)
    settings = _settings([slug for slug in PRODUCTS if slug in pool_slugs or (slug in slugs and draw.chance(30))])
    queue = draw_queue(seed, nodes, pools=pools)
    hides_pools = bool(pools) and queue is None and Draw(f"truth-pools-{seed}").chance(40)
    # NodePools describe all that may be added. Where the hub does not see them, the default holds: nodes may be added.
    settings |= {} if hides_pools else {"new_nodes": "none"}
    return Fleet(
        seed=seed,
        nodes=tuple(nodes),
        pools=tuple(pools),
        placeholders=tuple(placeholders),
        pods=(*bound, *waiting),
        is_refilled=is_refilled,
        settings=settings if queue is None else {**settings, "queue": queue.settings},
        queue=queue,
        hides_pools=hides_pools,
    )


def _gpu_nodes(draw: Draw, slug: str) -> Iterator[Manifest]:
    gpus = draw.weighted({1: 1, 2: 2, 4: 3, 8: 2})
    amounts = {
        "cpu": str(gpus * draw.one((4, 8, 12))),
        "memory": f"{gpus * draw.one((16, 32, 64))}Gi",
        GPU: str(gpus),
    }
    taints = draw.weighted({(): 5, ("usual",): 4, ("team",): 1})
    for number in range(draw.number(1, 3)):
        mine = [{"usual": USUAL_TAINT, "team": TEAM_TAINT}[each] for each in taints]
        if not mine and draw.chance(10):
            mine = [TEAM_TAINT]
        made = node(f"{slug}-{number}", amounts, labels=gpu_labels(PRODUCTS[slug], gpus), taints=mine)
        if draw.chance(10):
            made["spec"]["unschedulable"] = True
        if draw.chance(10):
            made["status"]["allocatable"][GPU] = str(gpus - 1)
        yield made


def _cpu_nodes(draw: Draw) -> Iterator[Manifest]:
    for number in range(draw.number(1, 2)):
        cpus = draw.one((8, 16, 32))
        yield node(f"cpu-{number}", {"cpu": str(cpus), "memory": f"{cpus * 4}Gi"}, labels={}, taints=[])


def _pool(draw: Draw, name: str, *, product: str) -> Manifest:
    sizes = draw.some(MACHINE_GPUS, least=1, most=3)
    most = max(sizes)
    limits: Mapping[str, str] | None = draw.one(
        (None, {GPU: str(most * draw.number(1, 3))}, {"cpu": str(most * 8 * draw.number(1, 2))}, {GPU: "1"})
    )
    machine_names = [machine_name(gpus) for gpus in sorted(sizes)]
    requirements = [{"key": INSTANCE_TYPE, "operator": "In", "values": machine_names}]
    if len(sizes) == 1 and draw.chance(60):
        requirements += [{"key": key, "operator": "In", "values": [value]} for key, value in _known_size(most)]
    spec: Manifest = {
        "requirements": requirements,
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "expireAfter": "Never",
    }
    if taint := draw.weighted({"": 3, "usual": 2, "team": 1}):
        spec["taints"] = [USUAL_TAINT if taint == "usual" else TEAM_TAINT]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": {SIMULATED: "true", PRODUCT: product}}, "spec": spec},
            "disruption": {"consolidateAfter": "Never"},
            # Without a limit a fleet would grow for as long as users ask.
            "limits": limits or {"cpu": "400"},
        },
    }


def _known_size(gpus: int) -> Iterable[tuple[str, str]]:
    """Return what Karpenter's provider for AWS would know of a machine."""
    return {f"{AWS}instance-gpu-count": str(gpus), f"{AWS}instance-gpu-manufacturer": "nvidia"}.items()


def _bound_pods(draw: Draw, nodes: Sequence[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """Return placeholders and other pods that take some of each node."""
    placeholders: list[Manifest] = []
    others: list[Manifest] = []
    for each in nodes:
        name, product = each["metadata"]["name"], each["metadata"]["labels"].get(PRODUCT, "")
        left = int(each["status"]["allocatable"].get(GPU, 0)) if product else draw.number(0, 3)
        while left > 0 and draw.chance(65):
            size = min(left, draw.weighted({1: 4, 2: 2, 4: 1}))
            left -= size
            is_placeholder = draw.chance(35)
            amounts = {"cpu": str(size), "memory": f"{4 * size}Gi", **({GPU: str(size)} if product else {})}
            number = len(placeholders) + len(others)
            priority = "placeholder" if is_placeholder else draw.weighted(OTHERS_PRIORITIES)
            kind = "placeholder" if is_placeholder else "other"
            made = pod(f"{kind}-{number}", amounts, product=product, priority=priority)
            made["spec"]["nodeName"] = name
            (placeholders if is_placeholder else others).append(made)
    return placeholders, others


def _waiting_pod(draw: Draw, name: str, *, products: Sequence[str]) -> Manifest:
    """Return a pod of another user that asks for much, so that it often waits."""
    gpus = draw.weighted({0: 1, 2: 2, 4: 2, 8: 3})
    amounts = {"cpu": str(draw.number(1, 12)), "memory": f"{draw.number(1, 64)}Gi"}
    if gpus:
        amounts[GPU] = str(gpus)
    product = draw.one(products) if gpus and draw.chance(80) else ""
    return pod(name, amounts, product=product, priority=draw.weighted(OTHERS_PRIORITIES))


def _settings(described: Sequence[str]) -> Manifest:
    gpus: dict[str, Any] = {
        slug: {
            "display_name": slug.upper(),
            "resource": GPU,
            "match": {PRODUCT: [PRODUCTS[slug]]},
            "max_count": 8,
            "tolerations": [{"key": GPU, "operator": "Exists"}],
        }
        for slug in described
    }
    return {
        "images": {"lab": {"display_name": "JupyterLab", "image": "images.example/lab:1"}},
        "cpu": {"min": 1, "max": 64, "step": 1, "default": 1},
        "memory": {"min": "1G", "max": "256G", "step": "1G", "default": "1G"},
        "priorities": {
            "usual": {"display_name": "Usual", "class": "usual", "value": 0},
            "urgent": {"display_name": "Urgent", "class": "urgent", "value": 1000},
            "patient": {"display_name": "Patient", "class": "patient", "value": 100},
        },
        "gpus": gpus,
    }


def draw_options(draw: Draw, offered: Mapping[str, int]) -> Manifest:
    """Return a user's choice in the form.

    :param offered: slug of each GPU type → largest number that the form offers.
    """
    options: Manifest = {"v": 1, "image": "lab", "priority": draw.weighted({"usual": 6, "urgent": 1, "patient": 1})}
    if offered and draw.chance(88):
        slug = draw.one(sorted(offered))
        count = min(offered[slug], draw.weighted({1: 6, 2: 4, 4: 2, 8: 1}))
        options |= {"gpu": slug, "gpu_count": count}
        return {**options, "cpu": draw.number(1, 4) * count, "memory": f"{draw.number(1, 16) * count}G"}
    return {**options, "cpu": draw.number(1, 16), "memory": f"{draw.number(1, 64)}G"}


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happens between two spawns.

    :param kind: ``end`` a pod, or ``cordon`` or ``uncordon`` a node.
    :param name: of the pod or node.
    """

    kind: str
    name: str


def draw_changes(draw: Draw, *, pods: Sequence[str], cordoned: Mapping[str, bool]) -> list[Change]:
    """Return what happens before the next spawn; often nothing.

    :param pods: names of the pods that may end.
    :param cordoned: name of each node that may be cordoned → whether it is.
    """
    changes = []
    if pods and draw.chance(33):
        changes += [Change("end", name) for name in draw.some(sorted(pods), most=3)]
    if cordoned and draw.chance(6):
        name = draw.one(sorted(cordoned))
        changes.append(Change("uncordon" if cordoned[name] else "cordon", name))
    return changes
