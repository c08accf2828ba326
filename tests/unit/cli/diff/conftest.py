"""Values files for tests of `gpuspawner diff`, and the report about two of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuspawner.cli.main import main

Values = dict[str, Any]
Edit = Callable[[Any], object]
Diff = Callable[..., tuple[int, dict[str, Any]]]

PROFILES: list[dict[str, Any]] = [
    {
        "display_name": "Small",
        "default": True,
        "kubespawner_override": {"image": "a/cpu:1", "mem_limit": "4G", "mem_guarantee": "1G"},
    },
    {
        "display_name": "GPU",
        "kubespawner_override": {
            "image": "a/gpu:1",
            "extra_resource_limits": {"nvidia.com/gpu": "1"},
            "node_selector": {"pool": "t4"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "environment": {"MODE": "fast"},
            "start_timeout": 900,
        },
        "profile_options": {
            "image": {
                "display_name": "Image",
                "choices": {"cuda": {"display_name": "CUDA", "kubespawner_override": {"image": "a/gpu:1"}}},
                "unlisted_choice": {
                    "enabled": True,
                    "validation_regex": "^.+:.+$",
                    "kubespawner_override": {"image": "{value}"},
                },
            },
            "size": {
                "display_name": "Size",
                "choices": {
                    "large": {"display_name": "Large", "kubespawner_override": {"mem_limit": "16G"}},
                    "small": {"display_name": "Small", "default": True, "kubespawner_override": {"mem_limit": "8G"}},
                },
            },
        },
    },
]
SETTINGS: dict[str, Any] = {
    "discover_gpus": False,
    "images": {"cpu": {"image": "a/cpu:1"}, "gpu": {"image": "a/gpu:1"}},
    "gpus": {"t4": {"resource": "nvidia.com/gpu", "match": {"pool": "t4"}, "tolerations": []}},
    "presets": {"course": {"display_name": "Course", "image": "cpu", "cpu": 2, "memory": "4G"}},
    "cpu": {"max": 8, "default": 1},
    "memory": {"max": "32G", "default": "2G"},
}
DEFAULT = "profile gpu · image: cuda · size: small"
LARGE = "profile gpu · image: cuda · size: large"
TEXT = "profile gpu · image: a text like ^.+:.+$ · size: small"
TEXT_LARGE = "profile gpu · image: a text like ^.+:.+$ · size: large"


def make_profiles(edit: Edit | None = None, **config: Any) -> Values:
    """Return values with the profile list.

    :param edit: changes the list in place.
    :param config: sections of ``hub.config``.
    """
    profiles = copy.deepcopy(PROFILES)
    if edit is not None:
        edit(profiles)
    return {"singleuser": {"profileList": profiles}, "hub": {"config": config}}


def make_settings(edit: Edit | None = None) -> Values:
    """Return values with settings of gpuspawner.

    :param edit: changes the settings in place.
    """
    settings = copy.deepcopy(SETTINGS)
    if edit is not None:
        edit(settings)
    return {"hub": {"config": {"JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"}, "GPUSpawner": settings}}}


@pytest.fixture
def diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Diff:
    """Run the command for two values files: its exit code, and its report as a program reads it."""

    def run(old: Values, new: Values, *arguments: str) -> tuple[int, dict[str, Any]]:
        files = [tmp_path / "old.yaml", tmp_path / "new.yaml"]
        for file, values in zip(files, (old, new), strict=True):
            file.write_text(yaml.safe_dump(values, sort_keys=False))
        status = main(["diff", *map(str, files), "--output", "json", *arguments])
        return status, json.loads(capsys.readouterr().out)

    return run


def list_outcomes(report: dict[str, Any]) -> dict[str, str]:
    """Return choice → outcome."""
    return {result["choice"]: result["outcome"] for result in report["choices"]}


def list_differences(report: dict[str, Any], choice: str) -> list[str]:
    """Return the differences of a choice, as the table shows them."""
    (found,) = (result for result in report["choices"] if result["choice"] == choice)
    return ["{field} {old} → {new}".format(**difference) for difference in found["differences"]]
