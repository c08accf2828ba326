"""Which images of the settings no node pulls before somebody asks for them, and what would change that.

The chart has `singleuser.image`, `prePuller.extraImages` and the images of `singleuser.profileList` pulled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from gpuspawner.cli.common.findings import Finding, Severity, format_path
from gpuspawner.cli.values.values import SETTINGS_PATH, HelmValues
from gpuspawner.core.catalog.catalogue import Image

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
