from __future__ import annotations

from gpuspawner.core.catalog.model import Bounds
from gpuspawner.core.form.views import NumberView, build_number_view
from gpuspawner.core.units.quantity import format_cpu


def test_bounds_are_as_the_field_holds_them():
    bounds = Bounds(min=500, max=32_000, step=250, default=2000, guarantee=0.5)
    assert build_number_view(bounds, format_cpu) == NumberView(
        min="0.5", max="32", step="0.25", default="2", guarantee=0.5
    )
