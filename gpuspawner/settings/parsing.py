"""The door to the settings: from what traitlets holds to checked settings, or an error that names the YAML path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.discovery.assemble import ConfiguredCatalog
from gpuspawner.core.errors import SettingsError
from gpuspawner.settings.accelerators import build_accelerator_table, load_builtin_accelerators
from gpuspawner.settings.conversion import convert_settings
from gpuspawner.settings.crosschecks import check_presets, check_settings
from gpuspawner.settings.explain import explain_validation_errors
from gpuspawner.settings.merging import convert_to_plain
from gpuspawner.settings.models import SettingsModel
from gpuspawner.settings.nulls import drop_nulls, find_emptied_mappings


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
            model = SettingsModel.model_validate(_drop_empty_values(convert_to_plain(raw)))
        except ValidationError as error:
            raise SettingsError(*explain_validation_errors(error.errors(include_url=False), SettingsModel)) from None
        settings = cls(model)
        # A preset can only be judged by rules that are themselves right.
        problems = check_settings(model, frozenset(load_builtin_accelerators())) or check_presets(
            settings.build_configured()
        )
        if problems:
            raise SettingsError(*problems)
        return settings

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is configured at all."""
        return self.model == SettingsModel()

    def build_configured(self) -> ConfiguredCatalog:
        """Return what the settings say, as the core's values."""
        return convert_settings(self.model, self.build_table())

    def build_table(self) -> AcceleratorTable:
        """Return the known GPU models with the admin's changes."""
        return build_accelerator_table(self.model.accelerators)


def _drop_empty_values(raw: object) -> object:
    """Return settings without what stands for nothing: nulls, and sections that are empty as they are written.

    :raises SettingsError: nulls leave nothing where that would mean everything.
    """
    if problems := list(find_emptied_mappings(raw)):
        raise SettingsError(*problems)
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if key not in SettingsModel.model_fields or value != {}}
    return drop_nulls(raw, SettingsModel)
