"""Warns about valid values of zero-to-jupyterhub that contradict gpuspawner, and about images that are not pre-pulled.

The chart's pre-pullers pull `singleuser.image`, `prePuller.extraImages` and the images of `singleuser.profileList`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from gpuspawner.cli.common.findings import Finding, Severity, format_path
from gpuspawner.cli.values.chart_config import find_chart_path, needs_chart_tag
from gpuspawner.cli.values.helm_values import (
    HUB_CONFIG_PATH,
    SETTINGS_PATH,
    SPAWNER_SECTIONS,
    HelmValues,
    merge_settings,
)
from gpuspawner.cli.values.trait_sources import find_trait_source, make_finding
from gpuspawner.core.catalog.model import Image
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.text.wording import quote

SPAWNER_CLASS = "gpuspawner.GPUSpawner"
_OWN_CLASSES = frozenset({SPAWNER_CLASS, "gpu", "gpuspawner.hub.spawner.GPUSpawner"})
_OTHER_CLASSES = frozenset({"kubespawner", "kubespawner.KubeSpawner", "simple", "localprocess", "docker"})
_NEAR = 0.75


def find_chart_warnings(values: HelmValues) -> Iterator[Finding]:
    """Yield findings about chart values: spawner class, profile list, GPUs, ``hub.config.Spawner`` and image tag."""
    yield from _check_spawner_class(values)
    yield from _check_profiles(values)
    yield from _check_gpus_for_all(values)
    yield from _check_base_section(values)
    yield from _check_image_tag(values)


def _check_spawner_class(values: HelmValues) -> Iterator[Finding]:
    section = values.get_chart_section((*HUB_CONFIG_PATH, "JupyterHub"))
    path = (*values.root, *HUB_CONFIG_PATH, "JupyterHub", "spawner_class")
    name = section.get("spawner_class")
    if name is None:
        if any("gpuspawner" in str(script) for script in values.get_chart_section(("hub", "extraConfig")).values()):
            return  # no warning: a script in hub.extraConfig may set the spawner class
        if _has_settings(values):
            message = f"is missing: without {SPAWNER_CLASS} there, nothing reads the settings of gpuspawner"
            yield make_finding(values, path, severity=Severity.WARNING, code="missing", message=message)
        else:
            message = "there is nothing of gpuspawner in these values"
            yield Finding(severity=Severity.WARNING, code="missing", path=format_path(SETTINGS_PATH), message=message)
    elif isinstance(name, str) and name not in _OWN_CLASSES:
        is_near = name in _OTHER_CLASSES or difflib.SequenceMatcher(None, name, SPAWNER_CLASS).ratio() > _NEAR
        if is_near or not name:
            message = f"must be {SPAWNER_CLASS}, not {quote(name)}"
            yield make_finding(values, path, severity=Severity.ERROR, code="bad_value", message=message)
        else:
            message = f"is not {SPAWNER_CLASS}: is {quote(name)} a subclass of it?"
            yield make_finding(values, path, severity=Severity.WARNING, code="other_class", message=message)


def _check_profiles(values: HelmValues) -> Iterator[Finding]:
    profiles = find_trait_source(values, "profile_list")
    if profiles is not None and profiles.value and _has_settings(values):
        message = (
            "is not shown to anybody: gpuspawner's form takes its place. `gpuspawner convert` makes presets of the "
            "profiles; an empty list takes them away"
        )
        yield make_finding(values, profiles.path, severity=Severity.WARNING, code="unused", message=message)


def _check_gpus_for_all(values: HelmValues) -> Iterator[Finding]:
    """Yield a warning for each GPU resource in the limits or guarantees of all servers; gpuspawner removes it."""
    for name in ("extra_resource_limits", "extra_resource_guarantees"):
        source = find_trait_source(values, name)
        if source is not None and isinstance(source.value, Mapping):
            for resource in filter(find_vendor, source.value):
                message = "is taken off each server: it gets the GPUs that are picked, and no others"
                yield make_finding(
                    values, (*source.path, resource), severity=Severity.WARNING, code="unused", message=message
                )


def _check_base_section(values: HelmValues) -> Iterator[Finding]:
    """Yield a warning for each trait of ``hub.config.Spawner`` that the chart overrides by a value for KubeSpawner."""
    base = (*HUB_CONFIG_PATH, SPAWNER_SECTIONS[-1])
    for name in values.get_chart_section(base):
        if chart_path := find_chart_path(values.chart, str(name)):
            nearer = (*HUB_CONFIG_PATH, SPAWNER_SECTIONS[1], name)
            message = (
                f"has no effect, because the chart says it of KubeSpawner: say {chart_path}, or {format_path(nearer)}"
            )
            path = (*values.root, *base, name)
            yield make_finding(values, path, severity=Severity.WARNING, code="unused", message=message)


def _check_image_tag(values: HelmValues) -> Iterator[Finding]:
    if needs_chart_tag(values.chart):
        path = (*values.root, "singleuser", "image", "name")
        message = (
            "has no tag beside it: the chart puts the tag of its own image behind the name, which this one hardly has. "
            "Say singleuser.image.tag; null there leaves the name as it is"
        )
        yield make_finding(values, path, severity=Severity.WARNING, code="missing", message=message)


def _has_settings(values: HelmValues) -> bool:
    return bool(values.settings or merge_settings(values))


def find_unpulled_images(values: HelmValues, images: Mapping[str, Image]) -> Iterator[Finding]:
    """Yield one hint with Helm values that make the chart pre-pull all images of the settings.

    :param images: the images of the settings by slug.
    """
    puller = values.get_chart_section(("prePuller",))
    if not any(_is_enabled(puller.get(kind)) for kind in ("hook", "continuous")):
        return
    pulled = set(_list_pulled_images(values))
    unpulled = {slug: image.image for slug, image in images.items() if image.image not in pulled}
    entries = {slug: _make_image_entry(reference) for slug, reference in unpulled.items() if "@" not in reference}
    if entries:
        path = (*values.root, *SETTINGS_PATH, "images")
        yield Finding(
            severity=Severity.HINT,
            code="not_pulled",
            path=format_path(path),
            message="nodes pull these images when somebody starts a server with one; to have them pulled before:",
            place=values.locate(path),
            more=yaml.safe_dump({"prePuller": {"extraImages": entries}}, sort_keys=False),
        )


def _is_enabled(section: Any) -> bool:
    return not (isinstance(section, Mapping) and section.get("enabled") is False)


def _list_pulled_images(values: HelmValues) -> Iterator[str]:
    extra = values.get_chart_section(("prePuller", "extraImages")).values()
    for entry in (values.get_chart_section(("singleuser", "image")), *extra):
        if isinstance(entry, Mapping) and "name" in entry:
            yield f"{entry['name']}:{entry.get('tag', 'latest')}"


def _make_image_entry(reference: str) -> dict[str, str]:
    name, colon, tag = reference.rpartition(":")
    return {"name": name, "tag": tag} if colon and "/" not in tag else {"name": reference, "tag": "latest"}
