"""Warns about values of zero-to-jupyterhub that contradict gpuspawner, and about the images that the chart pre-pulls.

The chart's pre-pullers pull the images that the chart's own values name, such as ``singleuser.image`` and
``prePuller.extraImages``. They do not pull the images of gpuspawner's setting ``images``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from gpuspawner.cli.check.replaced_lists import find_replaced_lists
from gpuspawner.cli.common.findings import Finding, Severity, format_path
from gpuspawner.cli.values.chart_config import OUR_CLASSES, find_chart_path, needs_chart_tag
from gpuspawner.cli.values.helm_values import (
    HUB_CONFIG_PATH,
    SETTINGS_PATH,
    SPAWNER_SECTIONS,
    HelmValues,
    merge_settings,
)
from gpuspawner.cli.values.trait_sources import TraitSource, find_trait_source, has_profiles, make_finding
from gpuspawner.core.catalog.model import Image
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.json_access import as_dict
from gpuspawner.core.request.pod_requirements import GPU_HIDING_ENVIRONMENT
from gpuspawner.core.text.wording import quote
from gpuspawner.core.warnings.presets_and_policy import CONTAINER_GPUS_REASON
from gpuspawner.hub.pod.admin_values import CONTAINER_TRAITS, list_container_gpus, list_own_gpus

SPAWNER_CLASS = "gpuspawner.GPUSpawner"
_OTHER_MODULES = frozenset({"", "gpuspawner", "kubespawner", "simple", "localprocess", "docker"})
"""First words of names of spawner classes that are certainly no subclass of gpuspawner's."""


def find_chart_warnings(values: HelmValues) -> Iterator[Finding]:
    """Yield findings about the spawner class, the image tag, and values that have no effect."""
    yield from _check_spawner_class(values)
    if not has_profiles(values):
        yield from _check_replaced_values(values)
    yield from find_replaced_lists(values)
    yield from _check_base_section(values)
    yield from _check_image_tag(values)


def _check_spawner_class(values: HelmValues) -> Iterator[Finding]:
    section = values.get_chart_section((*HUB_CONFIG_PATH, "JupyterHub"))
    path = (*values.root, *HUB_CONFIG_PATH, "JupyterHub", "spawner_class")
    name = section.get("spawner_class")
    if name is None:
        if any("gpuspawner" in str(script) for script in values.get_chart_section(("hub", "extraConfig")).values()):
            return  # a script in hub.extraConfig may set the spawner class, so hub.config need not set it
        if _has_settings(values):
            message = f"is missing: without {SPAWNER_CLASS} there, nothing reads the settings of gpuspawner"
            yield make_finding(values, path, severity=Severity.WARNING, code="missing", message=message)
        else:
            message = f"is missing, so the hub does not use gpuspawner: set it to {SPAWNER_CLASS}"
            yield Finding(severity=Severity.WARNING, code="missing", path=format_path(path), message=message)
    elif isinstance(name, str) and name not in OUR_CLASSES:
        if name.partition(".")[0] in _OTHER_MODULES:
            message = f"must be {SPAWNER_CLASS}, not {quote(name)}"
            yield make_finding(values, path, severity=Severity.ERROR, code="bad_value", message=message)
        else:
            message = f"is not {SPAWNER_CLASS}: is {quote(name)} a subclass of it?"
            yield make_finding(values, path, severity=Severity.WARNING, code="other_class", message=message)


_REPLACED_TRAITS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("cpu_limit", "cpu_guarantee"),
    "memory": ("mem_limit", "mem_guarantee"),
    "images": ("image", "singleuser.image.name", "singleuser.image.tag"),
    "priorities": ("priority_class_name",),
}
"""Setting of gpuspawner → KubeSpawner's traits and chart values that have no effect if the admin uses the setting."""


def _check_replaced_values(values: HelmValues) -> Iterator[Finding]:
    settings = merge_settings(values)
    for key, replaced in _REPLACED_TRAITS.items():
        if not settings.get(key):
            continue
        message = f"has no effect: {format_path((*SETTINGS_PATH, key))} replaces it"
        for source in _list_sources(values, replaced):
            if not (key == "images" and _is_offered_image(values, source, images=settings[key])):
                yield make_finding(values, source.path, severity=Severity.WARNING, code="unused", message=message)
    environment = find_trait_source(values, "environment") if _has_settings(values) else None
    if environment is not None:
        message = "has no effect: gpuspawner sets or removes this variable in each server, by its GPU"
        for variable in filter(GPU_HIDING_ENVIRONMENT.__contains__, as_dict(environment.value)):
            path = (*environment.path, variable)
            yield make_finding(values, path, severity=Severity.WARNING, code="unused", message=message)


def _list_sources(values: HelmValues, replaced: Iterable[str]) -> Iterator[TraitSource]:
    for name in replaced:
        *above, key = name.split(".")
        found = values.get_chart_section(above).get(key) if above else None
        source = find_trait_source(values, name) if not above else TraitSource((*values.root, *above, key), found)
        if source is not None and source.value is not None:
            yield source


def _is_offered_image(values: HelmValues, source: TraitSource, *, images: object) -> bool:
    """Return whether the setting ``images`` lists the image that ``singleuser.image`` or KubeSpawner's ``image`` names.

    The caller then does not report that chart value or trait as unused.
    """
    chart_image = _read_image_entry(values.get_chart_section(("singleuser", "image")))
    written = source.value if source.path[-1] == "image" else chart_image
    entries = [entry for entry in (images.values() if isinstance(images, Mapping) else ()) if _is_enabled(entry)]
    offered = {_normalize_image(entry["image"]) for entry in entries if isinstance(entry, Mapping) and "image" in entry}
    return bool(written) and _normalize_image(written) in offered


def find_dropped_gpus(values: HelmValues, configured: ConfiguredCatalog) -> Iterator[Finding]:
    """Yield a finding for each GPU resource in KubeSpawner's traits that gpuspawner may remove from servers.

    - ``extra_resource_limits``: if no GPU type offers so many GPUs, gpuspawner removes them. Otherwise, they can
      become the form's default choice.
    - ``extra_containers`` and similar traits: gpuspawner always removes their GPUs.
    - ``extra_resource_guarantees``: gpuspawner removes GPUs that are not in ``extra_resource_limits``, too.

    With a ``profile_list``, yield nothing: the servers of profiles keep these GPUs.
    """
    if has_profiles(values):
        return
    limits, guarantees = (
        find_trait_source(values, f"extra_resource_{kind}") or TraitSource((), {}) for kind in ("limits", "guarantees")
    )
    own = dict(list_own_gpus(limits.value))
    for resource, number in own.items():
        types = (gpu for gpu in configured.gpus.values() if gpu.resource == resource)
        if any(gpu.slug in configured.uncounted or number <= gpu.max_count for gpu in types):
            continue
        path = (*limits.path, resource)
        if configured.discover:
            message = (
                "is the form's default choice if a GPU type of the nodes offers as many, and dropped otherwise: "
                "gpuspawner doctor tells which"
            )
            yield make_finding(values, path, severity=Severity.HINT, code="gpu_default", message=message)
        else:
            message = f"is dropped from each server: no GPU type of the settings offers {number} of it"
            yield make_finding(values, path, severity=Severity.WARNING, code="unused", message=message)
    for trait in CONTAINER_TRAITS:
        source = find_trait_source(values, trait) or TraitSource((), {})
        for resource, number in list_container_gpus(source.value):
            message = f"has {number} {resource}, which are dropped from each server: {CONTAINER_GPUS_REASON}"
            yield make_finding(values, source.path, severity=Severity.WARNING, code="unused", message=message)
    for resource, _ in list_own_gpus(guarantees.value):
        if resource not in own:
            path = (*guarantees.path, resource)
            message = "is dropped from each server: Kubernetes takes GPUs as limits only"
            yield make_finding(values, path, severity=Severity.WARNING, code="unused", message=message)


def _check_base_section(values: HelmValues) -> Iterator[Finding]:
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
            "Say singleuser.image.tag"
        )
        yield make_finding(values, path, severity=Severity.WARNING, code="missing", message=message)


def _has_settings(values: HelmValues) -> bool:
    return bool(values.settings or merge_settings(values))


def find_unpulled_images(values: HelmValues, images: Mapping[str, Image]) -> Iterator[Finding]:
    """Yield a hint if the chart's pre-pullers are enabled but do not pull all images of the settings.

    The hint contains Helm values that make the pre-pullers pull the missing images, too. It leaves out images with a
    digest, because an entry of ``prePuller.extraImages`` consists of a name and a tag.
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
            message="nodes pull these images when a server needs them; to pull them earlier:",
            place=values.locate(path),
            more=yaml.safe_dump({"prePuller": {"extraImages": entries}}, sort_keys=False),
        )


def _is_enabled(section: Any) -> bool:
    return not (isinstance(section, Mapping) and section.get("enabled") is False)


def _list_pulled_images(values: HelmValues) -> Iterator[str]:
    extra = values.get_chart_section(("prePuller", "extraImages")).values()
    return filter(None, map(_read_image_entry, (values.get_chart_section(("singleuser", "image")), *extra)))


def _read_image_entry(entry: Any) -> str:
    if not isinstance(entry, Mapping) or "name" not in entry:
        return ""
    return f"{entry['name']}:{entry.get('tag', 'latest')}"


def _normalize_image(reference: Any) -> str:
    return str(reference) if "@" in str(reference) else "{name}:{tag}".format(**_make_image_entry(str(reference)))


def _make_image_entry(reference: str) -> dict[str, str]:
    name, colon, tag = reference.rpartition(":")
    return {"name": name, "tag": tag} if colon and "/" not in tag else {"name": reference, "tag": "latest"}
