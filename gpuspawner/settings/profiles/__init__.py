"""Converts a KubeSpawner `profile_list` to settings.

Callers pass the value of `c.KubeSpawner.profile_list`, KubeSpawner's own values of a few traits, and what KubeSpawner's
class accepts. They get settings that offer presets only, notes about all that is different then, and gpuspawner's user
options for KubeSpawner's. The rest of `gpuspawner.settings` does not import this package.

- `presets`: profiles, options and choices become presets, choices and entries; start here.
- `profile_list`: parse the profile list as KubeSpawner reads it.
- `overrides`: split a `kubespawner_override` into image, amounts, accelerators and other traits.
- `profile_values`, `profile_gpus`: plan which amounts and which GPU types presets and entries have.
- `converted`: the result, with gpuspawner's user options for those of KubeSpawner.
- `notes`: what is different, grouped by cause, with the effect that decides the exit status.
"""

from gpuspawner.settings.profiles.converted import ConvertedProfiles, require_presets
from gpuspawner.settings.profiles.notes import Effect, Note, format_notes, group_notes
from gpuspawner.settings.profiles.overrides import BASE_TRAITS, SpawnerTraits
from gpuspawner.settings.profiles.presets import convert_profile_list
from gpuspawner.settings.profiles.profile_list import ProfileListError

__all__ = [
    "BASE_TRAITS",
    "ConvertedProfiles",
    "Effect",
    "Note",
    "ProfileListError",
    "SpawnerTraits",
    "convert_profile_list",
    "format_notes",
    "group_notes",
    "require_presets",
]
