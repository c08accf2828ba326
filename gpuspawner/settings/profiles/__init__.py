"""Converts a KubeSpawner `profile_list` to settings.

Callers pass the values of `c.KubeSpawner.profile_list` and of a few other traits, and a description of KubeSpawner's
traits (`SpawnerTraits`). They get settings that offer only presets, notes about what differs from the profile list, and
an object that converts KubeSpawner's user options to gpuspawner's. The rest of `gpuspawner.settings` does not import
this package.

- `presets`: convert each profile to a preset, each option of a profile to a list in the preset (the preset's
  `choices`), and each choice of an option to an entry of the list; start here.
- `profile_list`: parse the profile list as KubeSpawner reads it.
- `overrides`: split a `kubespawner_override` into image, CPU and memory, accelerators, and other traits.
- `profile_values`, `profile_gpus`: find the CPU, the memory and the GPU types of presets and of their lists' entries.
- `converted`: the result, which also converts KubeSpawner's user options to gpuspawner's.
- `notes`: what differs and why; the exit status of `gpuspawner convert` depends on the most serious difference.
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
