"""Collects the GPU types of a profile list: one for each extended resource and node labels that tell its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpuspawner.core.catalog.node_labels import find_vendor, parse_mig_profile, slugify
from gpuspawner.settings.gpu import build_accelerator_table
from gpuspawner.settings.profiles.notes import SEVERAL_ACCELERATORS, NoteList
from gpuspawner.settings.value_types import DOMAIN_PATTERN, LABEL_VALUE_PATTERN, NAME_PATTERN

_LONGEST_SLUG = 63
_LONGEST_NAME = 200
_LABEL_KEY = re.compile(rf"({DOMAIN_PATTERN}/)?{NAME_PATTERN}")
_LABEL_VALUE = re.compile(LABEL_VALUE_PATTERN)
_GENERAL_LABEL = re.compile(
    r"(.*\.)?(topology\.[a-z0-9.-]+|hub\.jupyter\.org)/.*|(beta\.)?kubernetes\.io/(os|arch|hostname)"
    r"|node-role\.kubernetes\.io/.*|failure-domain\.beta\.kubernetes\.io/.*"
)
"""Labels that nodes with and without GPUs have; all others in a node selector may tell one kind of GPU from another."""


class ProfileGPUs:
    """Collects the GPU types of a profile list.

    :param notes: receives notes about accelerators that the settings leave out.
    :ivar types: the setting ``gpus``.
    """

    def __init__(self, notes: NoteList) -> None:
        self.types: dict[str, dict[str, Any]] = {}
        self._notes = notes
        self._table = build_accelerator_table({})

    def find(self, accelerators: Mapping[str, int], labels: Mapping[str, object], *, profile: str) -> dict[str, Any]:
        """Return the keys ``gpu`` and ``gpu_count`` of a preset; an empty dict without accelerators.

        A GPU type that is not yet in :attr:`types` is added.

        :param accelerators: extended resource → number.
        :param labels: the node selector.
        :param profile: display names for notes.
        """
        asked = {resource: count for resource, count in accelerators.items() if count}
        if not asked:
            return {}
        resource, *others = sorted(asked, key=lambda name: (find_vendor(name) is None, name))
        if others:
            self._notes.add(
                SEVERAL_ACCELERATORS, profile=profile, field="extra_resource_limits", detail=", ".join(sorted(asked))
            )
        match = {key: str(value) for key, value in sorted(labels.items()) if tells_gpu(key, value)}
        slug = self._find_type(resource, match) or self._add_type(resource, match)
        entry = self.types[slug]
        entry["max_count"] = max(asked[resource], entry["max_count"])
        return {"gpu": slug, "gpu_count": asked[resource]}

    def _find_type(self, resource: str, match: Mapping[str, str]) -> str | None:
        known = ((slug, entry) for slug, entry in self.types.items() if entry["resource"] == resource)
        return next((slug for slug, entry in known if entry.get("match", {}) == match), None)

    def _add_type(self, resource: str, match: dict[str, str]) -> str:
        models = [self._table.find(key, value) for key, value in match.items()]
        known = next((each.accelerator for each in models if each is not None), None)
        profile = parse_mig_profile(resource)
        if known is not None and find_vendor(resource) and not profile:
            base, name = known.slug, known.name
        else:
            short = f"MIG {profile}" if profile else resource.removesuffix("/gpu") if match else resource
            short = "GPU" if short in ("nvidia.com", "amd.com") else short
            values = sorted(match.values())
            base = "-".join([resource.rpartition("/")[2], *values])
            name = f"{short} ({', '.join(values)})" if values else short
        if any(other["display_name"] == name for other in self.types.values()):
            name = f"{name} {len(self.types) + 1}"
        slug = make_unique_slug(base, self.types, fallback="gpu")
        self.types[slug] = {
            "display_name": name[:_LONGEST_NAME],
            "resource": resource,
            **({} if find_vendor(resource) else {"vendor": "other"}),
            **({"match": match} if match else {}),
            "tolerations": [],
            "max_count": 1,
        }
        return slug


def tells_gpu(key: object, value: object) -> bool:
    """Return whether a label of a node selector may tell the nodes of one GPU type.

    :param key: the label.
    :param value: its value; None = the override removes the label.
    """
    return (
        isinstance(key, str)
        and isinstance(value, str)
        and bool(_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value))
        and not _GENERAL_LABEL.fullmatch(key)
    )


def make_unique_slug(text: str, taken: Iterable[str], *, fallback: str, has_underscores: bool = False) -> str:
    """Return a slug for a text that is not among the slugs that are taken.

    :param text: any text.
    :param taken: slugs that the result must differ from.
    :param fallback: slug for a text without letters and digits.
    :param has_underscores: whether the slug may contain ``_``, as those of choices and entries may.
    """
    words = text if has_underscores else text.replace("_", "-")
    parts = [slugify(part) for part in words.split("_")]
    base = "_".join(filter(None, parts))[:_LONGEST_SLUG].strip("-._") or fallback
    known = frozenset(taken)
    slug, number = base, 2
    while slug in known:
        suffix = f"-{number}"
        slug, number = f"{base[: _LONGEST_SLUG - len(suffix)].strip('-._')}{suffix}", number + 1
    return slug
