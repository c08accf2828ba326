"""Our answer about a case beside the scheduler's."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.fit.oracle import Decision
from bench.fit.scene import Case, Manifest, Scene
from gpuspawner.core.cluster.decode import decode_node, decode_pod
from gpuspawner.core.cluster.decode_selectors import decode_volume_terms
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.cluster.volumes import (
    collect_volumes,
    decode_csi_node,
    decode_persistent_volume,
    decode_volume_attachment,
)
from gpuspawner.core.scheduling.results import Answer, FitResult, ScanResult
from gpuspawner.core.scheduling.scan import check_node, scan_nodes

UNBOUND = "a volume that is chosen when the pod is placed"


class Outcome(StrEnum):
    """How two answers compare."""

    AGREED = "agreed"
    DISAGREED = "disagreed"
    UNKNOWN = "unknown"
    NOT_RETRIED = "not retried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """Our answers about a case: for each node, by its name, and for all of them at one look."""

    nodes: Mapping[str, FitResult]
    survey: ScanResult

    @property
    def answer(self) -> Answer:
        """Return what the single nodes come to."""
        answers = {found.answer for found in self.nodes.values()}
        return next((answer for answer in (Answer.YES, Answer.UNKNOWN) if answer in answers), Answer.NO)

    @property
    def contradicts_itself(self) -> bool:
        """Say whether the look at all nodes says something else than the looks at each."""
        takers = sum(found.answer is Answer.YES for found in self.nodes.values())
        return (
            self.survey.answer is not self.answer
            or (self.survey.places > 0) != (takers > 0)
            or self.survey.fit_if_empty < takers
        )


def occupancy(nodes: Sequence[Manifest], pods: Sequence[Manifest], *, scene: Scene) -> Occupancy:
    """Return a scene, with its nodes and pods as the API server has them, in the form that we answer from."""
    known = (decode_pod(pod) for pod in pods)
    found = Occupancy.build((decode_node(node) for node in nodes), (pod for pod in known if pod is not None))
    found.put_volumes(
        collect_volumes(
            map(decode_csi_node, scene.csi_nodes),
            map(decode_persistent_volume, scene.volumes),
            attachments=map(decode_volume_attachment, scene.attachments),
        )
    )
    return found


def ask_ourselves(case: Case, known: Occupancy, *, admitted: Manifest) -> Opinion:
    """Return what we say about a pod that is not created yet, as a start does: from the answer to a dry run."""
    pod = decode_pod(admitted)
    if pod is None:
        raise ValueError(f"case {case.seed} is no pod that may start")
    pod = known.volumes.add_needs(_with_volumes(pod, case.scene), new_claims={})
    nodes = {node.name: check_node(pod, node, occupancy=known) for node in known.nodes}
    return Opinion(nodes=nodes, survey=scan_nodes(pod, known))


def _with_volumes(pod: Pod, scene: Scene) -> Pod:
    """Return the pod with the nodes that its claims' volumes allow, as a hub that may read volumes would see it."""
    names = {claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in scene.claims}
    volumes = {volume["metadata"]["name"]: volume for volume in scene.volumes}
    constraints = pod.constraints
    unbound = tuple(UNBOUND for claim in constraints.unread_claims if claim not in names)
    terms = [
        term
        for claim in constraints.unread_claims
        if claim in names
        for term in decode_volume_terms(volumes[names[claim]])
    ]
    return dataclasses.replace(
        pod,
        constraints=dataclasses.replace(
            constraints, unread_claims=(), volume_terms=tuple(terms), undecided=(*constraints.undecided, *unbound)
        ),
    )


def compare(opinion: Opinion, decision: Decision) -> Outcome:
    """Return how our opinion stands beside the scheduler's decision.

    Where it bound the pod, some node has to be a yes and the one it chose must not be a no. Where not, none may be one.
    With a preemption the node where it ended others is the one it chose: without them the pod may fit on more nodes.

    kube-scheduler does not try a pod again when a victim with several anti-affinity terms is gone unless all of the
    terms match the pod. The pod then waits until the scheduler tries all pods again, within 5 min.

    A preemption can be in vain, and then the pod does not start: to find its victims, kube-scheduler subtracts deleted
    pods that match a topology spread constraint, although it has not counted them (``updateWithPod`` and
    ``countPodsMatchSelector`` of ``podtopologyspread``).
    """
    node = decision.node if decision.is_in_vain else decision.preempting or decision.node
    chosen = opinion.nodes[node].answer if node else None
    if opinion.contradicts_itself or chosen is Answer.NO:
        return Outcome.DISAGREED
    if opinion.answer is Answer.UNKNOWN or chosen is Answer.UNKNOWN:
        return Outcome.UNKNOWN
    if chosen is Answer.YES and not decision.node:
        return Outcome.NOT_RETRIED
    return Outcome.AGREED if bool(decision.node) == (opinion.answer is Answer.YES) else Outcome.DISAGREED


def describe(case: Case, opinion: Opinion, decision: Decision) -> str:
    """Return everything about a case, for a reader: how to see it again, both answers, and all objects."""
    ours = [f"  {name}: {found.answer} {_words(found)}" for name, found in opinion.nodes.items()]
    scheduler = f"bound to {decision.node}" if decision.node else f"{decision.reason}: {decision.message}"
    scene = case.scene
    objects = {"nodes": scene.nodes, "pods": scene.pods, "volumes": scene.volumes}
    objects |= {"CSINodes": scene.csi_nodes, "attachments": scene.attachments}
    return "\n".join(
        [
            f"case {case.seed}: python -m bench fit --decisions 1 --seed {case.seed}",
            f"scheduler: {scheduler}",
            f"ours: {opinion.answer}; all nodes at one look: {opinion.survey}",
            *ours,
            f"pod: {json.dumps(case.pod)}",
            *(f"{kind}: {json.dumps(each)}" for kind, found in objects.items() for each in found),
            f"leaving: {sorted(case.scene.leaving)}, statuses: {json.dumps(case.scene.statuses)}",
        ]
    )


def _words(found: FitResult) -> str:
    return ", ".join(f"{obstacle.reason}({obstacle.detail})" for obstacle in found.obstacles)
