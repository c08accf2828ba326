from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.verdict.shapes import Shape, largest

amounts = st.lists(st.tuples(*(st.integers(0, 5) for _ in range(3))), max_size=12)


def test_what_another_one_holds_is_left_out():
    found = largest([(1, 8, 8), (2, 4, 4), (1, 4, 4), (1, 8, 8), (2, 4, 3)])
    assert found == (Shape(2, 4, 4), Shape(1, 8, 8))


def test_nothing_holds_nothing():
    assert largest([]) == ()


@given(amounts, st.builds(Shape, *(st.integers(0, 6) for _ in range(3))))
def test_a_server_fits_into_the_largest_exactly_when_it_fits_into_any(drawn: list[tuple[int, int, int]], server: Shape):
    fits = any(Shape(*each).holds(server) for each in drawn)
    assert any(shape.holds(server) for shape in largest(drawn)) == fits


@given(amounts)
def test_none_of_the_largest_holds_another(drawn: list[tuple[int, int, int]]):
    found = largest(drawn)
    assert [(one, other) for one in found for other in found if one is not other and one.holds(other)] == []
