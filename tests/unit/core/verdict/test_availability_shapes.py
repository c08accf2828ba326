from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.verdict.availability import FreeShape, find_pareto_front

amounts = st.lists(st.tuples(*(st.integers(0, 5) for _ in range(3))), max_size=12)


@given(amounts, st.builds(FreeShape, *(st.integers(0, 6) for _ in range(3))))
def test_a_server_fits_into_the_largest_exactly_when_it_fits_into_any(
    drawn: list[tuple[int, int, int]], server: FreeShape
):
    fits = any(FreeShape(*each).covers(server) for each in drawn)
    assert any(shape.covers(server) for shape in find_pareto_front(drawn)) == fits


@given(amounts)
def test_none_of_the_largest_holds_another(drawn: list[tuple[int, int, int]]):
    found = find_pareto_front(drawn)
    assert [(one, other) for one in found for other in found if one is not other and one.covers(other)] == []
