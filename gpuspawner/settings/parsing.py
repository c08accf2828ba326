"""The door to the settings: from what traitlets holds to checked settings, or an error that names the YAML path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from gpuspawner.core.accelerators import AcceleratorTable
from gpuspawner.core.assemble import Configured
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.quoting import name_of
from gpuspawner.settings.accelerators import accelerator_table, builtin_accelerators
from gpuspawner.settings.conversion import to_configured
from gpuspawner.settings.crosschecks import crosschecks, preset_problems
from gpuspawner.settings.explain import explain
from gpuspawner.settings.merging import plain
from gpuspawner.settings.models import SettingsModel

_SLUGGED = ("images", "priorities", "gpus", "presets", "pools")
_RULED = ("groups", "users")


@dataclass(frozen=True, slots=True)
class Settings:
    """What an admin configured, checked.

    :param model: the settings, key by key.
    """

    model: SettingsModel

    @classmethod
    def parse(cls, raw: Mapping[str, object]) -> Settings:
        """Return checked settings.

        :param raw: ``images``, ``custom_images``, ``cpu``, ``memory``, ``run_time``, ``shared_memory``, ``priorities``,
            ``gpus``, ``presets``, ``policy``, ``pools``, ``accelerators``, ``discover_gpus``, ``queue`` as YAML holds
            them; empty and missing ones are the same.
        :raises SettingsError: with one problem for each path that is wrong.
        """
        try:
            model = SettingsModel.model_validate(_without_nulls(plain(raw)))
        except ValidationError as error:
            raise SettingsError(*explain(error.errors(include_url=False), SettingsModel)) from None
        settings = cls(model)
        # A preset can only be judged by rules that are themselves right.
        problems = crosschecks(model, frozenset(builtin_accelerators())) or preset_problems(settings.configured())
        if problems:
            raise SettingsError(*problems)
        return settings

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is configured at all."""
        return self.model == SettingsModel()

    def configured(self) -> Configured:
        """Return what the settings say, as the core's values."""
        return to_configured(self.model, self.table())

    def table(self) -> AcceleratorTable:
        """Return the known GPU models with the admin's changes."""
        return accelerator_table(self.model.accelerators)


def _without_nulls(raw: object) -> object:
    """Return settings without what stands for nothing: sections that are null or empty, entries set to null."""
    if not isinstance(raw, dict):
        return raw
    kept = {
        key: value for key, value in raw.items() if key not in SettingsModel.model_fields or value not in (None, {})
    }
    for section in _SLUGGED:
        if section in kept:
            kept[section] = _said(kept[section])
    if isinstance(kept.get("pools"), dict):
        kept["pools"] = {slug: _said(pool) for slug, pool in kept["pools"].items()}
    if "policy" in kept:
        kept["policy"] = _rules_without_nulls(kept["policy"])
    return kept


def _rules_without_nulls(raw: object) -> object:
    """Return a policy without what is null: groups, people, and keys and GPU types of their rules."""
    policy = _said(raw)
    if not isinstance(policy, dict):
        return policy
    for section in _RULED:
        rules = _said(policy.get(section))
        if isinstance(rules, dict):
            policy[section] = {
                name: _rule_without_nulls(rule, path=f"policy.{section}.{name_of(name)}")
                for name, rule in rules.items()
            }
    if "default" in policy:
        policy["default"] = _rule_without_nulls(policy["default"], path="policy.default")
    return policy


def _rule_without_nulls(rule: object, *, path: str) -> object:
    """Return what is not null of a rule.

    :raises SettingsError: all its GPU types are null, as YAML reads ``t4:``; none would be left, which nobody means.
    """
    said = _said(rule)
    if isinstance(said, dict) and isinstance(types := said.get("gpus"), dict):
        said["gpus"] = _said(types)
        if types and not said["gpus"]:
            slug = name_of(next(iter(types)))
            shown = '"*"' if slug == "*" else slug
            message = f"names no GPU type, because null takes one out; to allow one write {shown}: {{}}"
            raise SettingsError(Problem(field=f"{path}.gpus", code="bad_value", message=message))
    return said


def _said(entries: object) -> object:
    """Return what is not null of a mapping, anything else as it is."""
    if not isinstance(entries, dict):
        return entries
    return {name: entry for name, entry in entries.items() if entry is not None}
