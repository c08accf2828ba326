"""Read the status of Kubernetes' cluster-autoscaler: how large its node groups are, and whether they may grow.

The autoscaler writes the status as text into the ConfigMap ``kube-system/cluster-autoscaler-status``: as YAML from
version 1.30 on, as indented lines before. Sources: cluster-autoscaler/clusterstate/api/types.go and
clusterstate/utils/status.go of kubernetes/autoscaler.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

from gpuspawner.core.json_access import as_dict, as_text

MAX_STATUS_LENGTH = 256 * 1024
"""Longest status that is read, in characters; a longer one counts as unknown."""
_MAX_GROUPS = 1_000
"""Most node groups that are read; a status with more counts as unknown. This bounds the time that a status takes."""
_MAX_STATUS_AGE = timedelta(minutes=15)
"""The autoscaler writes its status about every 10 s. An older status stays behind where it no longer runs."""
_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"
"""Annotation with the time of the status, such as ``2026-09-15 04:05:52.354884346 +0000 UTC``."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{1,9})? ([+-]\d{4})\b", re.ASCII)

_GROUPS = re.compile(r"^ *[nN]odeGroups:[ \t]*$", re.MULTILINE)
_FIRST_OF_GROUP = re.compile(r"^( {0,64}- |[ \t]{0,64}Name:)", re.MULTILINE)
_NAME = re.compile(r"\b[nN]ame:[ \t]*(\S+)")
_TARGET = re.compile(r"\bcloudProviderTarget[=:][ \t]*(\d{1,6})\b", re.ASCII)
_LEAST = re.compile(r"\bminSize[=:][ \t]*(\d{1,6})\b", re.ASCII)
_MOST = re.compile(r"\bmaxSize[=:][ \t]*(\d{1,6})\b", re.ASCII)
_TROUBLE = re.compile(r"\b(?:status|Health|ScaleUp):[ \t]*(Unhealthy|Backoff)\b")


class NodeGroupStatus(NamedTuple):
    """The state of one node group of the cluster-autoscaler.

    :param name: name of the group at the cloud; empty if the status does not say it.
    :param target: number of nodes that the group should have now.
    :param least: smallest number of nodes that the group may have.
    :param most: largest number of nodes that the group may have; None if unknown.
    :param trouble: ``Unhealthy``, or ``Backoff`` while the autoscaler adds no node after a failure; empty without.
    """

    name: str
    target: int
    least: int
    most: int | None
    trouble: str = ""

    @property
    def is_full(self) -> bool:
        """Whether the group has grown to its largest size; False for a group of fixed size, or if unknown."""
        return self.most is not None and self.target >= self.most and self.least != self.most


class NodeGrowth(Enum):
    """What the cluster-autoscaler says about adding nodes."""

    UNSEEN = auto()
    """Nothing that is known and recent."""
    POSSIBLE = auto()
    """At least one node group may have more nodes, and the autoscaler reports no trouble with it."""
    FULL = auto()
    """Each node group has as many nodes as it may have."""


def find_node_growth(raw: object, *, now: datetime) -> NodeGrowth:
    """Return whether the node groups of the cluster-autoscaler may grow, as its status says.

    :param raw: the ConfigMap as JSON.
    :param now: the present time, with a time zone.
    """
    groups = decode_autoscaler_status(raw)
    if not groups or not _is_recent(raw, now) or _has_cluster_trouble(raw):
        return NodeGrowth.UNSEEN
    if all(group.most is not None and group.target >= group.most for group in groups):
        return NodeGrowth.FULL
    may_grow = any(group.most is not None and group.target < group.most and not group.trouble for group in groups)
    return NodeGrowth.POSSIBLE if may_grow else NodeGrowth.UNSEEN


def _is_recent(raw: object, now: datetime) -> bool:
    annotations = as_dict(as_dict(as_dict(raw).get("metadata")).get("annotations"))
    found = _TIME.match(as_text(annotations.get(_UPDATED)))
    try:
        updated = datetime.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S %z") if found else None
    except ValueError:
        return False
    return updated is not None and abs(now - updated) <= _MAX_STATUS_AGE


def _has_cluster_trouble(raw: object) -> bool:
    status = _get_status(raw)
    start = _GROUPS.search(status)
    return start is not None and _TROUBLE.search(status, 0, start.start()) is not None


def decode_autoscaler_status(raw: object) -> tuple[NodeGroupStatus, ...]:
    """Return the node groups in the ConfigMap of the cluster-autoscaler; empty if it is malformed or too large.

    The status never proves that no node will be added: another autoscaler may run beside this one.

    :param raw: the ConfigMap as JSON.
    """
    status = _get_status(raw)
    start = _GROUPS.search(status) if len(status) <= MAX_STATUS_LENGTH else None
    if start is None:
        return ()
    text = status[start.end() :]
    marker = _FIRST_OF_GROUP.search(text)
    if marker is None:
        return ()
    # Each group begins as the first one does. Deeper in a group, a line may begin in the same way after more spaces.
    parts = re.split(rf"^{re.escape(marker[1])}", text, flags=re.MULTILINE)[1:]
    begin = "Name:" if marker[1].endswith("Name:") else ""
    return tuple(_decode_group(begin + part) for part in parts) if len(parts) <= _MAX_GROUPS else ()


def _get_status(raw: object) -> str:
    return as_text(as_dict(as_dict(raw).get("data")).get("status"))


def _decode_group(text: str) -> NodeGroupStatus:
    name, trouble = _NAME.search(text), _TROUBLE.search(text)
    return NodeGroupStatus(
        name=name[1] if name else "",
        target=_read_number(_TARGET, text) or 0,
        least=_read_number(_LEAST, text) or 0,
        most=_read_number(_MOST, text),
        trouble=trouble[1] if trouble else "",
    )


def _read_number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None
