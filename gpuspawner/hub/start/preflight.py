"""A start before the start: what could never run, or Kubernetes would not take, is refused before anything is made.

KubeSpawner creates a user's volume claim first and the pod after it. A quota, an admission webhook or a mistake in the
admin's settings would leave the claim behind, and be found out half a minute later.
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
"""The only value of ``dryRun`` there is: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run"""

_REFUSALS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY})
"""What will not be different a moment later. Everything else is for the start itself to find out: it tries again where
that helps, waits for a last pod that is still going (409) and makes a user's namespace (404)."""


async def draft_pod(spawner: StartingSpawner) -> Any:
    """Return the pod as KubeSpawner will make it later, which calls the admin's ``modify_pod_hook`` once more.

    :param spawner: with the choice in its traits.
    """
    pod = await spawner.get_pod_manifest()
    return await maybe_future(spawner.modify_pod_hook(spawner, pod)) if spawner.modify_pod_hook else pod


async def run_preflight(spawner: StartingSpawner, pod: Any, *, offer: Offer, gpu: GPUType | None) -> None:
    """Look at the pod that is about to be created, and have the API server look at it.

    :param pod: with everything that hooks have put into it.
    :param gpu: the type chosen.
    :raises RefusedStart: no node would ever take the pod.
    :raises ApiException: the API server would not take it.
    """
    located = await offer.add_volume_topology(serialize_pod(spawner, _drop_environment(pod)))
    if located is not None:
        # Most starts fit at once, which takes less to tell than why one would not.
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
    """Return a pod without what no scheduler looks at, and what is most of the work of writing one out.

    :param pod: the client's model of it; what a hook has put in its place stays as it is.
    """
    containers = getattr(getattr(pod, "spec", None), "containers", None)
    if not isinstance(containers, list):
        return pod
    bare: list[Any] = [copy(each) for each in containers]
    for each in bare:
        if hasattr(each, "volume_mounts"):  # the admin's other containers may be plain dicts
            each.env = each.volume_mounts = None
    changed, changed.spec = copy(pod), copy(pod.spec)
    changed.spec.containers = bare
    return changed


async def _create_dry(spawner: StartingSpawner, pod: Any) -> None:
    create = spawner.api.create_namespaced_pod
    try:
        await create(spawner.namespace, pod, dry_run=_DRY_RUN_ALL, _request_timeout=spawner.k8s_api_request_timeout)
    except (TimeoutError, aiohttp.ClientError):
        return  # the start itself tries more often and for longer
    except ApiException as error:
        if error.status in _REFUSALS:
            raise
