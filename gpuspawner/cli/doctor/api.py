"""Requests of ``doctor`` to the API server: lists of objects, rights of a ServiceAccount, version of Kubernetes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio.client import ApiClient, AuthorizationV1Api

from gpuspawner.cli.cluster.shipped_roles import Permission, ServiceAccount, describe_permissions
from gpuspawner.cli.doctor.diagnosis import shorten_list
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.kube.client.api_requests import APIUnavailableError, list_each, read_body, send_request

REQUEST_TIMEOUT_S = 15.0
"""Timeout of each request in seconds."""
_PAGE_SIZE = 200
_MAX_CONCURRENT = 8
_NUMBER = re.compile(r"\d{1,4}", re.ASCII)
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Media type of lists with only the objects' metadata, so that the API server does not send contents of secrets
(https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables)."""


class NotServedError(Exception):
    """The API server does not serve the resource, for example because its CRD is not installed."""


async def fetch_objects(
    client: ApiClient, path: str, *, query: Mapping[str, str] | None = None, names_only: bool = False
) -> tuple[Mapping[str, object], ...]:
    """Return all objects of a list in the API, such as all nodes.

    :param path: the list's path in the API, such as ``/api/v1/nodes``.
    :param query: parameters such as ``labelSelector``.
    :raises NotServedError: the API server does not serve the resource.
    :raises APIUnavailableError: the request is forbidden or fails.
    """
    accept = _METADATA_ONLY if names_only else "application/json"

    async def page(**options: Any) -> Any:
        token = options.pop("_continue", "")
        parameters = {**(query or {}), "limit": str(options.pop("limit")), **({"continue": token} if token else {})}
        return await client.call_api(
            path,
            "GET",
            query_params=list(parameters.items()),
            header_params={"Accept": accept},
            auth_settings=["BearerToken"],
            **options,
        )

    found: list[Any] = []
    try:
        await list_each(page, found.append, limit=_PAGE_SIZE, _request_timeout=REQUEST_TIMEOUT_S)
    except APIUnavailableError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise NotServedError(path) from error
        raise
    return tuple(as_dict(raw) for raw in found)


async def fetch_kubernetes_version(client: ApiClient) -> tuple[int, int] | None:
    """Return major and minor version of Kubernetes, or None if the API server's answer cannot be parsed.

    :raises APIUnavailableError: the API server does not answer.
    """

    async def ask(**options: Any) -> Any:
        return await client.call_api("/version", "GET", auth_settings=["BearerToken"], **options)

    try:
        answer = as_dict(json.loads(await read_body(await send_request(ask, _request_timeout=REQUEST_TIMEOUT_S))))
    except ValueError:
        return None
    # Read only the digits: EKS and GKE may report the minor version "32+".
    numbers = [_NUMBER.match(as_text(answer.get(key))) for key in ("major", "minor")]
    major, minor = (int(found[0]) if found else None for found in numbers)
    return None if major is None or minor is None else (major, minor)


async def check_permissions(
    client: ApiClient, rights: Iterable[Permission], *, account: ServiceAccount
) -> dict[Permission, bool]:
    """Return RBAC right → whether the account has it, without rights for which the API server does not answer."""
    limit = asyncio.Semaphore(_MAX_CONCURRENT)

    async def check(right: Permission) -> bool | None:
        async with limit:
            return await _is_allowed(client, right, account=account)

    unique = list(dict.fromkeys(rights))
    answers = await asyncio.gather(*map(check, unique))
    return {right: answer for right, answer in zip(unique, answers, strict=True) if answer is not None}


def describe_unanswered(asked: Collection[Permission], answers: Mapping[Permission, bool]) -> str:
    """Return a text that names the rights for which the API server gave no answer, or "" if there are none."""
    missing = [describe_permissions([right]) for right in asked if right not in answers]
    return f"no answer to {len(missing)} of {len(asked)} questions: {shorten_list(missing)}" if missing else ""


async def _is_allowed(client: ApiClient, right: Permission, *, account: ServiceAccount) -> bool | None:
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
                **({"name": right.name} if right.name else {}),
            },
        },
    }
    ask: Any = AuthorizationV1Api(client).create_subject_access_review
    try:
        answer = as_dict(
            json.loads(await read_body(await send_request(ask, body=review, _request_timeout=REQUEST_TIMEOUT_S)))
        )
    except (APIUnavailableError, ValueError):
        return None
    status = as_dict(answer.get("status"))
    return status.get("allowed") is True if "allowed" in status else None
