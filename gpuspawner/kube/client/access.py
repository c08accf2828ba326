"""Asks the API server which rights the hub has.

The hub asks before it lists or watches, because a refused request may appear as an alarm in the audit log. The answer
also covers `watch`, which can be missing where `list` is allowed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio.client import AuthorizationV1Api, CustomObjectsApi

from gpuspawner.core.json_access import as_dict, as_dicts
from gpuspawner.kube.client.api_requests import APIUnavailableError, read_body, send_request

WATCH_VERBS = ("list", "watch")
"""A watch starts with a list, so it needs both."""
NOT_SERVED = "find"
"""Stands in place of a verb where the API server does not serve the resource at all."""


async def find_missing_verb(
    api_client: Any, resource: str, *, timeout_s: float, group: str = "", verbs: Sequence[str] = WATCH_VERBS
) -> str:
    """Return the first verb that the hub may not use on a cluster-wide resource; empty if it may use all.

    Return :data:`NOT_SERVED` if the API server does not serve the resource. A failed review counts as allowed; the list
    request then shows the truth.
    https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access

    :param api_client: the hub's ``kubernetes_asyncio.client.ApiClient``.
    :param resource: plural, such as ``nodes``, or ``pods`` of all namespaces.
    :param timeout_s: seconds for each request.
    :param group: API group, of which version v1 is checked; empty for the core group.
    :param verbs: Kubernetes verbs to check, in this order.
    """
    attributes = {"group": group, "version": "v1", "resource": resource}
    is_served, *allowed = await asyncio.gather(
        _is_served(api_client, attributes, timeout_s=timeout_s),
        *(is_allowed(api_client, {"verb": verb, **attributes}, timeout_s=timeout_s) for verb in verbs),
    )
    missing = (verb for verb, answer in zip(verbs, allowed, strict=True) if answer is False)
    return next(missing, "") if is_served else NOT_SERVED


async def _is_served(api_client: Any, attributes: dict[str, str], *, timeout_s: float) -> bool:
    group, version = attributes["group"], attributes["version"]
    if not group:
        return True
    ask: Any = CustomObjectsApi(api_client).get_api_resources
    try:
        answer = json.loads(
            await read_body(await send_request(ask, group=group, version=version, _request_timeout=timeout_s))
        )
    except (APIUnavailableError, ValueError) as error:
        return getattr(error, "status", None) != HTTPStatus.NOT_FOUND
    return any(each.get("name") == attributes["resource"] for each in as_dicts(as_dict(answer).get("resources")))


async def is_allowed(api_client: Any, attributes: Mapping[str, str], *, timeout_s: float) -> bool | None:
    """Return whether the client's account may do something, or None if the API server gives no answer.

    :param api_client: a ``kubernetes_asyncio.client.ApiClient``.
    :param attributes: ``resourceAttributes`` of a v1 SelfSubjectAccessReview.
    :param timeout_s: seconds for the request.
    """
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": dict(attributes)},
    }
    ask: Any = AuthorizationV1Api(api_client).create_self_subject_access_review
    try:
        answer = json.loads(await read_body(await send_request(ask, body=review, _request_timeout=timeout_s)))
    except (APIUnavailableError, ValueError):
        return None
    allowed = as_dict(as_dict(answer).get("status")).get("allowed")
    return allowed if isinstance(allowed, bool) else None
