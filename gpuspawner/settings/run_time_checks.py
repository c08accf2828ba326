"""What limits of run times must mean together with the run times that people choose from."""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.core.errors import Problem
from gpuspawner.core.text.quoting import sanitize_name
from gpuspawner.core.units.duration import format_duration
from gpuspawner.settings.models import SettingsModel
from gpuspawner.settings.policy_entries import RuleEntry

_Limit = tuple[str, int | None]
"""The path of an entry, and its ``max_runtime`` in seconds."""


def check_run_time_limits(settings: SettingsModel) -> Iterator[Problem]:
    """Yield limits that no server can keep: below 1 second, or below the shortest run time there is to choose."""
    shortest_s = None if settings.run_time is None else settings.run_time.min
    for path, limit_s in _list_limits(settings):
        if limit_s is None:
            continue
        field = f"{path}.max_runtime"
        if limit_s <= 0:
            yield Problem(field=field, code="out_of_range", message="must be more than 0")
        elif shortest_s is not None and limit_s < shortest_s:
            message = f"must be at least run_time.min ({format_duration(shortest_s)}), not {format_duration(limit_s)}"
            yield Problem(field=field, code="out_of_range", message=message)


def _list_limits(settings: SettingsModel) -> Iterator[_Limit]:
    for slug, gpu in settings.gpus.items():
        if gpu.enabled:
            yield f"gpus.{slug}", gpu.max_runtime
    policy = settings.policy
    if policy is not None:
        yield from _list_rule_limits("policy.default", policy.default)
        for section, rules in (("groups", policy.groups), ("users", policy.users)):
            for name, rule in rules.items():
                if rule.enabled:
                    yield from _list_rule_limits(f"policy.{section}.{sanitize_name(name)}", rule)


def _list_rule_limits(path: str, rule: RuleEntry) -> Iterator[_Limit]:
    yield path, rule.max_runtime
    for slug, of_type in (rule.gpus or {}).items():
        yield f"{path}.gpus.{sanitize_name(slug)}", of_type.max_runtime
