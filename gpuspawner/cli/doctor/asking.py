"""Asks the API server: lists of anything by its path, what an account may do, which version it is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio.client import ApiClient, AuthorizationV1Api

from gpuspawner.cli.cluster.grants import Account, Right, described
from gpuspawner.cli.doctor.finding import some
from gpuspawner.core.rawjson import mapping, text
from gpuspawner.kube.client.listing import list_each
from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.client.requests import APIUnavailableError, body_of, send

ANSWER_S = 15.0
"""For each request."""
_PER_PAGE = 200
_AT_ONCE = 8
_NUMBER = re.compile(r"\d{1,4}", re.ASCII)
_NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Of objects whose contents are nobody's business, secrets above all.
https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables"""


class NotServedError(Exception):
    """The API server does not know the resource."""


async def listed(
    client: ApiClient, path: str, *, query: Mapping[str, str] | None = None, names_only: bool = False
) -> tuple[Mapping[str, object], ...]:
    """Return all objects of a list.

    :param names_only: leave out all but their metadata, before it is sent.
    :raises NotServedError: there is no such resource.
    :raises APIUnavailableError: it may not be read, or not now.
    """
    accept = _NAMES_ONLY if names_only else "application/json"

    async def page(**options: Any) -> Any:
        token = options.pop("_continue", "")
        wanted = {**(query or {}), "limit": str(options.pop("limit")), **({"continue": token} if token else {})}
        return await client.call_api(
            path,
            "GET",
            query_params=list(wanted.items()),
            header_params={"Accept": accept},
            auth_settings=["BearerToken"],
            **options,
        )

    found: list[Any] = []
    try:
        await list_each(page, found.append, pacer=Pacer(), limit=_PER_PAGE, _request_timeout=ANSWER_S)
    except APIUnavailableError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise NotServedError(path) from error
        raise
    return tuple(mapping(each) for each in found)


async def kubernetes_version(client: ApiClient) -> tuple[int, int] | None:
    """Return major and minor version of Kubernetes, None where they are not told.

    :raises APIUnavailableError: the API server does not answer.
    """

    async def ask(**options: Any) -> Any:
        return await client.call_api("/version", "GET", auth_settings=["BearerToken"], **options)

    try:
        answer = mapping(json.loads(await body_of(await send(ask, _request_timeout=ANSWER_S))))
    except ValueError:
        return None
    # EKS and GKE write "32+".
    numbers = [_NUMBER.match(text(answer.get(key))) for key in ("major", "minor")]
    major, minor = (int(found[0]) if found else None for found in numbers)
    return None if major is None or minor is None else (major, minor)


async def allowed(client: ApiClient, rights: Iterable[Right], *, account: Account) -> dict[Right, bool]:
    """Return which rights an account has; those that could not be asked for are left out."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(right: Right) -> bool | None:
        async with gate:
            return await _is_allowed(client, right, account=account)

    wanted = list(dict.fromkeys(rights))
    answers = await asyncio.gather(*map(one, wanted))
    return {right: answer for right, answer in zip(wanted, answers, strict=True) if answer is not None}


def unanswered(asked: Collection[Right], answers: Mapping[Right, bool]) -> str:
    """Return that some rights could not be asked for, and which; empty where all were answered."""
    silent = [described([right]) for right in asked if right not in answers]
    return f"no answer to {len(silent)} of {len(asked)} questions: {some(silent)}" if silent else ""


async def _is_allowed(client: ApiClient, right: Right, *, account: Account) -> bool | None:
    resource, _, below = right.resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{account.namespace}:{account.name}",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{account.namespace}",
                "system:authenticated",
            ],
            "resourceAttributes": {
                "verb": right.verb,
                "group": right.group,
                "resource": resource,
                **({"subresource": below} if below else {}),
                **({"namespace": right.namespace} if right.namespace else {}),
            },
        },
    }
    ask: Any = AuthorizationV1Api(client).create_subject_access_review
    try:
        answer = mapping(json.loads(await body_of(await send(ask, body=review, _request_timeout=ANSWER_S))))
    except (APIUnavailableError, ValueError):
        return None
    status = mapping(answer.get("status"))
    return status.get("allowed") is True if "allowed" in status else None
