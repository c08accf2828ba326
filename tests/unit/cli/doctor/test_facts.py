from __future__ import annotations

import pytest

from gpuspawner.cli.doctor.facts import get_object_name


@pytest.mark.parametrize("found", [{}, {"metadata": None}, {"metadata": {"name": 1}}])
def test_an_object_without_a_name_has_an_empty_one(found: dict[str, object]):
    assert get_object_name(found) == ""
