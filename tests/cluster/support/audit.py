"""A hub's requests to the API server, as the API server's own audit log has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from devcluster import Cluster
from devcluster.hub_rbac import SERVICE_ACCOUNT
from gpuspawner.cli.cluster.shipped_roles import ResourceRight


class Use(NamedTuple):
    """One thing that a right is needed for.

    :param resource: in the plural, with a subresource behind a slash.
    :param is_namespaced: asked for in the servers' namespace.
    """

    verb: str
    api_group: str
    resource: str
    is_namespaced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    :param use: None for what is no resource: the API server's own pages.
    :param reviewed: what it asks about, where it asks what the account may do.
    :param is_allowed: by the rights of the account; a quota may still refuse a request that is allowed.
    """

    use: Use | None
    reviewed: Use | None
    path: str
    is_allowed: bool
    status: int


def uses_of(rights: Iterable[ResourceRight]) -> set[Use]:
    """Return what rights are good for."""
    return {Use(verb, right.api_group, right.resource, right.is_namespaced) for right in rights for verb in right.verbs}


def requests_of(cluster: Cluster, namespace: str) -> list[Request]:
    """Return the requests of the hub in a namespace, in order."""
    user = f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"
    found: dict[str, Request] = {}
    with cluster.audit_log.open(encoding="utf-8") as log:
        for line in log:
            # Before it is parsed: other hubs have asked for more.
            if f'"{user}"' not in line or not line.endswith("\n"):
                continue
            event = json.loads(line)
            # The log has a watch twice, when it begins and when it ends.
            found[event["auditID"]] = _request(event, namespace)
    return list(found.values())


def _request(event: Mapping[str, Any], namespace: str) -> Request:
    target = event.get("objectRef", {})
    review = event.get("requestObject", {}).get("spec", {}).get("resourceAttributes")
    return Request(
        use=_use(event["verb"], target, group=target.get("apiGroup", ""), namespace=namespace) if target else None,
        reviewed=_use(review["verb"], review, group=review.get("group", ""), namespace=namespace) if review else None,
        path=event["requestURI"].partition("?")[0],
        is_allowed=event["annotations"]["authorization.k8s.io/decision"] == "allow",
        status=event["responseStatus"]["code"],
    )


def _use(verb: str, target: Mapping[str, str], *, group: str, namespace: str) -> Use:
    resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
    return Use(verb, group, resource, target.get("namespace") == namespace)
