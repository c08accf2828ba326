"""GPU types that rules and pools name and that there are not, as the cluster is: what admins are told of them.

Nodes may bring any type, so that a slug which is written wrongly is no error of the settings. It allows and limits
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.core.catalog.catalogue import Catalog
from gpuspawner.core.catalog.policy_rules import ANY, Policy
from gpuspawner.core.text.quoting import quote, suggest_name
from gpuspawner.core.text.sentences import join_sentences
from gpuspawner.core.warnings.flags import AdminWarning, WarningKind


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
