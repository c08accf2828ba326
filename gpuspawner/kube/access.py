"""Asks the API server what the hub may read.

A refused request tells the same, but a watch that is refused can stand behind a list that is not, and each refusal is a
line in the audit log that some admins get alarms for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes_asyncio.client import AuthorizationV1Api

from gpuspawner.kube.requests import APIUnavailableError, body_of, send

VERBS = ("list", "watch")
"""What a watch takes: the list it begins with and whatever comes after."""


async def missing_verb(
    api_client: Any, resource: str, *, timeout_s: float, group: str = "", verbs: Sequence[str] = VERBS
) -> str:
    """Return which verb the hub may not use on a resource of the whole cluster, empty when it may use all.

    A question that the API server does not answer counts as a yes: the list itself tells then.
    https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access

    :param api_client: the hub's ``kubernetes_asyncio.client.ApiClient``.
    :param resource: its plural, ``nodes`` or ``pods`` (of all namespaces).
    :param group: its API group, empty for the core one; the version is ``v1``.
    """
    reviews = AuthorizationV1Api(api_client)
    resources = [{"verb": verb, "group": group, "version": "v1", "resource": resource} for verb in verbs]
    allowed = await asyncio.gather(*(_is_allowed(reviews, each, timeout_s=timeout_s) for each in resources))
    return next((verb for verb, is_allowed in zip(verbs, allowed, strict=True) if not is_allowed), "")


async def _is_allowed(reviews: Any, attributes: Mapping[str, str], *, timeout_s: float) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        ask = reviews.create_self_subject_access_review
        answer = json.loads(await body_of(await send(ask, body=review, _request_timeout=timeout_s)))
    except (APIUnavailableError, ValueError):
        return True
    status = answer.get("status") if isinstance(answer, dict) else None
    return not (isinstance(status, dict) and status.get("allowed") is False)
