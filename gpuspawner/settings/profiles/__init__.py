"""Converts a KubeSpawner `profile_list` to settings.

Callers pass the value of `c.KubeSpawner.profile_list` and KubeSpawner's defaults for image, CPU and memory. They get
settings, and notes: sentences for the admin about parts of the profile list that the settings leave out or change. The
rest of `gpuspawner.settings` does not import this package.

- `variants`: expand a profile into one variant for each combination of choices in its options.
- `profile_list`: convert the keys of `kubespawner_override`: images, CPU and memory, presets; start here.
- `profile_gpus`: convert the GPU types.
"""

from gpuspawner.settings.profiles.profile_list import AMOUNT_TRAITS, convert_profile_list

__all__ = ["AMOUNT_TRAITS", "convert_profile_list"]
