"""Converts a KubeSpawner `profile_list` to settings.

The value of `c.KubeSpawner.profile_list` and KubeSpawner's defaults enter. Settings, and notes for the admin about
parts that are lost or changed, leave. The rest of the settings does not know this room.

- `variants`: expand the profiles and the choices in their options.
- `profile_list`: convert images, amounts and presets; start here.
- `profile_gpus`: convert the GPU types.
"""

from gpuspawner.settings.profiles.profile_list import AMOUNT_TRAITS, ConvertedProfiles, convert_profile_list

__all__ = ["AMOUNT_TRAITS", "ConvertedProfiles", "convert_profile_list"]
