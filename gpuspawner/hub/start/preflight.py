"""Refuses a start whose pod can never fit a node or is rejected by the API server, before anything is created.

KubeSpawner creates a user's volume claim before the pod. Without the preflight, a quota, an admission webhook or a
mistake in the admin's settings would fail the start half a minute later and leave the claim behind.
"""

from __future__ import annotations

from copy import copy
from http import HTTPStatus
from typing import Any

import aiohttp
from jupyterhub.utils import maybe_future
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.verdict.verdict import Outcome, Verdict, predict_verdict, starts_now
from gpuspawner.core.verdict.wording import format_verdict
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.pod.preview import serialize_pod
from gpuspawner.hub.start.alternatives import add_alternatives
from gpuspawner.hub.start.state import StartingSpawner

_DRY_RUN_ALL = "All"
"""Only valid value of ``dryRun``: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run"""

_REFUSALS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY})
"""HTTP statuses of the dry run that end the start. KubeSpawner handles other statuses when it creates the pod: it
repeats the request, waits until the last pod is deleted (409) or creates the user's namespace (404)."""


async def draft_pod(spawner: StartingSpawner) -> Any:
    """Return the pod as KubeSpawner will create it; this runs the admin's ``modify_pod_hook`` an additional time.

    :param spawner: the spawner of the server, with the user's choice in its traits.
    """
    pod = await spawner.get_pod_manifest()
    return await maybe_future(spawner.modify_pod_hook(spawner, pod)) if spawner.modify_pod_hook else pod


async def run_preflight(spawner: StartingSpawner, pod: Any, *, offer: Offer, gpu: GPUType | None) -> None:
    """Check the pod that is about to be created against the nodes and, by a dry run, with the API server.

    :param spawner: the spawner of the server during the start.
    :param pod: the pod as a model of the Kubernetes client, after all hooks.
    :param offer: the current offer, with the cluster's nodes and pods.
    :param gpu: the chosen GPU type; None for a server without a GPU.
    :raises RefusedStart: the pod can never fit a node.
    :raises ApiException: the API server rejects the pod.
    """
    located = await offer.add_volume_topology(serialize_pod(spawner, _drop_environment(pod)))
    if located is not None:
        # Most pods can start now, and checking that is cheaper than a full verdict.
        is_now = starts_now(located, offer.inventory)
        found = Verdict(outcome=Outcome.NOW) if is_now else predict_verdict(located, offer.inventory, gpu=gpu)
        if spawner.start_state.meter is not None:
            spawner.start_state.meter.note_verdict(found.outcome)
        if found.outcome is Outcome.NEVER:
            refused = RefusedStart(format_verdict(found), reason="never_fits", status_code=HTTPStatus.CONFLICT)
            raise await add_alternatives(refused, spawner)
    if spawner.dry_run:
        await _create_dry(spawner, pod)


def _drop_environment(pod: Any) -> Any:
    """Return a pod without environment variables and volume mounts.

    Serializing these takes the most time, and kube-scheduler ignores them.

    :param pod: the pod as a model of the Kubernetes client; any other object is returned as is.
    """
    containers = getattr(getattr(pod, "spec", None), "containers", None)
    if not isinstance(containers, list):
        return pod
    bare: list[Any] = [copy(each) for each in containers]
    for each in bare:
        if hasattr(each, "volume_mounts"):  # false for an admin's extra container that is a plain dict
            each.env = each.volume_mounts = None
    changed, changed.spec = copy(pod), copy(pod.spec)
    changed.spec.containers = bare
    return changed


async def _create_dry(spawner: StartingSpawner, pod: Any) -> None:
    create = spawner.api.create_namespaced_pod
    try:
        await create(spawner.namespace, pod, dry_run=_DRY_RUN_ALL, _request_timeout=spawner.k8s_api_request_timeout)
    except (TimeoutError, aiohttp.ClientError):
        return  # KubeSpawner repeats the request
    except ApiException as error:
        if error.status in _REFUSALS:
            raise
