"""Random queues of Kueue, each for one fleet: flavors, quotas, Cohorts, priorities, and pods of other users."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bench.fit.draw import Draw
from bench.truth.vocabulary import (
    GPU,
    OTHERS_PRIORITIES,
    PRODUCT,
    PRODUCTS,
    TEAM_TAINT,
    USUAL_TAINT,
    Manifest,
    pod,
)

GROUP = "kueue.x-k8s.io"
API_VERSION = f"{GROUP}/v1beta2"
QUEUE_LABEL = f"{GROUP}/queue-name"
PRIORITY_LABEL = f"{GROUP}/priority-class"
EVERY = 3
"""One fleet in so many has a queue."""

_GPU_COUNT = "nvidia.com/gpu.count"
_RESOURCES = ("cpu", "memory", GPU)
_PLENTY = {"cpu": "1000", "memory": "8Ti"}
_POOL_GPUS = 4
"""GPUs that count for a type that only new nodes would have."""


class Trouble(StrEnum):
    """Why a queue admits nothing."""

    NONE = "none"
    STOPPED = "the ClusterQueue is stopped"
    NO_LOCAL_QUEUE = "there is no LocalQueue"
    NO_FLAVOR = "a ResourceFlavor is missing"
    NO_CLASS = "the WorkloadPriorityClass is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The queue of a fleet.

    :param objects: Kueue's objects, in the order in which they are created.
    :param pods: pods of other users in this queue and in its neighbors.
    :param settings: section ``queue`` of the hub's settings.
    :param cluster_queue: name of the ClusterQueue behind the hub's LocalQueue.
    """

    objects: tuple[Manifest, ...]
    pods: tuple[Manifest, ...]
    settings: Manifest
    cluster_queue: str
    trouble: Trouble = Trouble.NONE


def draw_queue(seed: int, nodes: Sequence[Manifest], *, pools: Sequence[Manifest]) -> Queue | None:
    """Return the queue of the fleet of that number, or None if the fleet has none.

    :param nodes: the fleet's nodes.
    :param pools: the fleet's NodePools.
    """
    return _Drawing(seed, _count_gpus(nodes, pools)).finish() if seed % EVERY == 0 else None


def _count_gpus(nodes: Sequence[Manifest], pools: Sequence[Manifest]) -> dict[str, list[int]]:
    """Return label value of each GPU type → number of GPUs on each of its nodes."""
    found: dict[str, list[int]] = {}
    for node in nodes:
        product = node["metadata"]["labels"].get(PRODUCT)
        if product:
            found.setdefault(product, []).append(int(node["status"]["capacity"][GPU]))
    for pool in pools:
        found.setdefault(pool["spec"]["template"]["metadata"]["labels"][PRODUCT], [_POOL_GPUS])
    return dict(sorted(found.items()))


class _Drawing:
    """One queue while it is drawn. The names contain the fleet's number: Kueue never sees a name twice."""

    def __init__(self, seed: int, gpus: Mapping[str, list[int]]) -> None:
        self._draw = Draw(f"truth-queue-{seed}")
        self._seed = seed
        self._gpus = gpus
        self._sizes: dict[str, int] = {}
        """Name of each flavor with GPUs → GPUs on its nodes."""
        self._general = f"general-{seed}" if self._draw.chance(20) else ""
        """Name of the flavor of all CPU and memory; empty where the flavors with GPUs have these, too."""

    def finish(self) -> Queue:
        """Return the queue."""
        draw, seed = self._draw, self._seed
        trouble = draw.weighted({Trouble.NONE: 36, **dict.fromkeys(list(Trouble)[1:], 1)})
        flavors = list(self._draw_flavors())
        if self._general:
            flavors.append(_make("ResourceFlavor", self._general, spec={}))
        classes = [f"{name}-{seed}" for name in ("low", "usual", "high")] if draw.chance(50) else []
        cohort = f"shared-{seed}" if draw.chance(50) else ""
        names = [f"main-{seed}", *(f"other-{number}-{seed}" for number in range(draw.number(1, 2)) if cohort)]
        queues = [self._draw_cluster_queue(name, cohort=cohort) for name in names]
        local = {f"queue-{seed}": names[0], f"team-{seed}": names[0]}
        local |= {f"queue-{number}-{seed}": name for number, name in enumerate(names[1:])}
        settings: Manifest = {"local_queue": f"queue-{seed}"}
        chosen = draw.one([*classes, ""])
        if trouble is Trouble.NO_CLASS:
            chosen = f"absent-{seed}"
        if chosen:
            settings["priority_class"] = chosen
        if draw.chance(15):
            settings["gpus"] = [draw.one([slug for slug, product in PRODUCTS.items() if product in self._gpus])]
        if trouble is Trouble.STOPPED:
            queues[0]["spec"]["stopPolicy"] = "Hold"
        if trouble is Trouble.NO_FLAVOR:
            flavors.pop(0)
        objects = (
            *flavors,
            *(self._draw_cohorts(cohort) if cohort else ()),
            *queues,
            *(_local_queue(name, of) for name, of in local.items() if trouble is not Trouble.NO_LOCAL_QUEUE),
            *(_make("WorkloadPriorityClass", name, value=value) for name, value in zip(classes, _VALUES, strict=False)),
        )
        others = [self._draw_pod(f"queued-{number}", list(local), classes) for number in range(draw.number(4, 12))]
        return Queue(objects=objects, pods=tuple(others), settings=settings, cluster_queue=names[0], trouble=trouble)

    def _draw_flavors(self) -> Iterator[Manifest]:
        draw, every = self._draw, sum(map(sum, self._gpus.values()))
        if draw.chance(30):
            for number in range(draw.number(1, 2)):
                yield self._draw_flavor(f"any-{number}", {}, gpus=every)
            return
        left_out = draw.one(list(self._gpus)) if len(self._gpus) > 1 and draw.chance(20) else ""
        for number, (product, sizes) in enumerate(self._gpus.items()):
            if product == left_out:
                continue
            for copy in range(2 if draw.chance(30) else 1):
                labels = {PRODUCT: product}
                if draw.chance(12):
                    labels[_GPU_COUNT] = str(draw.one(sizes))
                yield self._draw_flavor(f"type-{number}-{copy}", labels, gpus=sum(sizes))

    def _draw_flavor(self, name: str, labels: Mapping[str, str], *, gpus: int) -> Manifest:
        draw, name = self._draw, f"{name}-{self._seed}"
        self._sizes[name] = gpus
        spec: Manifest = {"nodeLabels": dict(labels)}
        if taint := draw.weighted({"": 16, "usual": 5, "team": 1}):
            spec["nodeTaints"] = [USUAL_TAINT if taint == "usual" else TEAM_TAINT]
        if draw.chance(20):
            spec["tolerations"] = [{"key": TEAM_TAINT["key"], "operator": "Exists", "effect": TEAM_TAINT["effect"]}]
        return _make("ResourceFlavor", name, spec=spec)

    def _draw_cluster_queue(self, name: str, *, cohort: str) -> Manifest:
        draw = self._draw
        covered = [each for each in _RESOURCES if each != "memory" or draw.chance(95)]
        spec: Manifest = {
            "namespaceSelector": {},
            "queueingStrategy": draw.weighted({"BestEffortFIFO": 2, "StrictFIFO": 1}),
            "resourceGroups": self._draw_groups(covered, has_parent=bool(cohort)),
        }
        preemption = {}
        if draw.chance(20):
            preemption["withinClusterQueue"] = "LowerPriority"
        if cohort:
            spec["cohortName"] = cohort
            if draw.chance(20):
                preemption["reclaimWithinCohort"] = draw.one(("LowerPriority", "Any"))
        if preemption:
            spec["preemption"] = preemption
        if draw.chance(8):
            spec["flavorFungibility"] = {"whenCanBorrow": "TryNextFlavor"}
        return _make("ClusterQueue", name, spec=spec)

    def _draw_groups(self, covered: Sequence[str], *, has_parent: bool) -> list[Manifest]:
        def draw_group(resources: Sequence[str], sizes: Mapping[str, int]) -> Manifest:
            flavors = [
                {"name": name, "resources": self._draw_quotas(resources, gpus=gpus, has_parent=has_parent)}
                for name, gpus in sizes.items()
            ]
            return {"coveredResources": list(resources), "flavors": flavors}

        if not self._general:
            return [draw_group(covered, self._sizes)]
        every = sum(map(sum, self._gpus.values()))
        general = [each for each in covered if each != GPU]
        return [draw_group([GPU], self._sizes), draw_group(general, {self._general: every})]

    def _draw_quotas(self, resources: Sequence[str], *, gpus: int, has_parent: bool) -> list[Manifest]:
        draw = self._draw
        number = math.ceil(gpus * draw.weighted({0: 1, 25: 2, 50: 5, 100: 6, 200: 2}) / 100)
        amounts = {
            "cpu": draw.weighted({_PLENTY["cpu"]: 3, str(number * 4): 1, str(number * 2): 1}),
            "memory": draw.weighted({_PLENTY["memory"]: 3, f"{number * 16}Gi": 1, f"{number * 6}Gi": 1}),
            GPU: str(number),
        }
        found = []
        for resource in resources:
            quota = {"name": resource, "nominalQuota": amounts[resource]}
            if has_parent and (limit := draw.weighted({"": 4, "0": 1, _halve(amounts[resource]): 2})):
                quota["borrowingLimit"] = limit
            if has_parent and (limit := draw.weighted({"": 4, "0": 1, _halve(amounts[resource]): 2})):
                quota["lendingLimit"] = limit
            found.append(quota)
        return found

    def _draw_cohorts(self, name: str) -> Iterator[Manifest]:
        """Yield the Cohort of the queues, which may have quota and a parent, or nothing: Kueue needs no object."""
        draw = self._draw
        if draw.chance(50):
            return
        has_parent = draw.chance(40)
        spec: Manifest = {"parentName": f"root-{self._seed}"} if has_parent else {}
        if draw.chance(50):
            spec["resourceGroups"] = self._draw_groups(_RESOURCES, has_parent=has_parent)
        if has_parent and draw.chance(50):
            groups = self._draw_groups(_RESOURCES, has_parent=False)
            yield _make("Cohort", f"root-{self._seed}", spec={"resourceGroups": groups})
        yield _make("Cohort", name, spec=spec)

    def _draw_pod(self, name: str, queues: Sequence[str], classes: Sequence[str]) -> Manifest:
        draw = self._draw
        gpus = draw.weighted({0: 1, 1: 4, 2: 4, 4: 2, 8: 1})
        each = max(gpus, 1)
        amounts = {"cpu": str(draw.number(1, 3) * each), "memory": f"{draw.number(1, 8) * each}Gi"}
        if gpus:
            amounts[GPU] = str(gpus)
        product = draw.one(list(self._gpus)) if gpus and draw.chance(85) else ""
        made = pod(name, amounts, product=product, priority=draw.weighted(OTHERS_PRIORITIES))
        labels = {QUEUE_LABEL: draw.one([queues[0], *queues])}
        if classes and draw.chance(70):
            labels[PRIORITY_LABEL] = draw.one(classes)
        made["metadata"]["labels"] = labels
        return made


_VALUES = (-50, 50, 500)
"""Values of the WorkloadPriorityClasses; a pod without one has its PriorityClass's value, mostly 0."""


def _make(kind: str, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, **fields}


def _local_queue(name: str, cluster_queue: str) -> Manifest:
    return _make("LocalQueue", name, spec={"clusterQueue": cluster_queue})


def _halve(amount: str) -> str:
    """Return half of an amount such as ``15Gi``, rounded down."""
    return re.sub(r"\d+", lambda number: str(int(number[0]) // 2), amount)


def find_queue_name(manifest: Mapping[str, Any]) -> str:
    """Return the LocalQueue that a pod's label names, or an empty text."""
    return str((manifest["metadata"].get("labels") or {}).get(QUEUE_LABEL, ""))
