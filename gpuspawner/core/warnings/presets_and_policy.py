"""Warns admins about unusable presets, unknown GPU types in the policy, and unused GPUs in KubeSpawner's traits.

The form silently leaves out presets that cannot start. An unknown GPU type in the policy is not an error, because a
node with GPUs of this type may join the cluster later. A server gets the GPUs that its user chooses, so the hub removes
the GPUs that KubeSpawner's traits request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuspawner.core.catalog.model import Catalog, Preset
from gpuspawner.core.catalog.policy_model import ANY, Policy
from gpuspawner.core.errors import Problem
from gpuspawner.core.request.selection import find_preset_errors
from gpuspawner.core.text.wording import join_sentences, quote, suggest_name
from gpuspawner.core.warnings.nodes import AdminWarning, WarningKind


def find_preset_warnings(presets: Mapping[str, Preset], catalog: Catalog) -> tuple[AdminWarning, ...]:
    """Return warnings that say why presets are missing from the form; one for all presets with the same reason.

    :param presets: slug → preset, from the settings.
    :param catalog: the catalog, built after the hub has read the cluster's nodes.
    """
    slugs: dict[str, list[str]] = {}
    for slug, error in find_preset_errors(presets, catalog).items():
        reason = " ".join(_explain_problem(problem, presets[slug]) for problem in error.problems)
        slugs.setdefault(f"Not in the form at the moment. {reason}", []).append(slug)
    return tuple(
        AdminWarning(kind=WarningKind.PRESET, resource="", message=message, presets=tuple(alike))
        for message, alike in slugs.items()
    )


def _explain_problem(problem: Problem, preset: Preset) -> str:
    if (problem.field, problem.code) == ("gpu", "unknown_choice"):
        # Do not return `problem.message`: it lists the GPU types of the form, which change with the nodes. The hub logs
        # a warning again whenever its text changes.
        return f"There is no GPU type {quote(preset.options['gpu'])}."
    return problem.message


def find_policy_warnings(policy: Policy | None, catalog: Catalog) -> tuple[AdminWarning, ...]:
    """Return one warning for each GPU type that the policy names and the catalog lacks.

    :param policy: the admin's rules; None = no rules.
    :param catalog: the catalog, built after the hub has read the cluster's nodes. Before that, the catalog lacks all
        GPU types that gpuspawner discovers on nodes.
    """
    known = [*catalog.gpus, *(gpu.slug for gpu in catalog.hidden)]
    places: dict[str, list[str]] = {}
    for place, slug in () if policy is None else _list_named_types(policy):
        if slug != ANY and slug not in known:
            places.setdefault(slug, []).append(place)
    return tuple(
        AdminWarning(
            kind=WarningKind.POLICY,
            resource="",
            message=join_sentences(
                f"There is no GPU type {quote(slug)} at the moment.", suggest_name(slug, known).strip()
            ),
            settings=tuple(named),
        )
        for slug, named in places.items()
    )


OWN_GPUS_TRAIT = "extra_resource_limits"
"""KubeSpawner's trait in which an admin can request GPUs for each server."""
CONTAINER_GPUS_REASON = f"only {OWN_GPUS_TRAIT} can make GPUs the form's default choice"
"""Reason why servers do not get GPUs that the admin requests in traits for containers, such as ``extra_containers``."""


def find_dropped_gpu_warnings(catalog: Catalog) -> tuple[AdminWarning, ...]:
    """Return one warning for each GPU resource that KubeSpawner's traits request and that servers do not get.

    Of the trait ``extra_resource_limits``, only the first GPU resource that a GPU type has becomes the form's default
    choice. Servers do not get the other GPUs in this trait, nor any in ``extra_containers``, ``init_containers`` and
    ``extra_container_config``.

    :param catalog: the catalog, built after the hub has read the cluster's nodes. Before that, the catalog may lack the
        type of the requested GPUs.
    """
    typed = {catalog.gpus[slug].resource for slug, _ in catalog.default_gpus}
    dropped = (
        (
            OWN_GPUS_TRAIT,
            resource,
            number,
            "the form's default choice has only one GPU type" if resource in typed else "no GPU type stands for them",
        )
        for resource, number in catalog.dropped_gpus.items()
    )
    in_containers = ((*each, CONTAINER_GPUS_REASON) for each in catalog.own.container_gpus)
    return tuple(
        AdminWarning(
            kind=WarningKind.DROPPED_GPUS,
            resource=resource,
            message=f"{number} {resource} are dropped from each server: {reason}. A server gets the GPUs that its user "
            "chooses.",
            settings=(trait,),
        )
        for trait, resource, number, reason in (*dropped, *in_containers)
    )


def _list_named_types(policy: Policy) -> Iterator[tuple[str, str]]:
    rules = [("policy.default", policy.default)]
    rules += [(f"policy.groups.{name}", rule) for name, rule in policy.groups.items()]
    rules += [(f"policy.users.{name}", rule) for name, rule in policy.users.items()]
    for place, rule in rules:
        yield from ((f"{place}.gpus", slug) for slug in rule.gpus or ())
    for name, pool in policy.pools.items():
        yield from ((f"pools.{name}.gpus", slug) for slug in sorted(pool.gpus))
