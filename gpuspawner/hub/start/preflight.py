"""Checks a start's pod before KubeSpawner creates a volume claim or the pod, and refuses a start that cannot succeed.

The preflight sends the pod to the API server as a dry run, and refuses the start if the API server rejects the pod. The
answer is the pod with all that RuntimeClass, LimitRanges, PriorityClass and webhooks add. The preflight also refuses
the start if this pod can never fit a node. Without an answer, it checks the pod that KubeSpawner would send.

KubeSpawner creates a user's volume claim before the pod. If the API server rejects the pod only after that,
:class:`NewClaims` removes the claim.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

import aiohttp
from jupyterhub.utils import exponential_backoff, maybe_future
from kubernetes_asyncio.client import V1DeleteOptions, V1Preconditions
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.core.json_access import as_dict, as_dicts
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
from gpuspawner.core.verdict.verdict import Outcome, Verdict, starts_now
from gpuspawner.core.verdict.wording import format_verdict
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.pod.patch import RUN_TIME_ANNOTATION
from gpuspawner.hub.pod.preview import list_new_claims, serialize_for_scheduling
from gpuspawner.hub.pod.run_time import add_end_time
from gpuspawner.hub.spawner_protocol import HubSpawner
from gpuspawner.hub.start.alternatives import add_alternatives
from gpuspawner.hub.start.open_starts import raise_if_over
from gpuspawner.hub.start.state import StartingSpawner

_DRY_RUN_ALL = "All"
"""The only valid value of ``dryRun``: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run"""

_LEFT_TO_KUBESPAWNER = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})
"""HTTP statuses of the dry run that do not end the start: KubeSpawner's own request to create the pod decides.

- 404: the namespace is missing. If it stays missing, KubeSpawner's request fails, too.
- 409: the server's earlier pod still exists. KubeSpawner deletes it, waits until it is gone, and repeats the request.
"""

_REPEATED = frozenset({HTTPStatus.TOO_MANY_REQUESTS, *range(HTTPStatus.INTERNAL_SERVER_ERROR, 600)})
"""HTTP statuses after which the hub repeats the dry run: the API server or a webhook is overloaded or restarts."""

_UNUSED_FIELDS = frozenset({"env", "envFrom", "volumeMounts", "args", "command"})
"""Fields that the hub removes from each container in a dry run's answer: they do not affect scheduling and may hold
secrets."""

_CLAIM_GONE_S = 10.0
_CREATOR_ANNOTATION = f"{ANNOTATION_PREFIX}created-by-start"
"""Annotation of a pod or volume claim with the token (random text) of the start that created it."""

_LACKS_POD = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN})
"""HTTP statuses of the request for a start's pod after which the hub acts as if the pod did not exist.

- 404: the namespace does not exist.
- 403: the hub may not list pods. If the pod exists, KubeSpawner deletes it and creates a new one."""


async def draft_pod(spawner: StartingSpawner) -> Any:
    """Call the admin's functions, such as ``modify_pod_hook``, and return the pod as KubeSpawner would create it.

    :param spawner: the spawner of the server, with the user's choice in its traits.
    """
    pod = await spawner.get_pod_manifest()
    return await maybe_future(spawner.modify_pod_hook(spawner, pod)) if spawner.modify_pod_hook else pod


def use_draft(spawner: StartingSpawner, pod: Any) -> None:
    """Have KubeSpawner create a given pod instead of building one, so that the admin's functions run only once.

    :param pod: result of :func:`draft_pod`.
    """

    async def take_draft() -> Any:
        drop_draft(spawner)
        return pod

    # Replace get_pod_manifest() of this spawner object. The admin's subclass may override this method, and the override
    # would change the finished pod a second time.
    spawner.get_pod_manifest = take_draft
    spawner.trait_overrides.assign({"modify_pod_hook": None})


def drop_draft(spawner: StartingSpawner) -> None:
    """Discard the pod that :func:`use_draft` has set; the spawner then builds its next pod itself.

    The trait ``modify_pod_hook`` stays None until ``trait_overrides.restore()``.
    """
    vars(spawner).pop("get_pod_manifest", None)


async def run_preflight(spawner: StartingSpawner, pod: Any, *, offer: Offer) -> None:
    """Send a start's pod as a dry run, and check whether the pod in the answer can fit a node.

    :param pod: the pod as a model of the Kubernetes client, after all hooks.
    :raises RefusedStart: the pod can never fit a node.
    :raises ApiException: the API server or an admission webhook rejects the pod, or fails repeatedly.
    :raises TimeoutError: the API server does not answer.
    :raises ClientError: the API server cannot be reached.
    """
    admitted = await _create_dry(spawner, pod) if spawner.dry_run else None
    spawner.start_state.admitted_pod = admitted
    manifest = admitted or serialize_for_scheduling(spawner, pod)
    located = await offer.add_volume_topology(manifest, new_claims=list_new_claims(spawner))
    if located is not None:
        queue = await offer.read_queue(manifest, located, is_namespace_sure=not spawner.enable_user_namespaces)
        # Call starts_now() first: most pods can start now, and this call is cheaper than predict_verdict().
        is_now = starts_now(located, offer.inventory, queue=queue)
        gpu = spawner.start_state.feed.gpu
        found = Verdict(outcome=Outcome.NOW) if is_now else offer.predict_verdict(located, gpu=gpu, queue=queue)
        if spawner.start_state.meter is not None:
            spawner.start_state.meter.note_verdict(found.outcome)
        if found.outcome is Outcome.NEVER:
            refused = RefusedStart(format_verdict(found), reason="never_fits", status_code=HTTPStatus.CONFLICT)
            raise await add_alternatives(refused, spawner)


async def _create_dry(spawner: StartingSpawner, pod: Any) -> Mapping[str, Any] | None:
    """Send a pod as a dry run, and return the pod in the API server's answer.

    The result is None if the answer contains no pod, or has an HTTP status in :data:`_LEFT_TO_KUBESPAWNER`.

    While the API server or a webhook is overloaded or fails, repeat the dry run for ``k8s_api_request_retry_timeout``
    seconds. KubeSpawner does not do so: it repeats its own request to create the pod only after a timeout.
    """
    state = spawner.start_state
    answers: list[bytes] = []

    async def is_accepted() -> bool:
        try:
            answers.append(await _send_dry(spawner, pod))
        except ApiException as error:
            if error.status not in _LEFT_TO_KUBESPAWNER | _REPEATED:
                raise
            state.unaccepted = error if error.status in _REPEATED else None
        except (TimeoutError, aiohttp.ClientError) as error:
            state.unaccepted = error
        else:
            state.unaccepted = None
        return state.unaccepted is None

    try:
        await exponential_backoff(is_accepted, "Could not try the pod", timeout=spawner.k8s_api_request_retry_timeout)
    except TimeoutError as error:
        if state.unaccepted is None or isinstance(state.unaccepted, TimeoutError):
            raise
        raise state.unaccepted from error
    return _read_pod(answers[-1], namespace=spawner.namespace) if answers else None


async def _send_dry(spawner: StartingSpawner, pod: Any) -> bytes:
    """Send a pod as a dry run and return the answer as JSON text.

    Do not parse the answer into the client's models, which lack the fields of newer Kubernetes versions.
    """
    create = partial(spawner.api.create_namespaced_pod, spawner.namespace, pod, dry_run=_DRY_RUN_ALL)
    return await private_api.read_answer(partial(create, _request_timeout=spawner.k8s_api_request_timeout))


def _read_pod(body: bytes, *, namespace: str) -> Mapping[str, Any] | None:
    """Return the pod in a dry run's answer without :data:`_UNUSED_FIELDS`, or None if the answer has no pod."""
    try:
        answer = as_dict(json.loads(body))
    except (ValueError, RecursionError):
        return None
    spec = dict(as_dict(answer.get("spec")))
    if not spec:
        return None
    for kind in ("containers", "initContainers"):
        spec[kind] = [
            {name: value for name, value in each.items() if name not in _UNUSED_FIELDS}
            for each in as_dicts(spec.get(kind))
        ]
    return {"metadata": {**as_dict(answer.get("metadata")), "namespace": namespace}, "spec": spec}


async def send_pod(
    spawner: StartingSpawner, pod: Any, *, send: Callable[[Any], Awaitable[bool]], is_repeated: bool
) -> bool:
    """Send a start's pod unless it exists, and return whether it exists now; after False, KubeSpawner calls this again.

    An earlier request of this start may have created the pod although the hub never received the answer. KubeSpawner
    mistakes such a pod for that of an earlier start, and deletes it. The function therefore looks for the pod before a
    repeated request, and again if the API server answers that a pod exists.

    :param pod: the pod as a model of the Kubernetes client.
    :param send: KubeSpawner's method that sends the pod and returns whether the pod exists. If the API server answers
        that a pod of this name exists already, the method stops the server.
    :raises ApiException: the API server or an admission webhook rejects the pod.
    """
    state = spawner.start_state
    annotations = pod.metadata.annotations or {}
    if RUN_TIME_ANNOTATION in annotations:
        add_end_time(pod)
    pod.metadata.annotations = {**annotations, _CREATOR_ANNOTATION: state.token}
    if is_repeated and (exists := await _has_own_pod(spawner, pod)) is not False:
        return bool(exists)

    async def spare_own_pod() -> None:
        if (exists := await _has_own_pod(spawner, pod)) is not False:
            raise _SparedPodError(exists=bool(exists))

    state.before_stop = spare_own_pod
    try:
        raise_if_over()
        with private_api.create_for_kubespawner():
            return await send(pod)
    except _SparedPodError as spared:
        return spared.exists
    finally:
        state.before_stop = None


class _SparedPodError(Exception):
    """Raised to keep KubeSpawner from deleting a pod that the start itself has created, or may have created.

    :ivar exists: whether the pod of this start exists; False if the hub could not find out.
    """

    def __init__(self, *, exists: bool) -> None:
        super().__init__()
        self.exists = exists


async def _has_own_pod(spawner: StartingSpawner, pod: Any) -> bool | None:
    """Return whether a pod that this start has created exists and is not being deleted; None if that is unknown.

    The request lists pods by name, because the shipped Role lets the hub list pods but not get a single pod. For HTTP
    statuses in :data:`_LACKS_POD`, the result is False.
    """
    selector, timeout_s = f"metadata.name={pod.metadata.name}", spawner.k8s_api_request_timeout
    look = partial(spawner.api.list_namespaced_pod, spawner.namespace, field_selector=selector)
    try:
        answer = json.loads(await private_api.read_answer(partial(look, _request_timeout=timeout_s)))
    except ApiException as error:
        return False if error.status in _LACKS_POD else None
    except (TimeoutError, aiohttp.ClientError, ValueError):
        return None
    found = [as_dict(each.get("metadata")) for each in as_dicts(as_dict(answer).get("items"))]
    token = spawner.start_state.token
    return any(
        as_dict(each.get("annotations")).get(_CREATOR_ANNOTATION) == token and "deletionTimestamp" not in each
        for each in found
    )


class NewClaims:
    """Removes the volume claims of starts whose pod the API server refuses.

    The servers of a user may share a claim. A start therefore removes a claim only if this start has created it, and no
    other start has used it since. The hub's process has one object of this class.
    """

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], str] = {}
        self._removals: dict[tuple[str, str], asyncio.Future[None]] = {}

    async def mark(self, spawner: HubSpawner, claim: Any, *, token: str) -> None:
        """Mark a volume claim with the random ID of the start that is about to create it.

        :param token: the random ID of the start; it becomes an annotation of the claim.
        """
        is_known = _find_claim_key(spawner) in self._tokens
        await self.note_use(spawner, token=token)
        if not is_known:
            self._tokens[_find_claim_key(spawner)] = token
        claim.metadata.annotations = {**(claim.metadata.annotations or {}), _CREATOR_ANNOTATION: token}

    async def note_use(self, spawner: HubSpawner, *, token: str) -> None:
        """Record that a start uses a volume claim, so that no earlier start removes the claim.

        If an earlier start is removing the claim now, wait until the claim is gone.
        """
        key = _find_claim_key(spawner)
        while (removal := self._removals.get(key)) is not None:
            await asyncio.wait([removal])
        if self._tokens.get(key) != token:
            self._tokens.pop(key, None)

    def forget(self, spawner: HubSpawner, *, token: str) -> None:
        """Forget that a start has created its volume claim; call this when the start ends. The claim then stays."""
        if self.can_remove(spawner, token=token):
            del self._tokens[_find_claim_key(spawner)]

    def can_remove(self, spawner: HubSpawner, *, token: str) -> bool:
        """Return whether a start may remove the volume claim of its server.

        The result is True only if all of this applies:

        - The start has called :meth:`mark` while no other start was allowed to remove the claim.
        - No other start has used the claim since.
        - The start has not called :meth:`forget`.
        """
        return self._tokens.get(_find_claim_key(spawner)) == token

    async def remove(self, spawner: HubSpawner, *, token: str) -> None:
        """Remove a start's volume claim if the start has created it, and wait until the claim is gone; log a failure.

        :param spawner: the spawner of the server; :meth:`can_remove` has returned True for the start.
        """
        key = _find_claim_key(spawner)
        self._tokens.pop(key)
        self._removals[key] = removal = asyncio.ensure_future(_remove_claim(spawner, token))
        try:
            await removal
        except (ApiException, TimeoutError, aiohttp.ClientError) as error:
            spawner.log.warning("The volume claim %s of a refused start may be left: %s", spawner.pvc_name, error)
        finally:
            del self._removals[key]


def _find_claim_key(spawner: HubSpawner) -> tuple[str, str]:
    return spawner.namespace, spawner.pvc_name


async def _remove_claim(spawner: HubSpawner, token: str) -> None:
    api, where = spawner.api, (spawner.pvc_name, spawner.namespace)
    timeout_s = spawner.k8s_api_request_timeout
    read = partial(api.read_namespaced_persistent_volume_claim, *where, _request_timeout=timeout_s)
    metadata = (await read()).metadata
    if (metadata.annotations or {}).get(_CREATOR_ANNOTATION) != token:
        return  # keep the claim: it lacks the start's token, so it existed before the start
    options = V1DeleteOptions(preconditions=V1Preconditions(uid=metadata.uid))
    await api.delete_namespaced_persistent_volume_claim(*where, body=options, _request_timeout=timeout_s)

    async def is_gone() -> bool:
        try:
            await read()
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return True
            raise
        return False

    # Wait until the claim is gone: a new pod with a claim that is being deleted stays pending forever.
    await exponential_backoff(is_gone, "It is still being deleted", timeout=_CLAIM_GONE_S)
