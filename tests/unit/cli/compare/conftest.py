"""A profile list, settings of gpuspawner that give the same servers, and a way to compare variants of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from gpuspawner.cli.compare.comparison import ChoiceResult, ComparisonReport, Scope, compare_values
from gpuspawner.cli.values.helm_values import HelmValues

Values = dict[str, Any]
Edit = Callable[[Any], object]

PROFILES: list[dict[str, Any]] = [
    {
        "display_name": "Small",
        "default": True,
        "kubespawner_override": {"image": "a/cpu:1", "cpu_limit": 2, "mem_limit": "4G", "mem_guarantee": "1G"},
    },
    {
        "display_name": "GPU",
        "allowed_groups": ["tutors"],
        "kubespawner_override": {
            "image": "a/gpu:1",
            "cpu_guarantee": 0.5,
            "mem_guarantee": "8G",
            "extra_resource_limits": {"nvidia.com/gpu": "1"},
            "node_selector": {"pool": "t4"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "environment": {"MODE": "fast"},
            "start_timeout": 900,
        },
        "profile_options": {
            "image": {
                "display_name": "Image",
                "choices": {"gpu": {"display_name": "CUDA", "kubespawner_override": {"image": "a/gpu:1"}}},
                "unlisted_choice": {
                    "enabled": True,
                    "validation_regex": "^.+:.+$",
                    "kubespawner_override": {"image": "{value}"},
                },
            },
            "size": {
                "display_name": "Size",
                "choices": {
                    "large": {
                        "display_name": "Large",
                        "allowed_groups": ["staff"],
                        "kubespawner_override": {"mem_limit": "16G"},
                    },
                    "small": {"display_name": "Small", "default": True, "kubespawner_override": {"mem_limit": "8G"}},
                },
            },
        },
    },
]
SETTINGS: dict[str, Any] = {
    "only_presets": True,
    "discover_gpus": False,
    "images": {"cpu": {"image": "a/cpu:1"}, "gpu": {"image": "a/gpu:1"}},
    "gpus": {"t4": {"resource": "nvidia.com/gpu", "match": {"pool": "t4"}, "tolerations": [], "max_count": 2}},
    "presets": {
        "small": {
            "order": 1,
            "display_name": "Small",
            "default": True,
            "image": "cpu",
            "cpu": 2,
            "cpu_guarantee": 2,
            "memory": "4G",
            "memory_guarantee": "1G",
        },
        "gpu": {
            "order": 2,
            "display_name": "GPU",
            "allowed_groups": ["tutors"],
            "image": "gpu",
            "cpu": "unlimited",
            "cpu_guarantee": 0.5,
            "gpu": "t4",
            "gpu_count": 1,
            "kubespawner_override": {
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "environment": {"MODE": "fast"},
                "start_timeout": 900,
            },
            "choices": {
                "image": {
                    "order": 1,
                    "display_name": "Image",
                    "entries": {"gpu": {"display_name": "CUDA", "image": "gpu"}},
                    "custom_image": {"pattern": "^.+:.+$"},
                },
                "size": {
                    "order": 2,
                    "display_name": "Size",
                    "entries": {
                        "large": {
                            "display_name": "Large",
                            "memory": "16G",
                            "memory_guarantee": "8G",
                            "allowed_groups": ["staff"],
                        },
                        "small": {
                            "display_name": "Small",
                            "memory": "8G",
                            "memory_guarantee": "8G",
                            "default": True,
                        },
                    },
                },
            },
        },
    },
}
SMALL = "GPU · Image: CUDA · Size: Small"
LARGE = "GPU · Image: CUDA · Size: Large"
CUSTOM = "GPU · Image: Other… · Size: Small"


def make_profiles(edit: Edit | None = None) -> Values:
    """Return values with the profile list.

    :param edit: changes the list in place.
    """
    profiles = copy.deepcopy(PROFILES)
    if edit is not None:
        edit(profiles)
    return {"singleuser": {"memory": {"guarantee": None}, "profileList": profiles}}


def make_settings(edit: Edit | None = None, **chart: Any) -> Values:
    """Return values with settings that give the same servers as the profile list.

    :param edit: changes the settings in place.
    :param chart: more traits of KubeSpawner.
    """
    settings = copy.deepcopy(SETTINGS)
    if edit is not None:
        edit(settings)
    config = {"JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"}, "GPUSpawner": settings, "KubeSpawner": chart}
    return {"singleuser": {"memory": {"guarantee": None}}, "hub": {"config": config}}


def compare(old: Values, new: Values, **scope: Any) -> ComparisonReport:
    """Return the comparison of two values files."""
    return compare_values(HelmValues(merged=old), HelmValues(merged=new), scope=Scope(**scope))


def find_result(report: ComparisonReport, label: str) -> ChoiceResult:
    """Return the result of a choice."""
    return next(each for each in report.results if each.pair.label == label)


def list_outcomes(report: ComparisonReport) -> dict[str, str]:
    """Return label → outcome of each choice."""
    return {each.pair.label: each.outcome.value for each in report.results}
