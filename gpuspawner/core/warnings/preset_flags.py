"""Presets that cannot be started as the cluster is: which they are, and what admins are told of them.

The form leaves them out, and a person who looks for one sees nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuspawner.core.catalog.catalogue import Catalog, Preset
from gpuspawner.core.errors import Problem
from gpuspawner.core.request.selection import find_invalid_presets
from gpuspawner.core.text.quoting import quote
from gpuspawner.core.warnings.flags import AdminWarning, WarningKind


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
