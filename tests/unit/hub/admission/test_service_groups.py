"""Whom a server is for, by JupyterHub's own database."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from gpuspawner.core.catalog.policy_model import Access, Person, Policy, Rule
from gpuspawner.hub.admission.service import UserGroups

ASKING = Policy(groups={"ml": Rule(max_gpus=1)})


@pytest.fixture
def db() -> Any:
    engine = create_engine("sqlite://")
    orm.Base.metadata.create_all(engine)
    with Session(engine) as session:
        ml, physics = orm.Group(name="ML"), orm.Group(name="Straße")
        session.add_all([orm.User(name="ada", groups=[ml, physics]), orm.User(name="bob", groups=[ml])])
        session.add(orm.User(name="eve"))
        session.commit()
        yield session


def spawner(db: Any, name: str = "ada") -> Any:
    user = db.query(orm.User).filter_by(name=name).one()
    return SimpleNamespace(user=user, db=db, log=logging.getLogger("hub"))


def test_the_person_is_the_spawners_user_with_their_groups(db: Any):
    assert UserGroups().read_person(spawner(db), ASKING) == Person(name="ada", groups=frozenset({"ML", "Straße"}))


def test_names_that_no_user_has_are_logged_once(db: Any, caplog: pytest.LogCaptureFixture):
    found, persons = spawner(db), UserGroups()
    found.authenticator = SimpleNamespace(normalize_username=str.lower)
    for most in (1, 2):
        persons.read_person(found, Policy(users={"Ada": Rule(max_gpus=most), "bob": Rule()}))
    assert [record.message for record in caplog.records] == [
        "policy.users.Ada applies to no user: this hub writes the name ada"
    ]


def test_names_in_allowed_users_that_no_user_has_are_logged(db: Any, caplog: pytest.LogCaptureFixture):
    found = spawner(db)
    found.authenticator = SimpleNamespace(normalize_username=str.lower)
    access = {("preset", "small"): Access(users=frozenset({"Ada", "bob"}))}
    UserGroups().read_person(found, Policy(access=access))
    assert [record.message for record in caplog.records] == [
        "allowed_users.Ada applies to no user: this hub writes the name ada"
    ]


def test_groups_that_no_rule_needs_are_not_read(db: Any):
    found = spawner(db)
    found.user = SimpleNamespace(name="ada")
    assert UserGroups().read_person(found, Policy()) == Person(name="ada")


def test_groups_of_several_users_are_read_at_once_and_casefolded(db: Any):
    groups = UserGroups().read_groups({"ada", "bob", "eve", "zoe"}, spawner(db))
    assert groups == {"ada": {"ml", "strasse"}, "bob": {"ml"}}


LOOKALIKES = ("Finance-OK", "FINANCE-OK", "\ufb01nance-o\u212a")
FINANCE = Policy(groups={"finance-ok": Rule(max_gpus=8)}, group_names=frozenset({"finance-ok"}))


@pytest.mark.parametrize("own", LOOKALIKES)
@pytest.mark.parametrize(
    ("exists", "expected"),
    [
        pytest.param(True, set(), id="beside a group of exactly the name"),
        pytest.param(False, {"finance-ok"}, id="as the only group"),
    ],
)
def test_a_group_of_exactly_the_name_wins_over_one_that_resembles_it(
    db: Any, own: str, exists: bool, expected: set[str]
):
    db.query(orm.User).filter_by(name="eve").one().groups = [orm.Group(name=own)]
    if exists:
        db.query(orm.User).filter_by(name="bob").one().groups = [orm.Group(name="finance-ok")]
    db.commit()
    groups = UserGroups()
    person = groups.read_person(spawner(db, "eve"), FINANCE)
    several = groups.read_groups({"eve", "bob"}, spawner(db))
    assert several is not None
    assert (person.normalized_groups, several.get("eve", set())) == (expected, expected)
    assert groups.read_person(spawner(db, "bob"), FINANCE).groups >= ({"finance-ok"} if exists else {"ML"})


def test_groups_that_cannot_be_read_are_unknown_and_it_is_said_once(db: Any, caplog: pytest.LogCaptureFixture):
    found, persons = spawner(db), UserGroups()
    db.expire_all()
    found.user = SimpleNamespace(name="ada", groups=_Failing(db))
    db.execute(orm.Base.metadata.tables["user_group_map"].delete())
    orm.Base.metadata.tables["user_group_map"].drop(db.connection())
    assert [persons.read_person(found, ASKING).groups, persons.read_person(found, ASKING).groups] == [None, None]
    assert persons.read_groups({"ada"}, found) is None
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_without_a_database_nothing_is_known_of_others():
    assert UserGroups().read_groups({"ada"}, SimpleNamespace(db=None, log=logging.getLogger("hub"))) is None


class _Failing:
    """Groups that are read from the database on first use."""

    def __init__(self, db: Any) -> None:
        self._db = db

    def __iter__(self) -> Any:
        return iter(self._db.query(orm.Group).join(orm.Group.users).all())


@pytest.mark.parametrize("reads_many", [False, True], ids=["own groups", "groups of several users"])
def test_groups_that_are_one_to_the_policy_are_reported_once(
    db: Any, caplog: pytest.LogCaptureFixture, reads_many: bool
):
    eve = db.query(orm.User).filter_by(name="eve").one()
    eve.groups = [orm.Group(name="ml"), orm.Group(name="strasse")]
    db.commit()
    persons = UserGroups()
    for _ in range(2):
        if reads_many:
            persons.read_groups({"ada", "eve"}, spawner(db))
        else:
            persons.read_person(spawner(db), ASKING)
            persons.read_person(spawner(db, "eve"), ASKING)
    told = "The groups {} and {} are one group to the policy, which ignores letter case".format
    messages = {frozenset(record.args) for record in caplog.records}
    assert messages == {frozenset({"ML", "ml"}), frozenset({"Straße", "strasse"})}
    assert sorted(record.message for record in caplog.records)[0] in (told("ML", "ml"), told("ml", "ML"))
    assert len(caplog.records) == 2
