"""The door to the settings: from what traitlets holds to checked settings, or an error that names the YAML path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.discovery.assemble import Configured
from gpuspawner.core.errors import SettingsError
from gpuspawner.settings.accelerators import accelerator_table, builtin_accelerators
from gpuspawner.settings.conversion import to_configured
from gpuspawner.settings.crosschecks import crosschecks, preset_problems
from gpuspawner.settings.explain import explain
from gpuspawner.settings.merging import plain
from gpuspawner.settings.models import SettingsModel
from gpuspawner.settings.nulls import emptied, without_nulls


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
            model = SettingsModel.model_validate(_said(plain(raw)))
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


def _said(raw: object) -> object:
    """Return settings without what stands for nothing: nulls, and sections that are empty as they are written.

    :raises SettingsError: nulls leave nothing where that would mean everything.
    """
    if problems := list(emptied(raw)):
        raise SettingsError(*problems)
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if key not in SettingsModel.model_fields or value != {}}
    return without_nulls(raw, SettingsModel)
