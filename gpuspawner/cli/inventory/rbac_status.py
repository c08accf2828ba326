"""Which of the shipped rights an account has, as the API server says, and what is lost without the others."""

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
    """A right, and what there is of it.

    :param allowed: verb → whether it may be used; None where that could not be told.
    """

    right: ResourceRight
    allowed: Mapping[str, bool | None]

    @property
    def lost(self) -> str:
        """What is lost, a sentence or more; empty where nothing is known to be."""
        return self.right.lost if False in self.allowed.values() else ""

    def serialize(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        right = self.right
        return {
            "resource": right.resource,
            "api_group": right.api_group,
            "namespaced": right.is_namespaced,
            "allowed": dict(self.allowed),
            "lost": self.lost,
        }

    def format_cells(self) -> tuple[str, ...]:
        """Return it as a line of the table."""
        right = self.right
        name = f"{right.resource}.{right.api_group}" if right.api_group else right.resource
        verbs = " ".join(f"{verb}{_MARKS[answer]}" for verb, answer in self.allowed.items())
        return name, "namespace" if right.is_namespaced else "cluster", verbs, self.lost


async def check_granted_rights(cluster: ClusterConnection) -> tuple[RightStatus, ...]:
    """Return what the connection's account has of the rights that ``helm-values/rbac.yaml`` grants."""
    wanted = [right for right in read_shipped_rights() if right.is_granted]
    return tuple(await asyncio.gather(*(_check_right(right, cluster) for right in wanted)))


def format_rights_table(found: Iterable[RightStatus], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of a table."""
    yield from format_columns(
        (each.format_cells() for each in found), titles=("RIGHT ON", "IN", "VERBS", "LOST"), paint=paint
    )


async def _check_right(right: ResourceRight, cluster: ClusterConnection) -> RightStatus:
    resource, _, subresource = right.resource.partition("/")
    attributes = {"group": right.api_group, "resource": resource, "subresource": subresource}
    if right.is_namespaced:
        attributes["namespace"] = cluster.namespace
    asked = ({**attributes, "verb": verb} for verb in right.verbs)
    answers = await asyncio.gather(*(is_allowed(cluster.client, each, timeout_s=_REQUEST_TIMEOUT_S) for each in asked))
    return RightStatus(right=right, allowed=dict(zip(right.verbs, answers, strict=True)))
