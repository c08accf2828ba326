"""Checks each ``kubespawner_override`` in the settings: that it leaves alone what the user's choice sets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.errors import Problem
from gpuspawner.core.json_access import as_dict
from gpuspawner.core.text.wording import quote, sanitize_name
from gpuspawner.core.value_types import OverridingEntry, list_keys
from gpuspawner.settings.models import SettingsModel

DECIDED_TRAITS = {
    "image": "image",
    "image_spec": "image",
    "cpu_limit": "cpu",
    "cpu_guarantee": "cpu",
    "mem_limit": "memory",
    "mem_guarantee": "memory",
}
"""KubeSpawner's trait that the user's choice sets → the field of the form that sets it.

A ``kubespawner_override`` must not contain these traits.
"""
IDENTITY_TRAITS = frozenset(
    {
        *("profile_list", "options_form", "options_from_form", "apply_user_options", "group_overrides"),
        *("namespace", "enable_user_namespaces", "user_namespace_template", "pod_name_template", "component_label"),
        *(
            "capacity_timeout",
            "dry_run",
            "extra_options",
            "language",
            "links",
            "settings_files",
            *list_keys(SettingsModel),
        ),
    }
)
"""Traits that must be the same for all servers, for example because the hub builds the form from them, or because it
finds the servers' pods by them."""
_DECIDED_RESOURCES = frozenset({"cpu", "memory"})
_PRIORITY_NAMES = ("priority_class_name", "priorityClassName")
_PRIORITY_RULE = "must be left out: the field priority sets it"
_RESOURCE_TRAITS = ("extra_resource_limits", "extra_resource_guarantees")


def check_overrides(settings: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each value that a ``kubespawner_override`` in the settings must not contain.

    These are values that the user's choice sets, and values that must be the same for all servers.
    """
    resources = {entry.resource for entry in settings.gpus.values() if entry.enabled and entry.resource}
    priorities = _PRIORITY_NAMES if any(entry.enabled for entry in settings.priorities.values()) else ()
    for path, entry in list_overriding_entries(settings):
        for trait, value in entry.overrides.items():
            field = f"{path}.kubespawner_override.{sanitize_name(trait)}"
            if trait in DECIDED_TRAITS:
                message = f"must be left out: the field {DECIDED_TRAITS[trait]} sets it"
                yield Problem(field=field, code="conflict", message=message)
            elif trait in IDENTITY_TRAITS:
                message = "must be left out: it must be the same for all servers"
                yield Problem(field=field, code="conflict", message=message)
            elif trait in _RESOURCE_TRAITS:
                yield from _check_resources(field, value, decided=resources)
            elif trait == "extra_container_config":
                yield from _check_container(field, as_dict(value), decided=resources)
            elif trait == "extra_pod_config":
                yield from _check_pod(field, as_dict(value), priorities=priorities)
            elif trait in priorities:
                yield Problem(field=field, code="conflict", message=_PRIORITY_RULE)


def _check_pod(field: str, pod: Mapping[str, object], *, priorities: Collection[str]) -> Iterator[Problem]:
    if "containers" in pod:
        # These containers would replace the notebook container, which has the image and GPUs that the user chose.
        message = "must be left out: use extra_container_config or extra_containers"
        yield Problem(field=f"{field}.containers", code="conflict", message=message)
    for name in priorities:
        if name in pod:
            yield Problem(field=f"{field}.{name}", code="conflict", message=_PRIORITY_RULE)


def _check_container(field: str, container: Mapping[str, object], *, decided: set[str]) -> Iterator[Problem]:
    if "image" in container:
        message = "must be left out: the field image sets it"
        yield Problem(field=f"{field}.image", code="conflict", message=message)
    for kind, amounts in as_dict(container.get("resources")).items():
        yield from _check_resources(f"{field}.resources.{sanitize_name(kind)}", amounts, decided=decided)


def _check_resources(field: str, value: object, *, decided: set[str]) -> Iterator[Problem]:
    for name in map(str, as_dict(value)):
        if name in decided or find_vendor(name):
            message = f"must be left out: the fields gpu and gpu_count set {quote(name)}"
        elif name in _DECIDED_RESOURCES:
            message = f"must be left out: the field {name} sets it"
        else:
            continue
        yield Problem(field=f"{field}.{sanitize_name(name)}", code="conflict", message=message)


def list_overriding_entries(settings: SettingsModel) -> Iterator[tuple[str, OverridingEntry]]:
    """Yield YAML path and value of each enabled image and GPU type, which may have a ``kubespawner_override``."""
    sections: tuple[tuple[str, Mapping[str, OverridingEntry]], ...] = (
        ("images", settings.images),
        ("gpus", settings.gpus),
    )
    for section, entries in sections:
        yield from ((f"{section}.{slug}", entry) for slug, entry in entries.items() if entry.enabled)
