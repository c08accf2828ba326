from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.cli.inventory.entitled import Entitled, entitled
from gpuspawner.core.catalog.catalogue import Bounds, Catalogue
from gpuspawner.core.catalog.policy_rules import Policy, Range, Rule
from gpuspawner.core.cluster.occupancy import Inventory
from gpuspawner.core.discovery.assemble import assemble
from gpuspawner.settings import Settings

GPUS = {"a100": {"resource": "nvidia.com/gpu"}, "mi300": {"resource": "amd.com/gpu"}}


def catalogue(policy: dict[str, Any] | None) -> Catalogue:
    raw = {"gpus": GPUS} if policy is None else {"gpus": GPUS, "policy": policy}
    settings = Settings.parse(raw)
    return assemble(settings.configured(), Inventory(), table=settings.table(), fallback_image="i")


def test_without_a_policy_everybody_may_have_everything():
    assert entitled(catalogue(None)) == {"a100": Entitled(everybody=True), "mi300": Entitled(everybody=True)}


@pytest.mark.parametrize(
    ("policy", "a100", "mi300"),
    [
        ({"default": {"gpus": {"a100": {}}}}, "everybody", "nobody"),
        (
            {"default": {"gpus": {"a100": {}}}, "groups": {"Physics": {"gpus": {"*": {}}}}},
            "everybody",
            "group physics",
        ),
        (
            {"groups": {"guests": {"deny": True, "gpus": {"mi300": {}}}}},
            "everybody but group guests",
            "everybody",
        ),
        (
            {"default": {"max_gpus": 0}, "users": {"ada": {"max_gpus": 1}, "bob": {"max_gpus": 0}}},
            "user ada",
            "user ada",
        ),
    ],
)
def test_who_may_have_a_type_is_told_by_the_rules_that_the_form_and_the_gate_go_by(
    policy: dict[str, Any], a100: str, mi300: str
):
    found = entitled(catalogue(policy))
    assert {slug: who.text() for slug, who in found.items()} == {"a100": a100, "mi300": mi300}


def test_whoever_may_start_nothing_at_all_may_have_no_gpu():
    cpu = Bounds(min=1000, max=8000, step=1000, default=1000)
    policy = Policy(default=Rule(cpu=Range(min=64_000)), users={"ada": Rule(cpu=Range(min=1000))})
    found = entitled(replace(catalogue(None), cpu=cpu, policy=policy))
    assert {who.text() for who in found.values()} == {"user ada"}
