from __future__ import annotations

import pytest

from gpuspawner.cli.doctor.facts import Kind, name_of
from tests.unit.cli.doctor.cases import facts, named


def test_what_could_not_be_read_is_not_missing():
    read = facts(read={Kind.SECRETS: [named("there")]})
    assert [read.lacks(Kind.SECRETS, name) for name in ("there", "gone")] == [False, True]
    assert (read.lacks(Kind.ACCOUNTS, "gone"), read.of(Kind.ACCOUNTS)) == (False, ())


@pytest.mark.parametrize("found", [{}, {"metadata": None}, {"metadata": {"name": 1}}])
def test_an_object_without_a_name_has_an_empty_one(found: dict[str, object]):
    assert name_of(found) == ""
