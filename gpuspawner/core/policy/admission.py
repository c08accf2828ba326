"""Checks the user's choice, from the form, a link, the REST API or the hub's database, at each start of a server.

:func:`admit` validates user options, applies the user's policy and derives what the pod must contain.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.pod_gpus import PodGPUs
from gpuspawner.core.errors import PolicyError, SelectionError
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.denials import Denial
from gpuspawner.core.policy.rules import find_gpu_pools
from gpuspawner.core.policy.usage import POOLS_ANNOTATION
from gpuspawner.core.request.candidate import Candidate
from gpuspawner.core.request.pod_requirements import PodRequirements, place
from gpuspawner.core.request.selection import Selection, build_options, validate

_OPEN_PROBLEMS = frozenset({("gpu", "unknown_choice"), ("cpu", "unknown_field"), ("memory", "unknown_field")})
"""(field, code) of problems that may vanish once the hub has read the nodes.

Nodes add GPU types and the bounds of CPU and memory. Presets come only from the settings: an unknown preset stays
unknown.
"""
_COUNT_TOO_LARGE = ("gpu_count", "out_of_range")


class UnreadClusterError(SelectionError):
    """Raised for a choice that may be valid once the hub can read the cluster's nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What :func:`admit` returns for a server that may start.

    :param catalog: all that the hub offered at the check, also what the user may not have.
    :param selection: the user's choice, with preset and defaults filled in.
    :param options: the user options that JupyterHub stores for the server.
    :param placement: what the pod must contain.
    :param gpu: the GPU type as in the catalog without the user's limits; None without a GPU.
    :param pools: slugs of the GPU pools (GPU limits shared by groups) that the server counts towards.
    """

    catalog: Catalog
    selection: Selection
    options: dict[str, object]
    placement: PodRequirements
    gpu: GPUType | None = None
    pools: tuple[str, ...] = ()


def admit(options: object, allowance: Allowance, *, unread_types: Collection[str] | None = None) -> Admission:
    """Validate user options, apply the policy, and return what the hub stores and what the pod must contain.

    :param options: any JSON value.
    :param unread_types: None when the hub has read the nodes; otherwise the slugs of the GPU types whose ``max_count``
        depends on nodes.
    :raises SelectionError: the choice is invalid; one problem for each wrong field.
    :raises PolicyError: the user may start no server at all; or the choice is valid, but the user may not have it, or
        may not have it now.
    :raises UnreadClusterError: the choice may be valid once nodes are read.
    """
    if allowance.blocked is not None:
        raise PolicyError(allowance.blocked)
    try:
        selection = validate(options, allowance.reachable_catalog)
    except SelectionError as error:
        refusal = _explain_refusal(error, options, allowance=allowance, unread_types=unread_types)
        if refusal is error:
            raise
        raise refusal from error
    # For custom images, validate() does not check the user's limits.
    if selection.custom_image is not None and (denied := allowance.check_selection(selection)):
        raise PolicyError(*denied)
    catalog = allowance.reachable_catalog
    placement = place(selection, catalog)
    gpu = None if selection.gpu is None else allowance.full_catalog.gpus[selection.gpu]
    pools = find_gpu_pools(catalog.policy, allowance.person, gpu=gpu)
    if catalog.policy is not None and catalog.policy.pools:
        # Annotate the pod even if `pools` is empty. For a pod without the annotation, gpuspawner derives the pools from
        # the user's groups, which may have changed since the start.
        placement = replace(placement, annotations={**placement.annotations, POOLS_ANNOTATION: ",".join(pools)})
    return Admission(
        catalog=allowance.full_catalog,
        selection=selection,
        options=build_options(selection, catalog),
        placement=placement,
        gpu=gpu,
        pools=pools,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAdmission:
    """What :func:`admit_pod` returns for a server that may start.

    :param gpus: the GPUs of the server's pod.
    :param pools: slugs of the GPU pools (GPU limits shared by groups) that the server counts towards.
    :param notes_pools: whether the pod has to say its pools. Those of GPUs of no known type show once the pod has a
        node.
    :param run_time_s: seconds after which the pod has to end; None = no limit.
    """

    gpus: PodGPUs
    pools: tuple[str, ...] = ()
    notes_pools: bool = False
    run_time_s: int | None = None


def admit_pod(candidate: Candidate, allowance: Allowance) -> PodAdmission:
    """Check a finished pod against what its user may have, and return what the pod still has to get.

    :raises PolicyError: the user may not have the pod, or may not have it now.
    """
    if denied := allowance.check_candidate(candidate):
        raise PolicyError(*denied)
    policy, gpus = allowance.full_catalog.policy, candidate.gpus
    types = allowance.list_possible_types(gpus)
    pools = [slug for gpu in types for slug in find_gpu_pools(policy, allowance.person, gpu=gpu)]
    return PodAdmission(
        gpus=gpus,
        pools=tuple(dict.fromkeys(pools)),
        notes_pools=policy is not None and bool(policy.pools) and bool(gpus.types or not gpus.count),
        run_time_s=allowance.find_pod_run_time_s(gpus),
    )


def _explain_refusal(
    error: SelectionError, options: object, *, allowance: Allowance, unread_types: Collection[str] | None
) -> SelectionError:
    full = allowance.complete_catalog
    unlimited_types = {slug: replace(gpu, max_runtime_s=None) for slug, gpu in full.gpus.items()}
    try:
        selection = validate(options, replace(full, gpus=unlimited_types, max_runtime_s=None))
    except SelectionError as invalid:
        error = invalid  # Report these problems: the choice is invalid even without the user's limits.
    else:
        fields = {problem.field for problem in error.problems}
        # Leave out denials of defaults, which the user did not choose. If the preset is denied, report all denials:
        # any of them may be the reason.
        is_denied = "preset" in fields
        found = [*_check_preset(options, allowance), *allowance.check_selection(selection)]
        if denials := [each for each in found if is_denied or each.field in fields]:
            return PolicyError(*denials)
    if unread_types is None:
        return error
    unread = UnreadClusterError(*error.problems)
    codes = _list_problem_codes(error)
    if codes & _OPEN_PROBLEMS:
        return unread
    if _COUNT_TOO_LARGE in codes:
        gpus = {
            slug: replace(gpu, max_count=sys.maxsize) if slug in unread_types else gpu
            for slug, gpu in full.gpus.items()
        }
        try:
            validate(options, replace(full, gpus=gpus))
        except SelectionError as remaining:
            return error if _COUNT_TOO_LARGE in _list_problem_codes(remaining) else unread
        return unread
    return error


def _check_preset(options: object, allowance: Allowance) -> Iterator[Denial]:
    """Yield why the user may not choose a preset, which a :class:`Selection` does not contain.

    :param options: user options that are valid without the user's limits.
    """
    slug = options.get("preset") if isinstance(options, Mapping) else None
    if slug and (denied := allowance.check_preset(slug)) is not None:
        yield denied


def _list_problem_codes(error: SelectionError) -> set[tuple[str, str]]:
    return {(problem.field, problem.code) for problem in error.problems}
