"""Filters that look at the pods on a node, and on others: ports, spreading, affinity between pods.

As kube-scheduler's plugins NodePorts, PodTopologySpread and InterPodAffinity decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuspawner.core.cluster.model import HostPort, Node, Pod, PodTerm
from gpuspawner.core.cluster.occupancy import Occupancy
from gpuspawner.core.scheduling.nearby import Places, means_itself, places_of_all, places_of_each, places_of_guards
from gpuspawner.core.scheduling.nominated import NAMESPACES, Nominated
from gpuspawner.core.scheduling.obstacles import Obstacle, Reason
from gpuspawner.core.scheduling.spread import Spread
from gpuspawner.core.text.language import later

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing listens here: it stands for all addresses of a node
_UNSEEN_CLAIM = later("a volume claim that nobody looked at")
GATED = (Obstacle(reason=Reason.GATED),)
"""What keeps a pod with scheduling gates off every node: nobody looks for one before they are gone."""


def undecided(pod: Pod) -> tuple[Obstacle, ...]:
    """Return what is not decided for any node."""
    words = (*pod.demands.undecided, *((_UNSEEN_CLAIM,) if pod.demands.claims else ()))
    return tuple(Obstacle(reason=Reason.UNDECIDED, detail=each) for each in words)


class PodFilters:
    """The filters for one pod, after one look at all pods that are there.

    :ivar idle: no node that is not ``crowded`` can have an obstacle of these kinds.
    :ivar crowded: names of nodes that are kept for other pods, which then count as if they were there.
    """

    def __init__(self, pod: Pod, occupancy: Occupancy) -> None:
        demands = pod.demands
        self._demands = demands
        self._spread = [Spread(constraint, pod, occupancy=occupancy) for constraint in demands.spread]
        self._near = places_of_all(demands.affinity, occupancy)
        self._itself = means_itself(pod)
        apart, guarded = places_of_each(demands.anti_affinity, occupancy), places_of_guards(pod, occupancy)
        self._avoided = ((apart, Reason.POD_ANTI_AFFINITY), (guarded, Reason.EXISTING_ANTI_AFFINITY))
        avoided = apart.sure | apart.maybe | guarded.sure | guarded.maybe
        self._avoided_keys = sorted({key for key, _ in avoided})
        self._avoided_values = {value for _, value in avoided}
        self._wants_places = bool(demands.spread or demands.affinity)
        self._keys = (*self._avoided_keys, *(each.key for each in self._spread), *_keys(demands.affinity))
        self._by_values: dict[tuple[str | None, ...], tuple[Obstacle, ...]] = {}
        self._nominated = Nominated(pod, occupancy)
        self.crowded = self._nominated.nodes
        self.idle = not (demands.host_ports or self._keys)

    def obstacles(self, node: Node) -> tuple[Obstacle, ...]:
        """Return what keeps the pod off a node that :func:`.node_filters.node_obstacles` lets pass."""
        found = self._by_place(node) if self._keys else ()
        if node.name in self.crowded:
            found = (*found, *self._kept(node), *self._uneven(node))
        ports = self._demands.host_ports
        if ports and _collide(ports, self._nominated.ports(node.name)):
            return (Obstacle(reason=Reason.HOST_PORT), *found)
        return found

    def requested(self, node: str) -> Mapping[str, int]:
        """Return what is requested on a node, with the pods it is kept for."""
        return self._nominated.requested(node)

    def _kept(self, node: Node) -> tuple[Obstacle, ...]:
        """Return the obstacles that rules between the pod and those a node is kept for are.

        Where neither the pod has such rules nor those that run have any that mean it, kube-scheduler leaves the whole
        filter out (``Skip`` in InterPodAffinity's PreFilter), and with it the rules of pods that are to come.
        """
        (_, _), (guarded, _) = self._avoided
        rules = self._demands.affinity or self._demands.anti_affinity
        if not rules and not guarded.sure and not guarded.maybe:
            return ()
        found = tuple(self._nominated.obstacles(node))
        return found if rules or guarded.sure else (NAMESPACES,) * bool(found)

    def _uneven(self, node: Node) -> Iterator[Obstacle]:
        for spread in self._spread:
            if not spread.allows_with(node, self._nominated.on(node.name)):
                yield Obstacle(reason=Reason.SPREAD, detail=spread.key)

    def _by_place(self, node: Node) -> tuple[Obstacle, ...]:
        """Return the obstacles that depend on where the node is: looked for once a place."""
        values = tuple(map(node.labels.get, self._keys))
        if not self._wants_places and self._avoided_values.isdisjoint(values):
            return ()
        found = self._by_values.get(values)
        if found is None:
            found = self._by_values[values] = tuple(self._look_at_place(node))
        return found

    def _look_at_place(self, node: Node) -> Iterator[Obstacle]:
        for spread in self._spread:
            if not spread.allows(node):
                yield Obstacle(reason=Reason.SPREAD, detail=spread.key)
        if self._demands.affinity:
            yield from self._affinity(node)
        for places, reason in self._avoided:
            yield from _inside(places, node, keys=self._avoided_keys, reason=reason)

    def _affinity(self, node: Node) -> Iterator[Obstacle]:
        """Yield an obstacle unless the node is near pods that the pod wants to be near.

        The first pod of many that want to be near each other may go anywhere: where no pod at all is meant, and the pod
        itself would be (``satisfyPodAffinity``).
        """
        wanted = {(key, node.labels[key]) for key in _keys(self._demands.affinity)}
        near = self._near
        if wanted <= near.sure:
            return
        if not near.sure and self._itself is not False:
            if near.maybe or self._itself is None:
                yield NAMESPACES
        elif wanted <= near.sure | near.maybe:
            yield NAMESPACES
        else:
            yield Obstacle(reason=Reason.POD_AFFINITY, detail=min(key for key, _ in wanted - near.sure - near.maybe))


def _keys(terms: Iterable[PodTerm]) -> set[str]:
    return {term.topology_key for term in terms}


def _inside(places: Places, node: Node, *, keys: Iterable[str], reason: Reason) -> Iterator[Obstacle]:
    """Yield an obstacle for each label by which a node is in one of the places."""
    for key in keys:
        place = (key, node.labels.get(key, ""))
        if key in node.labels and place in places.sure:
            yield Obstacle(reason=reason, detail=key)
        elif key in node.labels and place in places.maybe:
            yield NAMESPACES


def _collide(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Tell whether two ports are the same on an address that both take (``HostPortInfo.CheckConflict``)."""
    in_use = tuple(taken)
    return any(
        (one.protocol, one.port) == (other.protocol, other.port)
        and (one.ip == other.ip or _ANY_ADDRESS in (one.ip, other.ip))
        for one in wanted
        for other in in_use
    )
