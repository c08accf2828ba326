"""Predicts with the hub's own code whether a user's server starts with one choice of options.

The explanation also says why nodes reject the pod. The reasons resemble kube-scheduler's messages and name the resource
or taint that causes the rejection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jupyterhub.utils import maybe_future

from gpuspawner.cli.common.output import Document
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.catalog.policy_model import AccessKey, Person
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.state import KnownOccupancy, get_occupancy
from gpuspawner.core.errors import PolicyError, Problem, SelectionError, SettingsError
from gpuspawner.core.policy.admission import Admission, UnreadClusterError, admit
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.request.candidate import read_candidate
from gpuspawner.core.request.options import split_options
from gpuspawner.core.request.selection import Selection, build_options, find_image
from gpuspawner.core.scheduling.results import Answer, FitResult, Obstacle, Reason
from gpuspawner.core.scheduling.scan import check_each_node
from gpuspawner.core.text.i18n import translate_now
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.core.verdict.wording import format_verdict
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.errors import RefusedProfile
from gpuspawner.hub.form.live import find_startable_alternatives
from gpuspawner.hub.pod.patch import PodChoice, apply_choice, list_gpu_resources, merge_overrides
from gpuspawner.hub.pod.preview import JudgedPod, exclude_gpu_nodes, judge_pod, serialize_pod
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.preflight import draft_pod

_OBSTACLE_TEXTS = {
    Reason.GATED: "a scheduling gate has to go first",
    Reason.UNSCHEDULABLE: "cordoned",
    Reason.NODE_NAME: "the pod names another node",
    Reason.TAINT: "untolerated taint {detail}",
    Reason.NODE_AFFINITY: "the pod's node selector or affinity does not match",
    Reason.VOLUME_NODE_AFFINITY: "the pod's volume cannot be used there",
    Reason.HOST_PORT: "a port of the host is taken",
    Reason.TOO_MANY_PODS: "too many pods",
    Reason.INSUFFICIENT: "insufficient {detail}",
    Reason.VOLUME_LIMIT: "as many disks as it may have",
    Reason.SPREAD: "the pod's topology spread constraint on {detail}",
    Reason.POD_AFFINITY: "the pod's affinity to other pods, by {detail}",
    Reason.POD_ANTI_AFFINITY: "the pod's anti-affinity, by {detail}",
    Reason.EXISTING_ANTI_AFFINITY: "the anti-affinity of pods that are there, by {detail}",
    Reason.UNDECIDED: "not known: {detail}",
}
_PODS_UNREAD = "not known: pods that are there cannot be read"
REFUSED = "refused"
"""Outcome of a choice that the hub refuses."""


def group_nodes(pod: Pod, known: KnownOccupancy) -> list[Document]:
    """Group all nodes by whether the pod fits on them, and by the reasons if it does not fit or may not fit.

    The order of the groups: those on which the pod fits, those on which it does not, those with an unknown answer.
    Groups with the same answer are sorted by size, the largest first.

    :param known: the nodes with their pods, and whether the hub can read all pods.
    """
    names: dict[FitResult, list[str]] = {}
    for node, fit in check_each_node(pod, known.occupancy):
        names.setdefault(fit, []).append(node.name)
    groups = [_describe_group(fit, found, pods_known=known.pods_known) for fit, found in names.items()]
    answers = list(Answer)
    return sorted(groups, key=lambda group: (answers.index(group["answer"]), -group["number"], group["why"]))


def _describe_group(fit: FitResult, names: list[str], *, pods_known: bool) -> Document:
    answer, why = fit.answer.value, list(map(_format_obstacle, fit.obstacles))
    if fit.answer is Answer.YES and not pods_known:
        answer, why = Answer.UNKNOWN.value, [_PODS_UNREAD]
    return {"number": len(names), "names": names, "answer": answer, "why": why}


def _format_obstacle(obstacle: Obstacle) -> str:
    return _OBSTACLE_TEXTS[obstacle.reason].format(detail=translate_now(obstacle.detail))


def _describe_choice(admission: Admission, catalog: Catalog, *, manifest: Mapping[str, Any]) -> Document:
    """Return what the user's selection sets in the pod, and which users may choose what is in the selection.

    ``access`` has no parts of the selection that every user may choose.
    """
    selection = admission.selection
    named: dict[AccessKey, str] = {("image", selection.image): find_image(selection, catalog).display_name}
    if selection.gpu is not None:
        named["gpu", selection.gpu] = catalog.gpus[selection.gpu].display_name
    access = catalog.policy.access if catalog.policy is not None else {}
    return {
        "kubespawner_override": dict(merge_overrides(admission.placement.overrides)),
        "resources": dict(manifest["spec"]["containers"][0].get("resources") or {}),
        "access": {
            name: {"allowed_groups": sorted(access[key].groups), "allowed_users": sorted(access[key].users)}
            for key, name in named.items()
            if key in access
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The predicted outcome of a choice.

    :param options: the user options that the hub would store; empty if the choice is invalid, or cannot be validated
        because the nodes cannot be read.
    :param invalid: problems that make the choice invalid for every user.
    :param refused: why the user's policy or the namespace's quotas deny the choice; empty if no denial is known. None
        if the choice is invalid, or if the admin named no user and no quota denies the choice.
    :param verdict: the prediction for the pod that the hub would create, or None if the choice is invalid.
    :param nodes: the nodes, grouped by whether the pod fits on them, and by the reasons if it does not.
    :param nearest: user options of similar choices that start now. Empty if there are none, or if they were not needed:
        the choice is invalid, or the hub accepts it and the verdict is "now" or unknown.
    :param manifest: the pod's manifest as the hub would send it to the API server.
    :param choice: what the choice means for the pod; None if the choice is invalid or cannot be validated.
    """

    options: Mapping[str, object]
    invalid: tuple[Problem, ...] = ()
    refused: tuple[Problem, ...] | None = None
    verdict: Verdict | None = None
    nodes: Sequence[Document] = ()
    nearest: tuple[Mapping[str, object], ...] = ()
    manifest: Mapping[str, Any] | None = None
    choice: Document | None = None

    @property
    def outcome(self) -> str:
        """``refused`` if the choice is invalid, or policy or a quota denies it; else a value of :class:`Outcome`."""
        if self.invalid or self.refused:
            return REFUSED
        return Outcome.UNKNOWN.value if self.verdict is None else self.verdict.outcome.value

    def serialize(self) -> Document:
        """Return the explanation as a JSON object; parts that are None or concern no valid choice are missing."""
        document: Document = {"outcome": self.outcome, "options": dict(self.options)}
        if self.invalid:
            document["invalid"] = list(map(_serialize_problem, self.invalid))
        if self.refused is not None:
            document["policy"] = {"allowed": not self.refused, "refused": list(map(_serialize_problem, self.refused))}
        if self.verdict is not None:
            document["verdict"] = {
                "outcome": self.verdict.outcome.value,
                "sentence": format_verdict(self.verdict),
                "places": self.verdict.places,
                "places_exact": self.verdict.places_exact,
                "minutes": self.verdict.minutes,
                "ahead": self.verdict.ahead,
            }
        if self.choice is not None:
            document["choice"] = self.choice
        nearest = [dict(options) for options in self.nearest]
        return {**document, "nodes": list(self.nodes), "nearest": nearest, "manifest": self.manifest}


async def explain_choice(spawner: GPUSpawner, options: object, *, offer: Offer, asks_policy: bool) -> Explanation:
    """Return the predicted outcome of user options.

    :param spawner: the user's spawner, from :func:`gpuspawner.cli.cluster.offline_spawner.open_offline_spawner`.
    :param options: the user options, any JSON value.
    :param asks_policy: whether to apply the policy's rules to the user; if false, only the namespace's quotas apply.
    :raises SettingsError: KubeSpawner cannot build a pod from the admin's Helm values and the choice.
    """
    allowed = await _read_allowance(spawner, offer, asks_policy=asks_policy)
    own = split_options(options, spawner.extra_options).own
    check = partial(admit, own, unread_types=offer.uncounted if offer.unread_reason else None)
    refused: tuple[Problem, ...] | None = () if asks_policy else None
    try:
        try:
            admission = check(allowance=allowed)
        except PolicyError as error:
            refused = error.problems
            admission = check(allowance=Allowance(full_catalog=_open_to_all(offer.catalog), person=Person(name="")))
    except UnreadClusterError:
        unknown = Verdict(outcome=Outcome.UNKNOWN, reason=offer.unread_reason)
        return Explanation(options={}, refused=refused, verdict=unknown)
    except SelectionError as error:
        return Explanation(options={}, invalid=error.problems)
    choice = PodChoice(placement=admission.placement, resources=list_gpu_resources(offer.catalog))
    manifest = await _build_manifest(spawner, partial(apply_choice, spawner, choice))
    timeout_s = float(admission.placement.start_timeout_s or spawner.start_timeout)
    judged = await judge_pod(spawner, manifest, offer=offer, gpu=admission.gpu, start_timeout_s=timeout_s)
    verdict = Verdict(outcome=Outcome.UNKNOWN) if judged is None else judged.verdict
    is_settled = not verdict.needs_alternatives and not refused
    if judged is not None:
        avoided = admission.placement.avoided
        manifest = exclude_gpu_nodes(manifest, judged.pod, avoided=avoided, inventory=offer.inventory)
    return Explanation(
        options=admission.options,
        refused=refused,
        verdict=verdict,
        nodes=_group_nodes(judged, offer),
        nearest=() if is_settled else await _find_nearest(spawner, admission.selection, offer=offer, allowed=allowed),
        manifest=manifest,
        choice=_describe_choice(admission, offer.catalog, manifest=manifest),
    )


async def explain_profile(
    spawner: GPUSpawner, options: Mapping[str, object], *, offer: Offer, asks_policy: bool
) -> Explanation:
    """Return the predicted outcome of a profile of KubeSpawner's ``profile_list``.

    :param options: the user options, as KubeSpawner's form sends them.
    :param asks_policy: whether the admin asks what a certain user may do.
    :raises SettingsError: KubeSpawner cannot build a pod from the admin's Helm values and the profile.
    """
    spawner.user_options = dict(options)
    try:
        manifest = await _build_manifest(spawner, spawner.load_user_options)
    except RefusedProfile as error:
        problem = Problem(field="profile", code=error.code, message=error.jupyterhub_message)
        return Explanation(options={}, invalid=(problem,))
    gpu, timeout_s = spawner.start_state.feed.gpu, float(spawner.start_timeout)
    candidate = read_candidate(manifest, offer.catalog, names_image=spawner.start_state.names_image)
    judged = await judge_pod(spawner, manifest, offer=offer, gpu=gpu, start_timeout_s=timeout_s)
    denials = (await _read_allowance(spawner, offer, asks_policy=asks_policy)).check_candidate(candidate)
    return Explanation(
        options=options,
        refused=denials if asks_policy or denials else None,
        verdict=Verdict(outcome=Outcome.UNKNOWN) if judged is None else judged.verdict,
        nodes=_group_nodes(judged, offer),
        manifest=manifest,
    )


def _group_nodes(judged: JudgedPod | None, offer: Offer) -> Sequence[Document]:
    known = get_occupancy(offer.inventory)
    return () if judged is None or known is None else group_nodes(judged.pod, known)


def _open_to_all(catalog: Catalog) -> Catalog:
    """Return a copy of a catalog in which every user may choose each image, GPU type and preset."""
    return catalog if catalog.policy is None else replace(catalog, policy=replace(catalog.policy, access={}))


async def _read_allowance(spawner: GPUSpawner, offer: Offer, *, asks_policy: bool) -> Allowance:
    if asks_policy:
        return await spawner.admission.find_allowance(spawner, offer)
    quota = await offer.read_quota(spawner.namespace)
    return Allowance(full_catalog=_open_to_all(offer.catalog), person=Person(name=""), usage=Usage(quota=quota))


async def _build_manifest(spawner: GPUSpawner, apply: Callable[[], object]) -> Mapping[str, Any]:
    """Return the pod of a choice.

    :raises RefusedProfile: there is no such profile.
    """
    try:
        await maybe_future(apply())
        return serialize_pod(spawner, await draft_pod(spawner))
    except RefusedProfile:
        raise
    except Exception as error:
        message = f"KubeSpawner cannot make a pod of it: {type(error).__name__}: {error}"
        raise SettingsError(Problem(field="singleuser, hub.config", code="bad_value", message=message)) from error
    finally:
        spawner.trait_overrides.restore()


async def _find_nearest(
    spawner: GPUSpawner, selection: Selection, *, offer: Offer, allowed: Allowance
) -> tuple[Mapping[str, object], ...]:
    if allowed.blocked is not None:
        return ()
    catalog = offer.catalog
    found = await find_startable_alternatives(spawner, offer, selection=selection, reach=allowed.catalog)
    return tuple(
        options for options in (build_options(other, catalog) for other in found) if _is_allowed(options, allowed)
    )


def _is_allowed(options: object, allowed: Allowance) -> bool:
    try:
        admit(options, allowed)
    except SelectionError:
        return False
    return True


def _serialize_problem(problem: Problem) -> dict[str, str]:
    return {"field": problem.field, "code": problem.code, "message": problem.message}
