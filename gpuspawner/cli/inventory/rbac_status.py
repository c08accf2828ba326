"""Asks the API server which of the shipped rights an account has, and tells the consequence of each missing right."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuspawner.cli.cluster.connection import ClusterConnection
from gpuspawner.cli.cluster.shipped_roles import ResourceRight, read_shipped_rights
from gpuspawner.cli.common.output import Paint, format_columns
from gpuspawner.kube.client.access import is_allowed

_REQUEST_TIMEOUT_S = 10.0
_MARKS = {True: "", False: ":no", None: ":?"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RightStatus:
    """A right of the shipped roles with the API server's answers.

    :param right: the right.
    :param allowed: verb → whether the account has it, None if the API server did not answer.
    """

    right: ResourceRight
    allowed: Mapping[str, bool | None]

    @property
    def lost(self) -> str:
        """The consequence in a sentence or more if a verb is missing, else ""."""
        return self.right.lost if False in self.allowed.values() else ""

    def serialize(self) -> dict[str, Any]:
        """Return the right as a JSON object."""
        right = self.right
        return {
            "resource": right.resource,
            "api_group": right.api_group,
            "namespaced": right.is_namespaced,
            "allowed": dict(self.allowed),
            "lost": self.lost,
        }

    def format_cells(self) -> tuple[str, ...]:
        """Return the cells of the table's line."""
        right = self.right
        name = f"{right.resource}.{right.api_group}" if right.api_group else right.resource
        verbs = " ".join(f"{verb}{_MARKS[answer]}" for verb, answer in self.allowed.items())
        return name, "namespace" if right.is_namespaced else "cluster", verbs, self.lost


async def check_granted_rights(cluster: ClusterConnection) -> tuple[RightStatus, ...]:
    """Return the status of each right that ``helm-values/rbac.yaml`` grants.

    :param cluster: a connection, as the account to check.
    """
    return tuple(
        await asyncio.gather(*(_check_right(right, cluster) for right in read_shipped_rights() if right.is_granted))
    )


def format_rights_table(found: Iterable[RightStatus], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of the table of rights."""
    yield from format_columns(
        (each.format_cells() for each in found), titles=("RIGHT ON", "IN", "VERBS", "LOST"), paint=paint
    )


async def _check_right(right: ResourceRight, cluster: ClusterConnection) -> RightStatus:
    resource, _, subresource = right.resource.partition("/")
    attributes = {"group": right.api_group, "resource": resource, "subresource": subresource}
    if right.is_namespaced:
        attributes["namespace"] = cluster.namespace
    requests = (
        is_allowed(cluster.client, {**attributes, "verb": verb}, timeout_s=_REQUEST_TIMEOUT_S) for verb in right.verbs
    )
    answers = await asyncio.gather(*requests)
    return RightStatus(right=right, allowed=dict(zip(right.verbs, answers, strict=True)))
