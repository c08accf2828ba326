"""Read the status of Kubernetes' cluster-autoscaler: how large its node groups are, and whether they may grow.

The autoscaler writes the status as text into the ConfigMap ``kube-system/cluster-autoscaler-status``: as YAML from
version 1.30 on, as indented lines before. Sources: cluster-autoscaler/clusterstate/api/types.go and
clusterstate/utils/status.go of kubernetes/autoscaler.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuspawner.core.json_access import as_dict, as_text

MAX_STATUS_LENGTH = 256 * 1024
"""Longest status that is read, in characters; a longer one counts as unknown."""

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


def decode_autoscaler_status(raw: object) -> tuple[NodeGroupStatus, ...]:
    """Return the node groups in the ConfigMap of the cluster-autoscaler; empty if it is malformed or too long.

    The status never proves that no node will be added: another autoscaler may run beside this one.

    :param raw: the ConfigMap as JSON.
    """
    status = as_text(as_dict(as_dict(raw).get("data")).get("status"))
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
    return tuple(_decode_group(begin + part) for part in parts)


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
