"""Rows are rendered once and kept: that must not show."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from gpuspawner.core.form.views import FormView, GPUTypeState, GPUTypeView
from gpuspawner.hub.form import rendering
from tests.unit.hub.views import T4, VIEW, hostile_view

OTHER: dict[str, Any] = {
    "slug": "l4",
    "display_name": "L4",
    "memory_text": "24 GiB",
    "unit": "shared",
    "unit_text": "shared",
    "max_count": 8,
    "total": 16,
    "healthy": 6,
    "free": 2,
    "capacity_text": "2 of 16 free",
    "details_text": "",
    "state": GPUTypeState.BUSY,
    "reason": "All are taken.",
    "badges": ("NVLink", "spot"),
    "caution": "It may go.",
    "longest_text": "up to 4 hours",
    "description": "For inference.",
    "note": "",
    "card": "h100",
}
NOT_IN_ITS_ROW = {
    *("vendor", "memory_gib", "largest", "waiting", "shapes", "largest_shapes", "scales", "new_nodes", "share")
}


def with_row(**values: Any) -> FormView:
    vendor = VIEW.vendors[0]
    return replace(VIEW, vendors=(replace(vendor, types=(replace(T4, **values),)),))


def rendered_afresh(view: FormView) -> str:
    rendering._environment.cache_clear()
    return rendering.render(view)


@pytest.mark.parametrize("name", sorted({field.name for field in fields(GPUTypeView)} - NOT_IN_ITS_ROW))
def test_a_row_of_which_anything_changed_is_rendered_anew(name: str):
    before = rendered_afresh(VIEW)
    after = rendering.render(with_row(**{name: OTHER[name]}))
    assert after == rendered_afresh(with_row(**{name: OTHER[name]}))
    assert after != before


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(replace(VIEW, values={**VIEW.values, "gpu": "t4"}), id="picked"),
        pytest.param(replace(VIEW, values={**VIEW.values, "image": "pytorch"}), id="misfit"),
        pytest.param(replace(VIEW, age_text="2 minutes old", vendors=with_row(reason="None.").vendors), id="aged"),
        pytest.param(replace(VIEW, errors={"gpu": "Gone."}), id="wrong"),
        pytest.param(replace(VIEW, notices={"gpu": "Another one was chosen."}), id="noticed"),
        pytest.param(hostile_view(), id="hostile"),
    ],
)
def test_a_row_is_rendered_anew_for_what_else_it_shows(view: FormView):
    rendering.render(VIEW)
    rendering.render(with_row(reason="None."))
    after = rendering.render(view)
    assert after == rendered_afresh(view)


def test_markup_is_not_taken_for_the_same_text_that_has_to_be_escaped(tmp_path: Path):
    folder = tmp_path / "gpuspawner"
    (folder / "partials").mkdir(parents=True)
    row = """{{ rows("gpu", view.vendors[0].types, picked="", text=%s) }}"""
    (folder / "form.html").write_text(row % '"<b>" | safe' + row % '"<b>"')
    (folder / "partials" / "gpu.html").write_text("{{ text }}")
    assert rendering.render(VIEW, template_dirs=(str(tmp_path),)) == "<b>&lt;b&gt;"
