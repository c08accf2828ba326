"""Checks presets, the lists in them (``choices``), and each ``kubespawner_override`` in the settings.

:func:`gpuspawner.settings.checks.check_presets` also validates each preset like a user's choice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from gpuspawner.core.catalog.model import GUARANTEES, NO_LIMIT
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.errors import Problem
from gpuspawner.core.json_access import as_dict
from gpuspawner.core.request.field_definitions import CPU, MEMORY
from gpuspawner.core.text.wording import quote, sanitize_name
from gpuspawner.core.value_types import OverridingEntry, list_keys
from gpuspawner.settings.models import ImageInputSetting, PresetChoiceSetting, PresetValues, SettingsModel

_SLUG = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?", re.ASCII)

DECIDED_TRAITS = {
    "image": "image",
    "image_spec": "image",
    "cpu_limit": "cpu",
    "cpu_guarantee": "cpu_guarantee",
    "mem_limit": "memory",
    "mem_guarantee": "memory_guarantee",
}
"""KubeSpawner's trait that the user's choice sets → key with which a preset sets it.

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
_DECIDED_RESOURCES = frozenset(GUARANTEES.values())
_PRIORITY_NAMES = ("priority_class_name", "priorityClassName")
_PRIORITY_RULE = "must be left out: the choice sets it (priority of a preset)"
_RESOURCE_TRAITS = ("extra_resource_limits", "extra_resource_guarantees")


def check_overrides(settings: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each value that a ``kubespawner_override`` in the settings must not contain.

    These are values that the user's choice sets, and values that must be the same for all servers.

    :param settings: settings in which each single value is valid; they may contradict each other.
    """
    resources = {entry.resource for entry in settings.gpus.values() if entry.enabled and entry.resource}
    priorities = _PRIORITY_NAMES if any(entry.enabled for entry in settings.priorities.values()) else ()
    for path, entry in list_overriding_entries(settings):
        for trait, value in entry.overrides.items():
            field = f"{path}.kubespawner_override.{sanitize_name(trait)}"
            if trait in DECIDED_TRAITS:
                message = f"must be left out: the choice sets it ({DECIDED_TRAITS[trait]} of a preset)"
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
        message = "must be left out: the choice sets it (image of a preset)"
        yield Problem(field=f"{field}.image", code="conflict", message=message)
    for kind, amounts in as_dict(container.get("resources")).items():
        yield from _check_resources(f"{field}.resources.{sanitize_name(kind)}", amounts, decided=decided)


def _check_resources(field: str, value: object, *, decided: set[str]) -> Iterator[Problem]:
    for name in map(str, as_dict(value)):
        if name in decided or find_vendor(name):
            message = f"must be left out: gpu and gpu_count of a preset set {quote(name)}"
        elif name in _DECIDED_RESOURCES:
            message = f"must be left out: {name} and {name}_guarantee of a preset set it"
        else:
            continue
        yield Problem(field=f"{field}.{sanitize_name(name)}", code="conflict", message=message)


def check_choices(settings: SettingsModel) -> Iterator[Problem]:
    """Yield the problems of presets and of their ``choices``.

    :param settings: settings in which each single value is valid; they may contradict each other.
    """
    if settings.only_presets and not any(entry.enabled for entry in settings.presets.values()):
        yield Problem(field="only_presets", code="conflict", message="needs at least one preset")
    if len([entry for entry in settings.presets.values() if entry.enabled and entry.default]) > 1:
        yield Problem(field="presets", code="conflict", message="must have at most one default preset")
    for slug, preset in settings.presets.items():
        if not preset.enabled:
            continue
        yield from _check_guarantees(f"presets.{slug}", preset, preset=preset)
        for name, choice in preset.choices.items():
            path = f"presets.{slug}.choices.{sanitize_name(name)}"
            if not _SLUG.fullmatch(name):
                yield Problem(field=path, code="bad_slug", message=_SLUG_RULE)
            if choice.enabled:
                yield from _check_choice(path, choice, preset=preset)


_SLUG_RULE = "must be lower-case letters, digits, -, _ and ., at most 63, with a letter or digit at both ends"


def _check_choice(path: str, choice: PresetChoiceSetting, *, preset: PresetValues) -> Iterator[Problem]:
    enabled = {slug: entry for slug, entry in choice.entries.items() if entry.enabled}
    if not enabled and choice.custom_image is None:
        yield Problem(field=f"{path}.entries", code="missing", message="must have at least one entry")
    if len([entry for entry in enabled.values() if entry.default]) > 1:
        yield Problem(field=f"{path}.entries", code="conflict", message="must have at most one default entry")
    for slug, entry in choice.entries.items():
        if not _SLUG.fullmatch(slug):
            yield Problem(field=f"{path}.entries.{sanitize_name(slug)}", code="bad_slug", message=_SLUG_RULE)
        elif entry.enabled:
            yield from _check_guarantees(f"{path}.entries.{slug}", entry, preset=preset)
    if choice.custom_image is not None:
        try:
            re.compile(choice.custom_image.pattern)
        except re.error as error:
            message = f"must be a regular expression: {error}"
            yield Problem(field=f"{path}.custom_image.pattern", code="bad_value", message=message)


def _check_guarantees(path: str, own: PresetValues, *, preset: PresetValues) -> Iterator[Problem]:
    fields = {each.name: each for each in (CPU, MEMORY)}
    for key, name in GUARANTEES.items():
        guarantee, limit = getattr(own, key), getattr(own, name)
        if limit is None:
            limit = getattr(preset, name)
        if guarantee is not None and limit is not None and limit != NO_LIMIT and guarantee > limit:
            show = fields[name].notation.show
            message = f"must be at most {name} ({show(limit)}), not {show(guarantee)}"
            yield Problem(field=f"{path}.{key}", code="out_of_range", message=message)


def list_overriding_entries(settings: SettingsModel) -> Iterator[tuple[str, OverridingEntry | ImageInputSetting]]:
    """Yield the YAML path and the value of each enabled part of the settings that may have a ``kubespawner_override``.

    These parts are images, GPU types and presets, and the ``entries`` and ``custom_image`` in presets' ``choices``.

    :param settings: settings in which each single value is valid; they may contradict each other.
    """
    sections: tuple[tuple[str, Mapping[str, OverridingEntry]], ...] = (
        ("images", settings.images),
        ("gpus", settings.gpus),
        ("presets", settings.presets),
    )
    for section, entries in sections:
        yield from ((f"{section}.{slug}", entry) for slug, entry in entries.items() if entry.enabled)
    for slug, preset in settings.presets.items():
        for name, choice in preset.choices.items():
            for key, entry in choice.entries.items():
                if preset.enabled and choice.enabled and entry.enabled:
                    yield f"presets.{slug}.choices.{sanitize_name(name)}.entries.{sanitize_name(key)}", entry
            if preset.enabled and choice.enabled and choice.custom_image is not None:
                yield f"presets.{slug}.choices.{sanitize_name(name)}.custom_image", choice.custom_image
