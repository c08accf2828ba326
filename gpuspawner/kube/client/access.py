"""Asks the API server what the hub may read.

A refused request tells the same, but a watch that is refused can stand behind a list that is not, and each refusal is a
line in the audit log that some admins get alarms for.
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
"""What a watch takes: the list it begins with and whatever comes after."""
NOT_SERVED = "find"
"""What nobody can do with a resource that the API server does not serve; no verb of Kubernetes."""


async def find_missing_verb(
    api_client: Any, resource: str, *, timeout_s: float, group: str = "", verbs: Sequence[str] = WATCH_VERBS
) -> str:
    """Return which verb the hub may not use on a resource of the whole cluster, empty when it may use all.

    It is :data:`NOT_SERVED` for what the API server does not have. A question that it does not answer counts as a yes:
    the list itself tells then. https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access

    :param api_client: the hub's ``kubernetes_asyncio.client.ApiClient``.
    :param resource: its plural, ``nodes`` or ``pods`` (of all namespaces).
    :param group: its API group, of which version v1 is meant; empty for the core.
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
    """Tell whether whoever asks may do something; None where the API server does not answer that.

    :param attributes: of a v1 SelfSubjectAccessReview's ``resourceAttributes``.
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
