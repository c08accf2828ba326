"""Devices that may be there although nothing is known of them.

What DRA drivers publish of a node comes and goes: kubelet deletes it whenever it starts, because nobody could use the
devices until their driver is back (pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, ``wipeResourceSlices``). Of device
plugins it says 0 for that time. And not every hub may read which resources stand for devices of a driver.
"""

from __future__ import annotations

from gpuspawner.core.catalog.stocks import may_have_units
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.node_table import NodeTable
from gpuspawner.core.scheduling.node_filters import build_node_grouping
from gpuspawner.core.verdict.shortage import find_candidate_nodes


def may_need_unseen_devices(pod: Pod, table: NodeTable, *, dra_resources: frozenset[str] | None) -> bool:
    """Tell whether a pod that no node would take may ask for devices that are there and not seen.

    So it is where no node has the resource at all, and where all that a node lacks may be such devices.

    :param dra_resources: as ``dra_resources`` of :class:`~gpuspawner.core.cluster.occupancy.Inventory`.
    """
    extended = {name for name, number in pod.requests.items() if number and "/" in name}
    if not extended:
        return False
    asked = extended if dra_resources is None else extended & dra_resources
    if not all(any(may_have_units(node, name) for node in table) for name in asked):
        return True
    groups = ([table.get_by_row(row) for row in pool.rows] for pool in table.group_nodes(build_node_grouping(pod)))
    return bool(find_candidate_nodes(pod, groups, unseen=asked))
