"""The gate that every choice passes, whether it comes from the form, a link, the REST API or the hub's database.

:func:`admit` validates user options, applies the person's policy and derives what the pod must carry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.errors import PolicyError, SelectionError
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.rules import find_gpu_pools
from gpuspawner.core.policy.server_pods import POOLS_ANNOTATION
from gpuspawner.core.request.pod_requirements import PodRequirements, exclude_gpu_nodes, place
from gpuspawner.core.request.selection import Selection, build_options, validate

_OPEN_PROBLEMS = frozenset({("gpu", "unknown_choice"), ("cpu", "unknown_field"), ("memory", "unknown_field")})
"""Field and code of problems that nodes may solve: they bring GPU types, and the bounds of CPU and memory.

Presets come from the settings alone, so an unknown preset stays wrong.
"""
_COUNT_TOO_LARGE = ("gpu_count", "out_of_range")

CPURoomCheck = Callable[[PodRequirements, Catalog], bool]
"""Returns whether a server without a GPU fits on a node without GPUs now."""


class UnreadClusterError(SelectionError):
    """A choice that may be valid once the hub can read the cluster's nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """An admitted choice.

    :param selection: the choice with preset and defaults filled in.
    :param options: the user options that JupyterHub stores for it.
    :param placement: what the pod must carry.
    :param gpu: the GPU type as the settings and nodes define it, None without a GPU.
    :param pools: slugs of the GPU pools that the server counts towards.
    """

    selection: Selection
    options: dict[str, object]
    placement: PodRequirements
    gpu: GPUType | None = None
    pools: tuple[str, ...] = ()


def admit(
    options: object,
    allowance: Allowance,
    *,
    unread_types: Collection[str] | None = None,
    has_cpu_node_room: CPURoomCheck | None = None,
) -> Admission:
    """Return the admission of user options.

    :param options: any JSON value.
    :param allowance: what the person may have now.
    :param unread_types: None when the hub has read the nodes; otherwise the slugs of the GPU types whose ``max_count``
        depends on nodes.
    :param has_cpu_node_room: called for a server without a GPU; when it returns true, the pod must not run on GPU
        nodes. None = the pod only prefers other nodes.
    :raises SelectionError: the choice is invalid; one problem for each wrong field.
    :raises PolicyError: the choice is valid, but the person may not have it, or not now.
    :raises UnreadClusterError: the choice may be valid once nodes are read.
    """
    try:
        selection = _select(options, allowance)
    except SelectionError as error:
        if unread_types is not None and _may_nodes_allow(error, options, allowance.full_catalog, unread_types):
            raise UnreadClusterError(*error.problems) from error
        raise
    catalogue = allowance.reachable_catalog
    placement = place(selection, catalogue)
    gpu = None if selection.gpu is None else allowance.full_catalog.gpus[selection.gpu]
    if gpu is None and has_cpu_node_room is not None and has_cpu_node_room(placement, catalogue):
        placement = exclude_gpu_nodes(placement)
    pools = find_gpu_pools(catalogue.policy, allowance.person, gpu=gpu)
    if catalogue.policy is not None and catalogue.policy.pools:
        # An empty annotation says that the server counts towards no pool.
        placement = replace(placement, annotations={**placement.annotations, POOLS_ANNOTATION: ",".join(pools)})
    return Admission(
        selection=selection, options=build_options(selection, catalogue), placement=placement, gpu=gpu, pools=pools
    )


def _select(options: object, allowance: Allowance) -> Selection:
    if allowance.blocked is not None:
        raise PolicyError(allowance.blocked)
    full = allowance.full_catalog
    try:
        return validate(options, allowance.reachable_catalog)
    except SelectionError as error:
        fields = {problem.field for problem in error.problems}
        unlimited_types = {slug: replace(gpu, max_runtime_s=None) for slug, gpu in full.gpus.items()}
        selection = validate(options, replace(full, gpus=unlimited_types, max_runtime_s=None))
        # A default of the full catalogue that policy denies is no fault of the choice.
        if denials := [each for each in allowance.check_selection(selection) if each.field in fields]:
            raise PolicyError(*denials) from error
        raise


def _may_nodes_allow(error: SelectionError, options: object, catalogue: Catalog, unread_types: Collection[str]) -> bool:
    found = _list_problem_codes(error)
    if found & _OPEN_PROBLEMS:
        return True
    if _COUNT_TOO_LARGE not in found:
        return False
    gpus = {
        slug: replace(gpu, max_count=sys.maxsize) if slug in unread_types else gpu
        for slug, gpu in catalogue.gpus.items()
    }
    try:
        validate(options, replace(catalogue, gpus=gpus))
    except SelectionError as remaining:
        return _COUNT_TOO_LARGE not in _list_problem_codes(remaining)
    return True


def _list_problem_codes(error: SelectionError) -> set[tuple[str, str]]:
    return {(problem.field, problem.code) for problem in error.problems}
