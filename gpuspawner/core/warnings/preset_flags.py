"""Presets that cannot be started as the cluster is: which they are, and what admins are told of them.

The form leaves them out, and a person who looks for one sees nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuspawner.core.catalog.catalogue import Catalogue, Preset
from gpuspawner.core.errors import Problem, SelectionError
from gpuspawner.core.request.selection import validate
from gpuspawner.core.text.quoting import quote
from gpuspawner.core.warnings.flags import Concern, Flag


def invalid_presets(presets: Mapping[str, Preset], catalogue: Catalogue) -> dict[str, SelectionError]:
    """Return the presets that stand for no valid choice, by slug, with what is wrong.

    :param presets: of the settings; those of the catalogue are not looked at.
    """
    complete = replace(catalogue, presets=presets)
    found: dict[str, SelectionError] = {}
    for slug in presets:
        try:
            validate({"preset": slug}, complete)
        except SelectionError as error:
            found[slug] = error
    return found


def flagged_presets(presets: Mapping[str, Preset], catalogue: Catalogue) -> tuple[Flag, ...]:
    """Return why presets are not in the form, one flag for all of which the same is to say, in the presets' order.

    :param presets: as for :func:`invalid_presets`.
    """
    slugs: dict[str, list[str]] = {}
    for slug, error in invalid_presets(presets, catalogue).items():
        reasons = (_reason(problem, presets[slug]) for problem in error.problems)
        slugs.setdefault(" ".join(reasons), []).append(slug)
    return tuple(
        Flag(
            concern=Concern.PRESET,
            resource="",
            message=f"Not in the form at the moment. {reason}",
            presets=tuple(alike),
        )
        for reason, alike in slugs.items()
    )


def _reason(problem: Problem, preset: Preset) -> str:
    if (problem.field, problem.code) == ("gpu", "unknown_choice"):
        # Without the types that are offered instead: they come and go, and the same would be told again each time.
        return f"There is no GPU type {quote(preset.options.get('gpu'))}."
    return problem.message
