from __future__ import annotations

from gpuspawner.cli.doctor import choices, gpu_sharing, hub_health, namespace, node_health, referenced_objects
from gpuspawner.cli.doctor.command import RULES, diagnose
from tests.unit.cli.doctor.cases import facts, node

MODULES = (choices, gpu_sharing, hub_health, namespace, node_health, referenced_objects)
NO_RULES = {"can_scale_up", "is_device_plugin"}


def test_every_rule_of_every_module_is_asked():
    written = {
        value
        for module in MODULES
        for name, value in vars(module).items()
        if callable(value)
        and getattr(value, "__module__", "") == module.__name__
        and not name.startswith("_")
        and name not in NO_RULES
    }
    assert written == set(RULES)


def test_nothing_is_found_where_all_is_well():
    assert diagnose(facts()) == ()


def test_the_worst_is_reported_first():
    found = diagnose(facts(node("a", unschedulable=True), node("b", gpus=0)))
    assert [each.code for each in found] == ["device-plugin-missing", "node-cordoned"]
