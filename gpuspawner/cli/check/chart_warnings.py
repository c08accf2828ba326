"""Values of the chart that are legal and at odds with gpuspawner.

Which images of the settings no node pulls before somebody asks for them, and what would change that.

The chart has `singleuser.image`, `prePuller.extraImages` and the images of `singleuser.profileList` pulled.
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
from gpuspawner.cli.values.trait_sources import (
    find_node_selector_terms,
    find_trait_source,
    list_match_expressions,
    make_warning,
)
from gpuspawner.core.catalog.model import Image
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.text.quoting import format_list, quote

SPAWNER_CLASS = "gpuspawner.GPUSpawner"
_OWN_CLASSES = frozenset({SPAWNER_CLASS, "gpu", "gpuspawner.hub.spawner.GPUSpawner"})
"""Its name, and that of its entry point."""
_OTHER_CLASSES = frozenset({"kubespawner", "kubespawner.KubeSpawner", "simple", "localprocess", "docker"})
_NEAR = 0.75


def find_chart_warnings(values: HelmValues) -> Iterator[Finding]:
    """Yield what is to be said of the values around the settings."""
    yield from _check_spawner_class(values)
    yield from _check_profiles(values)
    yield from _check_node_selector_terms(values)
    yield from _check_gpus_for_all(values)
    yield from _check_base_section(values)
    yield from _check_image_tag(values)


def _check_spawner_class(values: HelmValues) -> Iterator[Finding]:
    section = values.get_chart_section((*HUB_CONFIG_PATH, "JupyterHub"))
    path = (*values.root, *HUB_CONFIG_PATH, "JupyterHub", "spawner_class")
    given = section.get("spawner_class")
    if given is None:
        is_ours = values.settings or merge_settings(values)
        if any("gpuspawner" in str(script) for script in values.get_chart_section(("hub", "extraConfig")).values()):
            return  # what a script makes of it is not known here
        if is_ours:
            message = f"is missing: without {SPAWNER_CLASS} there, nothing reads the settings of gpuspawner"
            yield make_warning(values, path, code="missing", message=message)
        else:
            message = "there is nothing of gpuspawner in these values"
            yield Finding(severity=Severity.WARNING, code="missing", path=format_path(SETTINGS_PATH), message=message)
    elif isinstance(given, str) and given not in _OWN_CLASSES:
        near = given in _OTHER_CLASSES or difflib.SequenceMatcher(None, given, SPAWNER_CLASS).ratio() > _NEAR
        if near or not given:
            message = f"must be {SPAWNER_CLASS}, not {quote(given)}"
            yield Finding(
                severity=Severity.ERROR,
                code="bad_value",
                path=format_path(path),
                message=message,
                place=values.locate(path),
            )
        else:
            message = f"is not {SPAWNER_CLASS}: is {quote(given)} a subclass of it?"
            yield make_warning(values, path, code="other_class", message=message)


def _check_profiles(values: HelmValues) -> Iterator[Finding]:
    profiles = find_trait_source(values, "profile_list")
    if profiles is not None and profiles.value and (values.settings or merge_settings(values)):
        message = (
            "is not shown to anybody: gpuspawner's form takes its place. `gpuspawner convert` makes presets of the "
            "profiles; an empty list takes them away"
        )
        yield make_warning(values, profiles.path, code="unused", message=message)


def _check_node_selector_terms(values: HelmValues) -> Iterator[Finding]:
    """Yield that required terms are alternatives, where they do not look like ones."""
    said = find_node_selector_terms(values)
    if said is None:
        return
    asked = [frozenset(str(each.get("key")) for each in list_match_expressions(term)) for term in said.value]
    if len(set(asked)) > 1:
        each = format_list([" and ".join(sorted(keys)) or "nothing" for keys in asked], max_items=5)
        message = (
            f"has {len(asked)} terms, and a node need fit only one of them ({each}): what each server's node must fit "
            "besides its GPU type belongs into the matchExpressions of one term"
        )
        yield make_warning(values, said.path, code="widens", message=message)


def _check_gpus_for_all(values: HelmValues) -> Iterator[Finding]:
    for name in ("extra_resource_limits", "extra_resource_guarantees"):
        said = find_trait_source(values, name)
        if said is None or not isinstance(said.value, Mapping):
            continue
        for resource in filter(find_vendor, said.value):
            message = "is taken off each server: it gets the GPUs that are picked, and no others"
            yield make_warning(values, (*said.path, resource), code="unused", message=message)


def _check_base_section(values: HelmValues) -> Iterator[Finding]:
    """Yield what the section of KubeSpawner's base class says in vain."""
    base = (*HUB_CONFIG_PATH, SPAWNER_SECTIONS[-1])
    for name in values.get_chart_section(base):
        if instead := find_chart_path(values.chart, str(name)):
            nearer = (*HUB_CONFIG_PATH, SPAWNER_SECTIONS[1], name)
            message = (
                f"has no effect, because the chart says it of KubeSpawner: say {instead}, or {format_path(nearer)}"
            )
            yield make_warning(values, (*values.root, *base, name), code="unused", message=message)


def _check_image_tag(values: HelmValues) -> Iterator[Finding]:
    if needs_chart_tag(values.chart):
        message = (
            "has no tag beside it: the chart puts the tag of its own image behind the name, which this one hardly has. "
            "Say singleuser.image.tag; null there leaves the name as it is"
        )
        yield make_warning(values, (*values.root, "singleuser", "image", "name"), code="missing", message=message)


_EXTRA_IMAGES_PATH = ("prePuller", "extraImages")


def find_unpulled_images(values: HelmValues, images: Mapping[str, Image]) -> Iterator[Finding]:
    """Yield one hint with the values that have the images pulled, where there are some."""
    puller = values.get_chart_section(("prePuller",))
    if not any(_is_enabled(puller.get(kind)) for kind in ("hook", "continuous")):
        return
    pulled = set(_list_pulled_images(values))
    wanted = {slug: image.image for slug, image in images.items() if image.image not in pulled}
    entries = {slug: _make_image_entry(reference) for slug, reference in wanted.items() if "@" not in reference}
    if entries:
        block = {"prePuller": {"extraImages": entries}}
        yield Finding(
            severity=Severity.HINT,
            code="not_pulled",
            path=format_path((*values.root, *SETTINGS_PATH, "images")),
            message="nodes pull these images when somebody starts a server with one; to have them pulled before:",
            place=values.locate((*values.root, *SETTINGS_PATH, "images")),
            more=yaml.safe_dump(block, sort_keys=False),
        )


def _is_enabled(section: Any) -> bool:
    """Tell whether a puller runs, which both do unless they are switched off."""
    return not (isinstance(section, Mapping) and section.get("enabled") is False)


def _list_pulled_images(values: HelmValues) -> Iterator[str]:
    entries = [
        values.get_chart_section(("singleuser", "image")),
        *values.get_chart_section(_EXTRA_IMAGES_PATH).values(),
    ]
    for entry in entries:
        if isinstance(entry, Mapping) and "name" in entry:
            yield f"{entry['name']}:{entry.get('tag', 'latest')}"


def _make_image_entry(reference: str) -> dict[str, str]:
    name, colon, tag = reference.rpartition(":")
    return {"name": name, "tag": tag} if colon and "/" not in tag else {"name": reference, "tag": "latest"}
