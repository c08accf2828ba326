"""Presets that cannot be started as the cluster is: which they are, and what admins are told of them.

The form leaves them out, and a person who looks for one sees nothing at all.

GPU types that rules and pools name and that there are not, as the cluster is: what admins are told of them.

Nodes may bring any type, so that a slug which is written wrongly is no error of the settings. It allows and limits
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuspawner.core.catalog.model import Catalog, Preset
from gpuspawner.core.catalog.policy_model import ANY, Policy
from gpuspawner.core.errors import Problem
from gpuspawner.core.request.selection import find_invalid_presets
from gpuspawner.core.text.quoting import quote, suggest_name
from gpuspawner.core.text.wording import join_sentences
from gpuspawner.core.warnings.nodes import AdminWarning, WarningKind


def find_preset_warnings(presets: Mapping[str, Preset], catalogue: Catalog) -> tuple[AdminWarning, ...]:
    """Return why presets are not in the form, one flag for all of which the same is to say, in the presets' order.

    :param presets: as for :func:`find_invalid_presets`.
    """
    slugs: dict[str, list[str]] = {}
    for slug, error in find_invalid_presets(presets, catalogue).items():
        reasons = (_explain_problem(problem, presets[slug]) for problem in error.problems)
        slugs.setdefault(" ".join(reasons), []).append(slug)
    return tuple(
        AdminWarning(
            kind=WarningKind.PRESET,
            resource="",
            message=f"Not in the form at the moment. {reason}",
            presets=tuple(alike),
        )
        for reason, alike in slugs.items()
    )


def _explain_problem(problem: Problem, preset: Preset) -> str:
    if (problem.field, problem.code) == ("gpu", "unknown_choice"):
        # Without the types that are offered instead: they come and go, and the same would be told again each time.
        return f"There is no GPU type {quote(preset.options.get('gpu'))}."
    return problem.message


def find_policy_warnings(policy: Policy | None, catalogue: Catalog) -> tuple[AdminWarning, ...]:
    """Return one flag for each GPU type that is named and not there, in the order of settings.

    :param catalogue: of nodes that are known; else every type that is not in the settings would be missing.
    """
    known = [*catalogue.gpus, *(gpu.slug for gpu in catalogue.hidden)]
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


def _list_named_types(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield where which slug is named."""
    rules = [("policy.default", policy.default)]
    rules += [(f"policy.groups.{name}", rule) for name, rule in policy.groups.items()]
    rules += [(f"policy.users.{name}", rule) for name, rule in policy.users.items()]
    for place, rule in rules:
        yield from ((f"{place}.gpus", slug) for slug in rule.gpus or ())
    for name, pool in policy.pools.items():
        yield from ((f"pools.{name}.gpus", slug) for slug in sorted(pool.gpus))
