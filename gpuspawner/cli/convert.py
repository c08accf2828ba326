"""Turn a KubeSpawner profile_list into gpuspawner settings.

The file may be Helm values of zero-to-jupyterhub (singleuser.profileList or hub.config.KubeSpawner.profile_list, also
below a parent chart's key), a bare list in YAML or JSON, or a jupyterhub_config.py, which the program executes. The
program writes Helm values to standard output, and notes about options that it could not convert to standard error.

examples:
  gpuspawner convert values.yaml > converted.yaml
  gpuspawner convert jupyterhub_config.py --output json
  helm get values jhub | gpuspawner convert -
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import yaml
from traitlets.config.loader import PyFileConfigLoader

from gpuspawner.cli.common.findings import Severity
from gpuspawner.cli.common.output import OK, sanitize
from gpuspawner.cli.values.yaml_reader import describe_decode_error, read_text, read_yaml
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.settings.profiles.profile_list import AMOUNT_TRAITS, convert_profile_list

_PROFILE_LIST_PATHS = (
    ("singleuser", "profileList"),
    ("hub", "config", "KubeSpawner", "profile_list"),
    ("KubeSpawner", "profile_list"),
    ("profile_list",),
    ("profileList",),
)
_CHART_PATHS = _PROFILE_LIST_PATHS[:2]
_CONFIGS: tuple[tuple[str, ...], ...] = (("hub", "config"), ())
_SPAWNERS = ("KubeSpawner", "Spawner")
"""Sections of JupyterHub's configuration that set traits of KubeSpawner.

If both sections set a trait, the value in the first section applies.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner convert``."""
    parser.add_argument("file", metavar="FILE", help="Helm values, a profile list, or a .py file; - is standard input")
    parser.add_argument("--output", choices=("yaml", "json"), default="yaml", help="format of the result (%(default)s)")


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Convert the file, write settings to ``out`` and notes on unconverted options to ``notes``; return the exit code.

    :raises SettingsError: the file has no profile list, or an invalid one.
    :raises OSError: the file cannot be read.
    """
    root, section, profile_list = _find_profile_list(arguments.file)
    found = convert_profile_list(
        profile_list, default_image=_find_default_image(section), defaults=_collect_default_amounts(section)
    )
    for note in found.notes:
        notes.write(f"note: {sanitize(note)}\n")
    values: dict[str, Any] = {
        "hub": {
            "config": {
                "JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"},
                "GPUSpawner": dict(found.settings),
            }
        }
    }
    for path in _CHART_PATHS:
        # Write an empty profile list: it replaces the old list if the admin passes Helm the old and then the new file.
        if _get_at(section, path):
            _set_at(values, path, value=[])
    for key in root:
        values = {key: values}
    if arguments.output == "json":
        json.dump(values, out, indent=2, ensure_ascii=False)
        out.write("\n")
    else:
        yaml.safe_dump(values, out, sort_keys=False, allow_unicode=True, width=100)
    return OK


def _find_profile_list(file: str) -> tuple[tuple[str, ...], Mapping[str, Any], object]:
    """Return the path and the values of zero-to-jupyterhub's section in the file, and the profile list.

    If the file is for zero-to-jupyterhub's chart itself and not for a parent chart, the path is () and the values are
    those of the whole file. If the file is a bare list, the path and the values are empty.
    """
    document = _load_document(file)
    if isinstance(document, list):
        return (), {}, document
    for root, section in _iterate_sections(document):
        for path in _PROFILE_LIST_PATHS:
            if found := _get_at(section, path):
                return root if path in _CHART_PATHS else (), section, found
    paths = ", ".join(".".join(path) for path in _CHART_PATHS)
    raise SettingsError(Problem(field=file, code="missing", message=f"has no profile list ({paths})"))


def _get_at(section: Mapping[str, Any], path: Iterable[str]) -> Any:
    found: Any = section
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _set_at(values: dict[str, Any], path: Sequence[str], *, value: object) -> None:
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value


def _find_default_image(section: Mapping[str, Any]) -> str:
    for path in (("hub", "config", "KubeSpawner", "image"), ("KubeSpawner", "image")):
        if isinstance(found := _get_at(section, path), str):
            return found
    name, tag = (_get_at(section, ("singleuser", "image", key)) for key in ("name", "tag"))
    return f"{name}:{tag}" if isinstance(name, str) and isinstance(tag, str) else ""


def _collect_default_amounts(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return trait → default limit or guarantee of CPU or memory for profiles that do not set the trait.

    The value is None if the trait has no default. A default in JupyterHub's configuration overrides the default in the
    chart's section ``singleuser``.
    """
    found: dict[str, Any] = {}
    for name, traits in AMOUNT_TRAITS.items():
        for key, trait in zip(("limit", "guarantee"), traits, strict=True):
            paths = (
                *((*config, spawner, trait) for spawner in _SPAWNERS for config in _CONFIGS),
                ("singleuser", name, key),
            )
            found[trait] = next((value for path in paths if (value := _get_at(section, path)) is not None), None)
    return found


def _iterate_sections(document: object) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the document with the path (), and each mapping at its top level with the mapping's key.

    In values of a parent chart, one of these mappings contains the values of zero-to-jupyterhub.
    """
    if isinstance(document, Mapping):
        yield (), document
        yield from (((key,), value) for key, value in document.items() if isinstance(value, Mapping))


def _load_document(file: str) -> object:
    if file.endswith(".py"):
        path = Path(file).absolute()
        # Call stat() first: it raises an OSError with the reason. PyFileConfigLoader would only say that the file is
        # missing.
        path.stat()
        try:
            return PyFileConfigLoader(path.name, str(path.parent)).load_config()
        except (Exception, SystemExit) as error:
            message = f"cannot be run here: {type(error).__name__}: {error}"
            raise SettingsError(Problem(field=file, code="bad_value", message=message)) from error
    try:
        text = read_text(file)
    except UnicodeDecodeError as error:
        raise SettingsError(Problem(field=file, code="bad_value", message=describe_decode_error(error))) from error
    # Reject a file with duplicate keys, as `gpuspawner check` does: Helm would ignore the first of two profile lists.
    document = read_yaml(text, file="<stdin>" if file == "-" else file, may_be_list=True)
    errors = [flaw.problem for flaw in document.flaws if flaw.severity is Severity.ERROR]
    if errors:
        raise SettingsError(*errors)
    return document.tree.plain
