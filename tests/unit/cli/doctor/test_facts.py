from __future__ import annotations

import pytest

from gpuspawner.cli.doctor.facts import ObjectKind, get_object_name
from tests.unit.cli.doctor.cases import facts, named


def test_what_could_not_be_read_is_not_missing():
    read = facts(read={ObjectKind.SECRETS: [named("there")]})
    assert [read.lacks(ObjectKind.SECRETS, name) for name in ("there", "gone")] == [False, True]
    assert (read.lacks(ObjectKind.ACCOUNTS, "gone"), read.list_objects(ObjectKind.ACCOUNTS)) == (False, ())


@pytest.mark.parametrize("found", [{}, {"metadata": None}, {"metadata": {"name": 1}}])
def test_an_object_without_a_name_has_an_empty_one(found: dict[str, object]):
    assert get_object_name(found) == ""
