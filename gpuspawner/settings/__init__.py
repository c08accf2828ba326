"""Reads the admin's settings and validates them before the hub offers anything.

Callers pass the mapping below `hub.config.GPUSpawner`, or YAML files with such mappings. They get :class:`Settings`, or
a `SettingsError` with one problem for each wrong YAML path. This package reads neither the cluster nor the hub.

- `parsing`: validate the mapping; start here.
- `models`: the keys of the settings, and the catalog that they describe. `gpuspawner.core.catalog` has the classes of
  what the form offers, such as GPU types.
- `accelerators`: the table of GPU models.
- `checks`: rules that involve several keys.
- `files`: read settings files and merge them as Helm merges values files.
- `json_schema`: JSON Schema for editors and Helm; `validation_errors`: error messages and YAML paths.
"""

from gpuspawner.settings.files import SettingsFile, attribute_problems, merge_settings_files, read_settings_files
from gpuspawner.settings.json_schema import build_settings_schema
from gpuspawner.settings.models import FORM_SECTIONS
from gpuspawner.settings.parsing import Settings, diff_values, find_all_problems, merge_values
from gpuspawner.settings.validation_errors import DottedPaths

__all__ = [
    "FORM_SECTIONS",
    "DottedPaths",
    "Settings",
    "SettingsFile",
    "attribute_problems",
    "build_settings_schema",
    "diff_values",
    "find_all_problems",
    "merge_settings_files",
    "merge_values",
    "read_settings_files",
]
