"""The parts of ``gpuspawner inventory``'s report, as JSON objects, and the lines of their tables.

The report has an object for each GPU type, with its GPUs, nodes, taints and the users that may choose it, and one for
each node, with its GPU resources and the reasons why servers cannot get its GPUs. A number that is not known is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuspawner.cli.cluster.cluster_view import ClusterView
from gpuspawner.cli.common.output import Document, Paint, format_columns
from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.nodes_by_type import count_units, group_nodes_by_type, has_silent_plugin, may_have_units
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.state import Occupancy, get_occupancy
from gpuspawner.core.cluster.taints import find_untolerated_taints, is_transient_taint
from gpuspawner.core.policy.allowance import resolve_allowance
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.units.quantity import format_rounded_memory
from gpuspawner.core.verdict.availability import count_availability
from gpuspawner.core.warnings.nodes import AdminWarning, find_node_warnings

_TYPE_TITLES = (
    *("TYPE", "NAME", "RESOURCE", "MEMORY", "NODES", "TOTAL", "HEALTHY", "FREE", "LARGEST FREE", "TAINTS", "FOR"),
)
_NODE_TITLES = ("NODE", "TYPE", "RESOURCE", "FREE", "TOTAL", "STATE")
_CORDON_TAINT = "node.kubernetes.io/unschedulable"


def find_type_access(catalog: Catalog) -> dict[str, Document]:
    """Return slug of a GPU type → users that may choose it, even if they have reached a limit now.

    ``but`` names the groups and users that may not choose a type that all others may.

    The function applies the policy to an imaginary user without groups, to an imaginary member of each group, and to
    each user that the policy names. It does not know the groups of the named users.
    """
    groups = () if catalog.policy is None else catalog.policy.groups
    users = () if catalog.policy is None else catalog.policy.users
    default = _list_allowed_types(catalog, Person(name=""))
    by_group = {name: _list_allowed_types(catalog, Person(name="", groups=frozenset({name}))) for name in groups}
    by_user = {name: _list_allowed_types(catalog, Person(name=name)) for name in users}
    access: dict[str, Document] = {}
    for slug in catalog.gpus:
        is_for_all = slug in default
        others = {
            kind: [name for name, allowed in types.items() if (slug in allowed) is not is_for_all]
            for kind, types in (("groups", by_group), ("users", by_user))
        }
        access[slug] = {"all_users": True, "but": others} if is_for_all else {"all_users": False, **others}
    return access


def describe_access(access: Mapping[str, Any]) -> str:
    """Return the users that :func:`find_type_access` found as text, such as "group guests, user ann"."""
    names = access.get("but", access)
    named = ", ".join([*(f"group {name}" for name in names["groups"]), *(f"user {name}" for name in names["users"])])
    if access["all_users"]:
        return f"all users except {named}" if named else "all users"
    return named or "no user"


def _list_allowed_types(catalog: Catalog, person: Person) -> frozenset[str]:
    return frozenset(resolve_allowance(catalog, person, usage=Usage()).catalog.gpus)


def describe_types(view: ClusterView) -> list[Document]:
    """Return all GPU types: first those that users can choose, then those of :func:`list_hidden_types`.

    ``nodes`` counts the nodes without ``reserved_nodes``, which have a taint that servers of the type do not tolerate.
    Temporary taints, such as ``node.kubernetes.io/not-ready``, do not count. ``largest_free`` is the most that one
    server could get now: a server gets one share, however many shares are free. ``usable_by`` is missing for a hidden
    type, and without values files.
    """
    access = find_type_access(view.catalog) if view.values.merged else {}
    offered = tuple(view.catalog.gpus.values())
    gpus = (*offered, *list_hidden_types(view))
    counts = count_availability(gpus, view.inventory, tolerations=view.tolerations, priority=view.priority)
    documents = []
    for place, (gpu, count, nodes) in enumerate(zip(gpus, counts, _find_type_nodes(gpus, view), strict=True)):
        usable, reserved = (None, None) if nodes is None else nodes
        tolerations = (*gpu.tolerations, *view.tolerations)
        document = {
            "slug": gpu.slug,
            "display_name": str(gpu.display_name),
            "resource": gpu.resource,
            "vendor": gpu.vendor,
            "unit": gpu.unit.value,
            "memory_bytes": gpu.memory_bytes,
            "offered": place < len(offered),
            "nodes": None if usable is None else len(usable),
            "reserved_nodes": None if reserved is None else len(reserved),
            "total": count.total,
            "healthy": count.healthy,
            "free": count.free,
            "largest_free": None if count.largest is None else min(count.largest, gpu.max_count),
            "waiting": count.waiting,
            "taints": list(_list_taints((*(usable or ()), *(reserved or ())), tolerations)),
        }
        documents.append(document | ({"usable_by": access[gpu.slug]} if gpu.slug in access else {}))
    return documents


def list_hidden_types(view: ClusterView) -> tuple[GPUType, ...]:
    """Return the GPU types that the settings disable by their slugs (``enabled: false``).

    Types found by node labels are missing if the hub hides them only because a disabled type matches their nodes.
    """
    configured = view.settings.configured
    return tuple(gpu for gpu in view.catalog.hidden if gpu in configured.hidden_gpus or gpu.slug in configured.hidden)


def format_type_table(types: Iterable[Document], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of the table of GPU types, without the column FOR if all its cells are empty."""
    lines = [format_type_cells(gpu) for gpu in types]
    titles: tuple[str, ...] = _TYPE_TITLES
    if not any(line[-1] for line in lines):
        titles, lines = titles[:-1], [line[:-1] for line in lines]
    if lines:
        yield from format_columns(lines, titles=titles, paint=paint)
    else:
        yield "No GPU types."


def format_type_cells(gpu: Document) -> tuple[str, ...]:
    """Return the cells of the table's line for a GPU type."""
    memory, nodes, reserved = gpu["memory_bytes"], format_count(gpu["nodes"]), gpu["reserved_nodes"]
    return (
        gpu["slug"],
        gpu["display_name"],
        gpu["resource"],
        "?" if memory is None else format_rounded_memory(memory, round_up=False),
        f"{nodes} (+{reserved} reserved)" if reserved else nodes,
        *(format_count(gpu[name]) for name in ("total", "healthy", "free", "largest_free")),
        ", ".join(map(_format_taint, gpu["taints"])) or "-",
        "hidden by the settings"
        if not gpu["offered"]
        else describe_access(gpu["usable_by"])
        if "usable_by" in gpu
        else "",
    )


def format_count(value: int | None) -> str:
    """Return a number, or "?" for None."""
    return "?" if value is None else str(value)


def _find_type_nodes(gpus: tuple[GPUType, ...], view: ClusterView) -> list[tuple[list[Node], list[Node]] | None]:
    """Return (usable nodes, reserved nodes) of each type; None for each type if nodes are unknown."""
    known = get_occupancy(view.inventory)
    if known is None:
        return [None] * len(gpus)
    found: list[tuple[list[Node], list[Node]] | None] = []
    for type_nodes in group_nodes_by_type(gpus, known.occupancy.node_groups, tolerations=view.tolerations):
        resource = type_nodes.gpu.resource
        usable, reserved = (
            [node for pool in pools for node in pool.values() if _has_resource(node, resource)]
            for pools in (type_nodes.pools, type_nodes.reserved)
        )
        found.append((usable, reserved))
    return found


def _has_resource(node: Node, resource: str) -> bool:
    return may_have_units(node, resource) or has_silent_plugin(node, resource)


def _list_taints(nodes: Iterable[Node], tolerations: tuple[Toleration, ...]) -> Iterator[Document]:
    is_tolerated: dict[Taint, bool] = {}
    for node in nodes:
        keeping = frozenset(find_untolerated_taints(node, tolerations))
        for taint in node.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not is_transient_taint(taint):
                is_tolerated[taint] = taint not in keeping
    for taint, tolerated in sorted(
        is_tolerated.items(), key=lambda item: (item[1], item[0].key, item[0].value, item[0].effect)
    ):
        yield {"key": taint.key, "value": taint.value, "effect": taint.effect, "tolerated": tolerated}


def _format_taint(taint: Document) -> str:
    value = f"={taint['value']}" if taint["value"] else ""
    return f"{taint['key']}{value}:{taint['effect']}{'' if taint['tolerated'] else ' (not tolerated)'}"


def describe_nodes(view: ClusterView) -> list[Document] | None:
    """Return all nodes in the order of their names, or None if nodes cannot be read.

    For each of a node's GPU resources, ``types`` has the slugs of the GPU types that match it, and ``free`` the number
    of allocatable GPUs that no pod on the node requests.
    """
    known = get_occupancy(view.inventory)
    if known is None:
        return None
    catalog, occupancy = view.catalog, known.occupancy
    warnings: dict[str, list[str]] = {}
    for flag in list_node_flags(view):
        for name in flag.nodes:
            warnings.setdefault(name, []).append(flag.message)
    hidden = list_hidden_types(view)
    types = [gpu for gpu in (*catalog.gpus.values(), *hidden) if not gpu.members]
    documents: list[Document] = []
    for node in occupancy.nodes:
        gpus = list(_list_gpus(node, types, occupancy=occupancy if known.pods_known else None))
        tolerated = _list_tolerations(gpus, catalog, common=view.tolerations)
        states, notes = _describe_states(node, tolerated), _describe_hidden_types(gpus, hidden)
        documents.append({"name": node.name, "gpus": gpus, "why_not": [*states, *notes, *warnings.get(node.name, ())]})
    return documents


def list_node_flags(view: ClusterView) -> tuple[AdminWarning, ...]:
    """Return the hub's warnings to admins about the nodes' GPUs."""
    return find_node_warnings(
        view.inventory.nodes or (),
        view.catalog,
        table=view.settings.table,
        tolerations=view.tolerations,
        slices=view.slices,
    )


def format_node_table(nodes: Iterable[Document], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of the table of nodes."""
    yield from format_columns(
        (cells for node in nodes for cells in format_node_cells(node)), titles=_NODE_TITLES, paint=paint
    )


def format_node_cells(node: Document) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a node's lines in the table: one line for each GPU resource, at least one line."""
    state = " ".join(node["why_not"]) or ("ok" if node["gpus"] else "no GPU")
    for gpu in node["gpus"]:
        types, counts = ", ".join(gpu["types"]) or "-", (format_count(gpu["free"]), format_count(gpu["total"]))
        yield node["name"], types, gpu["resource"], *counts, state
    if not node["gpus"]:
        yield node["name"], "-", "-", "-", "-", state


def _list_gpus(node: Node, types: Sequence[GPUType], *, occupancy: Occupancy | None) -> Iterator[Document]:
    resources = {gpu.resource for gpu in types}
    names = {*node.capacity, *node.allocatable, *node.uncounted}
    free = occupancy.get_free(node.name) if occupancy is not None else None
    for name in sorted(name for name in names if name in resources or find_vendor(name) is not None):
        own = [gpu.slug for gpu in types if gpu.resource == name and gpu.matches_labels(node.labels)]
        is_silent = has_silent_plugin(node, name)
        if not may_have_units(node, name) and not (is_silent and own):
            continue  # skip 0 GPUs: a node has 0 of nvidia.com/gpu if all its GPUs are split into MIG slices
        is_counted = name not in node.uncounted and not is_silent
        yield {
            "resource": name,
            "types": own,
            "free": free.get(name, 0) if is_counted and free is not None else None,
            "total": count_units(node, name) if is_counted else None,
        }


def _list_tolerations(
    gpus: Iterable[Document], catalog: Catalog, *, common: tuple[Toleration, ...]
) -> tuple[Toleration, ...]:
    slugs = {slug for gpu in gpus for slug in gpu["types"]}
    own = (toleration for slug in slugs if slug in catalog.gpus for toleration in catalog.gpus[slug].tolerations)
    return (*common, *own)


def _describe_states(node: Node, tolerations: tuple[Toleration, ...]) -> Iterator[str]:
    if node.unschedulable:
        yield "Cordoned."
    if not node.ready:
        yield "Not ready."
    for taint in find_untolerated_taints(node, tolerations):
        if is_transient_taint(taint) and taint.key != _CORDON_TAINT and node.ready:
            yield f"Takes no servers for the time being: {taint.key}."


def _describe_hidden_types(gpus: Iterable[Document], hidden: Iterable[GPUType]) -> Iterator[str]:
    slugs = {gpu.slug for gpu in hidden}
    for gpu in gpus:
        yield from (f"The settings hide {slug}." for slug in gpu["types"] if slug in slugs)
