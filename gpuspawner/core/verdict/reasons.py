"""Explains in one clause why a pod finds no node: GPUs first, then CPU, then memory.

A clause names the GPU type and amounts, never a pod, node, label or taint. Amounts are the requests of the whole pod:
those of the user's choice, and those of containers that the admin adds to every server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.catalog.nodes_by_type import (
    count_units,
    count_units_for_pod,
    has_silent_plugin,
    may_have_units,
)
from gpuspawner.core.cluster.dra import MAX_CLAIM_DEVICES, fits_claim
from gpuspawner.core.cluster.model import Node, Pod, PodConstraints, ScalableNodePool, Toleration
from gpuspawner.core.cluster.node_groups import NodeGroups
from gpuspawner.core.cluster.selectors import matches_any_term, matches_node_affinity
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.cluster.taints import accepts_pods, is_reserved_for_others
from gpuspawner.core.scheduling.node_filters import build_node_grouping
from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.wording import add_article
from gpuspawner.core.units.quantity import format_bare_cpus, format_rounded_cpus, format_rounded_memory, round_cpu

_ARCHITECTURE = "kubernetes.io/arch"
_UNLIMITED = 2**63
"""Larger than any amount in Kubernetes; stands for an unknown amount that is assumed to be large enough."""

ResourceAmounts = Mapping[str, int]


def find_candidate_nodes(
    pod: Pod, groups: Iterable[Sequence[Node]], *, unseen: Collection[str] | None = None
) -> list[Node]:
    """Return the nodes that could take a pod if they were empty and all their hardware worked.

    :param groups: groups of nodes. For this pod, the nodes of a group differ only in their amounts of resources.
    :param unseen: None = count only devices that nodes report. Otherwise, the result also contains nodes whose device
        plugin may still be starting, and nodes that may get devices of these resources from a DRA driver.
    """
    needs = [(name, number) for name, number in pod.requests.items() if number]
    for_it = (node for group in groups if group and _accepts_pod(group[0], pod.constraints) for node in group)
    return [node for node in for_it if _could_hold(node, needs, unseen=unseen)]


def may_need_unseen_devices(pod: Pod, nodes: NodeGroups, *, dra_resources: frozenset[str] | None) -> bool:
    """Return whether a pod that fits no node may fit one after the nodes have reported more devices.

    :param dra_resources: extended resources that map to DRA DeviceClasses; None = unknown, so any may map to one.
    """
    extended = {name for name, number in pod.requests.items() if number and "/" in name}
    if not extended:
        return False
    hidden = extended if dra_resources is None else extended & dra_resources
    if not all(any(may_have_units(node, name) for node in nodes) for name in hidden):
        return True
    groups = (list(group.values()) for group in nodes.group_nodes(build_node_grouping(pod)))
    return bool(find_candidate_nodes(pod, groups, unseen=hidden))


def find_fitting_node(pod: Pod, nodes: Iterable[Node]) -> int | None:
    """Return the position of the first node on which a pod would fit if the node were empty and its hardware worked.

    The result is None if there is no such node.

    :param nodes: the nodes to compare; the labels or taints of some of them may exclude the pod.
    """
    needs = [(name, number) for name, number in pod.requests.items() if number]
    # Compare amounts first: they rule out more nodes than labels and taints do.
    fits = (_could_hold(node, needs, unseen=None) and _accepts_pod(node, pod.constraints) for node in nodes)
    return next((position for position, is_fitting in enumerate(fits) if is_fitting), None)


def explain_never(
    pod: Pod,
    groups: Sequence[Sequence[Node]],
    *,
    gpu: GPUType | None,
    reserved: bool = False,
    scalable_pools: Sequence[ScalableNodePool] = (),
) -> str:
    """Return why no node could ever take a pod.

    :param groups: the nodes of the GPU type, or all nodes if ``gpu`` is None; grouped by labels and taints.
    :param reserved: whether more nodes of the type exist, with taints that the pod does not tolerate.
    :param scalable_pools: node pools of an autoscaler. If one of these pools can grow, the result never says that there
        is no node.
    """
    may_grow = [scalable_pool for scalable_pool in scalable_pools if scalable_pool.max_new_nodes != 0]
    constraints = pod.constraints
    there = [group for group in groups if group]
    if not there and not may_grow:
        return _explain_reserved(gpu) if reserved else _explain_no_nodes(gpu)
    ours = [group for group in there if not is_reserved_for_others(group[0], constraints.tolerations)]
    chosen = [group for group in ours if matches_node_affinity(group[0], constraints)]
    reached = [group for group in chosen if _reaches_volumes(group[0], constraints)]
    if not reached and there:
        if not ours:
            return _explain_reserved(gpu)
        if not chosen:
            return _explain_not_selected(gpu, [group[0] for group in ours], constraints=constraints)
        return gettext("{no_node} can reach the server's storage", no_node=_format_no_node(gpu))
    has = [_find_pod_capacity(node) for group in reached for node in group] + [
        _estimate_new_node(scalable_pool, pod) for scalable_pool in may_grow
    ]
    return _explain_too_little(pod, has, gpu=gpu, left=False)


def explain_wait(
    candidates: Sequence[Node], pod: Pod, *, nodes: Sequence[Node], gpu: GPUType | None, occupancy: Occupancy
) -> str:
    """Return why a pod has to wait although some node could take the pod later.

    Resources of pods that kube-scheduler may preempt for the pod count as free.

    :param candidates: the nodes that :func:`find_candidate_nodes` returned.
    :param nodes: the nodes of the GPU type, or all nodes if ``gpu`` is None.
    """
    now = _select_open_nodes(candidates, pod.constraints.tolerations)
    if not now:
        return _explain_closed(gpu)
    if gpu is not None:
        # Compare GPUs first, because most pods wait for GPUs.
        needed = pod.requests.get(gpu.resource, 0)
        free = _list_free(now, gpu.resource, pod=pod, occupancy=occupancy)
        if all(number < needed for number in free):
            return _explain_in_use(gpu.resource, free, now=now, nodes=nodes, needed=needed)
        now = [node for node, number in zip(now, free, strict=True) if number >= needed]
    names = tuple({*pod.requests, *pod.attachments, "pods"})
    columns = [_list_free(now, name, pod=pod, occupancy=occupancy) for name in names]
    left_on_each = [dict(zip(names, left, strict=True)) for left in zip(*columns, strict=True)]
    with_slots = [left for left in left_on_each if left["pods"] > 0]
    if not with_slots:
        return gettext("the {free_nodes} hold as many servers as they may", free_nodes=_format_free_nodes(gpu, pod))
    fits = [left for left in with_slots if all(left.get(name, 0) >= number for name, number in pod.requests.items())]
    if not fits:
        return _explain_too_little(pod, with_slots, gpu=gpu, left=True)
    if all(any(left.get(name, 0) < number for name, number in pod.attachments.items()) for left in fits):
        return gettext("the {free_nodes} hold as many disks as they may", free_nodes=_format_free_nodes(gpu, pod))
    return gettext("other servers keep it off the {free_nodes}", free_nodes=_format_free_nodes(gpu, pod))


def _format_no_node(gpu: GPUType | None) -> str:
    return gettext("no node with {gpus}", gpus=add_article(gpu.display_name)) if gpu else gettext("no node")


def _explain_no_nodes(gpu: GPUType | None) -> str:
    if gpu is None:
        return gettext("there is no node in the cluster")
    return gettext("there is no {gpu} in the cluster", gpu=gpu.display_name)


def _explain_reserved(gpu: GPUType | None) -> str:
    if gpu is None:
        return gettext("every node is reserved for others")
    return gettext("every node with {gpu} is reserved for others", gpu=add_article(gpu.display_name))


def _explain_closed(gpu: GPUType | None) -> str:
    if gpu is None:
        return gettext("the nodes take no new servers right now")
    return gettext("the nodes with {gpu} take no new servers right now", gpu=add_article(gpu.display_name))


def _explain_not_selected(gpu: GPUType | None, nodes: Iterable[Node], *, constraints: PodConstraints) -> str:
    relaxed = _drop_architecture(constraints)
    if relaxed is not None and any(matches_node_affinity(node, relaxed) for node in nodes):
        return gettext("{no_node} has the kind of processor that the image is made for", no_node=_format_no_node(gpu))
    return gettext("{no_node} is of the kind that servers like this one use", no_node=_format_no_node(gpu))


def _drop_architecture(constraints: PodConstraints) -> PodConstraints | None:
    terms = constraints.node_terms or ()
    relaxed = [
        replace(term, expressions=tuple(each for each in term.expressions if each.key != _ARCHITECTURE))
        for term in terms
    ]
    if relaxed == list(terms):
        return None
    # A node must match one term. A term that named only an architecture now allows every node.
    is_any = any(not term.expressions and not term.fields for term in relaxed)
    return replace(constraints, node_terms=None if is_any else tuple(relaxed))


def _explain_in_use(
    resource: str, left: Sequence[int], *, now: Sequence[Node], nodes: Sequence[Node], needed: int
) -> str:
    free, healthy = sum(left), sum(node.allocatable.get(resource, 0) for node in now)
    broken = sum(max(0, node.capacity.get(resource, 0) - node.allocatable.get(resource, 0)) for node in now)
    # ``others``: whether the GPU type has more units (GPUs, MIG slices or shares) on nodes that do not accept the pod
    # now, such as cordoned nodes.
    others = len(nodes) > len(now) and sum(_find_capacity(node).get(resource, 0) for node in nodes) > healthy
    if healthy == 0:
        return ngettext("the only one does not work right now", "all {number} do not work right now", number=broken)
    if 0 < free < needed:
        text = _explain_few_free(free, healthy=healthy, others=others)
    elif free:
        text = gettext("{free} are free, but no more than {most} on one node", free=free, most=max(left))
    else:
        text = _explain_none_free(healthy, others=others)
    if not broken:
        return text
    return ngettext("{reason}, {number} does not work", "{reason}, {number} do not work", number=broken, reason=text)


def _explain_few_free(free: int, *, healthy: int, others: bool) -> str:
    if others:
        return ngettext(
            "only {number} of {total} that the server could use now is free",
            "only {number} of {total} that the server could use now are free",
            number=free,
            total=healthy,
        )
    return ngettext("only {number} of {total} is free", "only {number} of {total} are free", number=free, total=healthy)


def _explain_none_free(healthy: int, *, others: bool) -> str:
    if others:
        return ngettext(
            "the only one that the server could use now is in use",
            "all {number} that the server could use now are in use",
            number=healthy,
        )
    return ngettext("the only one is in use", "all {number} are in use", number=healthy)


def _explain_too_little(pod: Pod, has: Sequence[ResourceAmounts], *, gpu: GPUType | None, left: bool) -> str:
    """Return a clause that says which requested amount no node has.

    :param has: resource → amount, one mapping per node.
    :param left: True = ``has`` contains free amounts. False = ``has`` contains the amounts for a pod on an empty node.
    """
    needs = {name: number for name, number in pod.requests.items() if number}
    units = needs.pop(gpu.resource, 0) if gpu is not None else 0
    if gpu is not None:
        most = max((amounts.get(gpu.resource, 0) for amounts in has), default=0)
        if most < units:
            return gettext(
                "no node has {number} × {gpu}; the most on one node is {most}",
                number=units,
                gpu=gpu.display_name,
                most=most,
            )
        has = [amounts for amounts in has if amounts.get(gpu.resource, 0) >= units]
    no_node = gettext("no node with {gpus}", gpus=_format_gpus(gpu, units, free=left)) if gpu else gettext("no node")
    for name, (show, number) in _FORMATTERS.items():
        most = max((amounts.get(name, 0) for amounts in has), default=0)
        if most < needs.get(name, 0):
            return _explain_less(no_node, show(needs[name]), most=number(most), left=left)
    if not any(all(amounts.get(name, 0) >= needs.get(name, 0) for name in _FORMATTERS) for amounts in has):
        return _explain_not_both(
            no_node, format_rounded_cpus(needs["cpu"]), memory=format_rounded_memory(needs["memory"]), left=left
        )
    if left:
        return gettext("{no_node} has everything left that the server needs", no_node=no_node)
    return gettext("{no_node} has everything that the server needs", no_node=no_node)


def _explain_less(no_node: str, amount: str, *, most: str, left: bool) -> str:
    if left:
        return gettext("{no_node} has {amount} left; the most is {most}", no_node=no_node, amount=amount, most=most)
    return gettext("{no_node} has {amount}; the largest has {most}", no_node=no_node, amount=amount, most=most)


def _explain_not_both(no_node: str, cpu: str, *, memory: str, left: bool) -> str:
    if left:
        return gettext(
            "{no_node} has both {cpus} and {memory} of memory left", no_node=no_node, cpus=cpu, memory=memory
        )
    return gettext("{no_node} has both {cpus} and {memory} of memory", no_node=no_node, cpus=cpu, memory=memory)


_FORMATTERS: Mapping[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
    "cpu": (format_rounded_cpus, lambda millis: format_bare_cpus(round_cpu(millis, round_up=False))),
    "memory": (
        lambda size_bytes: gettext("{memory} of memory", memory=format_rounded_memory(size_bytes)),
        lambda size_bytes: format_rounded_memory(size_bytes, round_up=False),
    ),
}
"""Resource → two functions: the first formats a requested amount, rounded up; the second formats an available amount,
rounded down."""


def format_amount(resource: str, number: int, *, gpu: GPUType | None) -> str:
    """Return a requested amount with the resource's name: ``2 × A100``, ``4 CPUs``, ``16 GiB of memory``.

    :param number: in the units of :class:`Node`.
    """
    if resource in _FORMATTERS:
        return _FORMATTERS[resource][0](number)
    if _is_in_bytes(resource):
        return gettext("{amount} of {resource}", amount=format_rounded_memory(number), resource=resource)
    name = gpu.display_name if gpu is not None and gpu.resource == resource else resource
    return gettext("{number} × {gpu}", number=number, gpu=name)


def format_number(resource: str, number: int) -> str:
    """Return an available amount without the resource's name, rounded down: ``2``, ``15.9 GiB``.

    :param number: the amount in the units of :class:`Node` (millicores, bytes, devices).
    """
    if resource in _FORMATTERS:
        return _FORMATTERS[resource][1](number)
    return format_rounded_memory(number, round_up=False) if _is_in_bytes(resource) else str(number)


def _is_in_bytes(resource: str) -> bool:
    return resource == "ephemeral-storage" or resource.startswith("hugepages-")


def _format_gpus(gpu: GPUType, units: int, *, free: bool) -> str:
    if units > 1 and free:
        return gettext("{number} × {gpu} free", number=units, gpu=gpu.display_name)
    if units > 1:
        return gettext("{number} × {gpu}", number=units, gpu=gpu.display_name)
    return gettext("a free {gpu}", gpu=gpu.display_name) if free else add_article(gpu.display_name)


def _format_free_nodes(gpu: GPUType | None, pod: Pod) -> str:
    if gpu is None:
        return gettext("nodes with room")
    return gettext("nodes with {gpus}", gpus=_format_gpus(gpu, pod.requests.get(gpu.resource, 0), free=True))


def _could_hold(node: Node, needs: Iterable[tuple[str, int]], *, unseen: Collection[str] | None) -> bool:
    if not fits_claim(node, needs):
        return False
    allocatable, capacity = node.allocatable, node.capacity
    for name, number in needs:
        if name in node.uncounted or (
            unseen is not None and _may_have_unseen_units(node, name, anywhere=name in unseen)
        ):
            continue
        # CPU and memory (names without "/") must be within the allocatable amount. Devices (names with "/") need only
        # be within the capacity, because the capacity includes broken devices, which may work again.
        if allocatable.get(name, 0) < number and ("/" not in name or capacity.get(name, 0) < number):
            return False
    return True


def _may_have_unseen_units(node: Node, name: str, *, anywhere: bool) -> bool:
    """Return whether a node may have devices of a resource that it does not report yet.

    A device plugin or DRA driver of the node may still be starting.

    :param anywhere: whether the resource's DRA driver may still publish devices on any node.
    """
    return has_silent_plugin(node, name) or (
        anywhere and (name in node.published_by_dra or not count_units(node, name))
    )


def _accepts_pod(node: Node, constraints: PodConstraints) -> bool:
    return (
        not is_reserved_for_others(node, constraints.tolerations)
        and matches_node_affinity(node, constraints)
        and _reaches_volumes(node, constraints)
        and all(key in node.labels for key in constraints.topology_keys)
    )


def _reaches_volumes(node: Node, constraints: PodConstraints) -> bool:
    return all(matches_any_term(node, terms) for terms in constraints.volume_terms)


def _list_free(nodes: Sequence[Node], resource: str, *, pod: Pod, occupancy: Occupancy) -> list[int]:
    floor = occupancy.find_floor(pod)
    taken = (occupancy.get_requested(node.name, floor).get(resource, 0) for node in nodes)
    return [
        _UNLIMITED if resource in node.uncounted else max(0, node.allocatable.get(resource, 0) - number)
        for node, number in zip(nodes, taken, strict=True)
    ]


def _select_open_nodes(nodes: Iterable[Node], tolerations: tuple[Toleration, ...]) -> list[Node]:
    answers: dict[tuple[bool, int], bool] = {}
    found = []
    for node in nodes:
        state = node.unschedulable, id(node.taints)
        if state not in answers:
            answers[state] = accepts_pods(node, tolerations)
        if answers[state]:
            found.append(node)
    return found


def _find_capacity(node: Node) -> ResourceAmounts:
    if not node.uncounted:
        return node.allocatable
    return {**node.allocatable, **dict.fromkeys(node.uncounted, _UNLIMITED)}


def _find_pod_capacity(node: Node) -> ResourceAmounts:
    """Return resource → the largest amount that one pod could have on a node if the node were empty."""
    published = {name: count_units_for_pod(node, name) for name in node.published_by_dra}
    return {**node.allocatable, **published, **dict.fromkeys(node.uncounted, MAX_CLAIM_DEVICES)}


def _estimate_new_node(scalable_pool: ScalableNodePool, pod: Pod) -> dict[str, int]:
    machines = scalable_pool.machines
    if machines is not None:
        return {name: machines.limits.get(name, _UNLIMITED) for name in pod.requests}
    return {name: scalable_pool.node_allocatable.get(name, 0 if "/" in name else _UNLIMITED) for name in pod.requests}
