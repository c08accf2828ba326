"""The judge of tests/cluster/test_policy_storm.py: it comes to the same as gpuspawner, and sees what is wrong.

Both work out from the same settings, in two ways that share no code, what each person may have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from gpuspawner.core.catalog.policy_model import ANY, UNLIMITED, Person, Policy, Rule
from gpuspawner.core.policy.rules import find_gpu_pools, resolve_rule
from gpuspawner.settings import Settings
from tests.cluster.support.storm.claims import Claim, Claims
from tests.cluster.support.storm.rules import Rules
from tests.cluster.support.storm.world import IMAGES, Choice, World, draw_choice, draw_world, settings_of

IMAGE = "registry.example.org/lab:1"


def parsed(world: World) -> tuple[Policy, dict[str, Any]]:
    configured = Settings.parse(settings_of(world, image=IMAGE)).configured
    assert configured.policy is not None
    return configured.policy, configured.gpus


def denials(limits: Rule, choice: Choice) -> Iterator[str]:
    """Yield what a rule denies, named as the judge names it."""
    may_have = limits.allows_image(choice.image) if choice.image else limits.custom_images is not False
    if not may_have or not any(limits.allows_image(slug) for slug in IMAGES):
        yield "image"
    for name, amount in (("cpu", round(choice.cpu * 1000)), ("memory", choice.memory * 1024**3)):
        bounds = getattr(limits, name)
        least, most = (None, None) if bounds is None else (bounds.min, bounds.max)
        if amount < (least or 0) or (most is not None and amount > most):
            yield name
    if choice.gpu is None:
        return
    of_type = limits.find_type_rule(choice.gpu)
    if of_type is None:
        yield "gpu"
        return
    for most in (limits.max_gpus_per_server, of_type.max_gpus_per_server):
        if choice.count > number(most):
            yield "gpus in one server"


def number(limit: int | None) -> float:
    return math.inf if limit in (None, UNLIMITED) else float(limit)


@pytest.mark.parametrize("seed", range(8))
def test_the_judge_and_gpuspawner_come_to_the_same(seed: int):
    random = Random(seed)
    world = draw_world(random, users=60)
    rules, (policy, types) = Rules(world), parsed(world)
    verdicts = set()
    for user in world.users:
        person = Person(name=user, groups=frozenset(world.groups_of(user)))
        limits = resolve_rule(policy, person)
        for choice in (draw_choice(random) for _ in range(5)):
            assert rules.denials(user, choice) == list(denials(limits, choice)), (user, choice)
            verdicts.add(not rules.denials(user, choice))
        assert rules.most(("gpus", user)) == number(limits.max_gpus)
        assert rules.most(("servers", user)) == number(limits.max_servers_with_gpu)
        for slug, gpu in types.items():
            of_type = limits.find_type_rule(slug)
            if of_type is not None:
                assert rules.most(("type", user, slug)) == number(of_type.max_gpus)
            pools = tuple(key[1] for key in rules.load(user, slug, count=1) if key[0] == "pool")
            assert pools == find_gpu_pools(policy, person, gpu=gpu)
    assert verdicts == {True, False}


ONE = Choice(image="lab", cpu=1, memory=2, gpu="red", count=1)
TWO = Choice(image="lab", cpu=1, memory=2, gpu="red", count=2)


@pytest.fixture
def claims() -> Claims:
    """Two users who may have two GPUs each, and three together."""
    policy = {"default": {"max_gpus": 2, "gpus": [ANY]}, "groups": {}, "users": {}}
    pools = {"both": {"groups": ["all"], "gpus": ["red"], "max_gpus": 3}}
    users = ("ada", "bob")
    return Claims(Rules(World(users=users, members={"ALL": list(users)}, policy=policy, pools=pools)))


def ran(user: str, name: str, *, choice: Choice, sent: float, until: float = math.inf) -> Claim:
    """Return a server that ran a second after it was asked for, and was gone a second after it was to stop."""
    server = (user, name)
    return Claim(server=server, choice=choice, sent=sent, runs_since=sent + 1, ends_since=until, gone_at=until + 1)


def refused(user: str, name: str, *, choice: Choice, sent: float) -> Claim:
    return Claim(server=(user, name), choice=choice, sent=sent, gone_at=sent + 1, refusal="no")


@pytest.mark.parametrize(
    ("others", "is_wrong"),
    [
        ([], True),
        ([ran("ada", "b", choice=TWO, sent=5)], False),
        ([ran("ada", "b", choice=ONE, sent=5)], True),
        # It may still have been there, and may have been there already.
        ([ran("ada", "b", choice=TWO, sent=1, until=9.5)], False),
        ([ran("ada", "b", choice=TWO, sent=1, until=8.5)], True),
        ([ran("ada", "b", choice=TWO, sent=10.5)], False),
        ([ran("ada", "b", choice=TWO, sent=11.5)], True),
        # A refused server takes nothing from another.
        ([refused("ada", "b", choice=TWO, sent=10)], True),
        ([ran("bob", "", choice=TWO, sent=5)], True),
        ([ran("bob", "", choice=TWO, sent=5), ran("ada", "b", choice=ONE, sent=5)], False),
        # One takes the place of the other, so both were never there together.
        ([ran("ada", "b", choice=ONE, sent=5, until=6), ran("ada", "c", choice=ONE, sent=8)], True),
    ],
)
def test_a_refusal_that_nothing_justifies_is_seen(claims: Claims, others: list[Claim], is_wrong: bool):
    claims.add(refused("ada", "", choice=ONE, sent=10))
    for other in others:
        claims.add(other)
    told = [sentence for sentence in claims.wrongly_refused() if "('ada', '')" in sentence]
    assert bool(told) == is_wrong


@pytest.mark.parametrize(
    ("others", "is_wrong"),
    [
        ([], False),
        ([ran("ada", "b", choice=ONE, sent=5)], True),
        ([ran("bob", "", choice=TWO, sent=5)], True),
        # It may just have ended, or not have begun.
        ([ran("ada", "b", choice=TWO, sent=5, until=10.5)], False),
        ([ran("ada", "b", choice=TWO, sent=9.5)], False),
    ],
)
def test_a_start_that_a_limit_forbids_is_seen(claims: Claims, others: list[Claim], is_wrong: bool):
    claims.add(ran("ada", "", choice=TWO, sent=10))
    for other in others:
        claims.add(other)
    told = [sentence for sentence in claims.wrongly_started() if "('ada', '')" in sentence]
    assert bool(told) == is_wrong
