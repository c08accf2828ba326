"""Finds the GPU types in a profile list: one for each combination of an extended resource and node selector labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuspawner.core.catalog.node_labels import find_vendor, parse_mig_profile, slugify
from gpuspawner.settings.gpu import build_accelerator_table
from gpuspawner.settings.profiles.notes import SEVERAL_ACCELERATORS, NoteList
from gpuspawner.settings.profiles.overrides import tells_gpu
from gpuspawner.settings.profiles.profile_values import EffectiveValues, SplitOption

_LONGEST_SLUG = 63
_LONGEST_NAME = 200
_NO_GPU: Mapping[str, Any] = {"gpu": "", "gpu_count": 0}


class ProfileGPUs:
    """Collects the GPU types of a profile list.

    :param notes: receives notes for the admin about accelerators that the converted settings leave out.
    :ivar types: the collected GPU types, as the value of the setting ``gpus``: slug → keys of the type.
    """

    def __init__(self, notes: NoteList) -> None:
        self.types: dict[str, dict[str, Any]] = {}
        self._notes = notes
        self._table = build_accelerator_table({})

    def find(self, accelerators: Mapping[str, int], labels: Mapping[str, object], *, profile: str) -> dict[str, Any]:
        """Return the keys ``gpu`` and ``gpu_count`` of a preset; an empty dict if servers request no accelerators.

        If :attr:`types` does not contain the GPU type yet, the method adds it.

        :param accelerators: extended resource → number that a server requests.
        :param labels: label → value in the server's node selector.
        :param profile: name of the profile (with its option and choice, if any) in notes for the admin.
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


def make_unique_slug(text: str, taken: Iterable[str], *, fallback: str, has_underscores: bool = False) -> str:
    """Return a slug for a text, different from all slugs that other texts already have.

    :param text: any text.
    :param taken: the slugs that other texts already have.
    :param fallback: slug for a text without letters and digits.
    :param has_underscores: whether the slug may contain ``_``.
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


def plan_gpus(
    level: EffectiveValues, options: list[SplitOption], *, gpus: ProfileGPUs, notes: NoteList, profile: str
) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Return ``gpu`` and ``gpu_count`` of a preset, and of the entries in its lists.

    - First result: the two keys of the preset; empty if the preset does not set them.
    - Second result: ``id(entry)`` → the two keys of the entry; entries that set neither are missing.

    A GPU type consists of an extended resource and of labels in the node selector. If several options of the profile
    change the resource or the labels, the GPU type has only the labels that none of these options changes.

    :param level: the values of servers with the profile, without the user's choices.
    :param options: the profile's options.
    :param gpus: receives the GPU types.
    :param notes: receives notes for the admin about accelerators that the converted settings leave out.
    :param profile: display name of the profile in these notes.
    """
    has_gpus = any(level.accelerators.values()) or any(each.resources for each in options)
    has_labels = not any(
        each.has_own_selector
        for each in (level, *(level.overlay(entry.parts) for option in options for entry in option.entries))
    )
    drivers = [each for each in options if each.resources or (has_labels and each.labels)] if has_gpus else []
    unsettled = set().union(*(each.labels for each in drivers)) if len(drivers) > 1 else set()
    with_resources = [each for each in options if each.resources]
    if len(with_resources) > 1:
        every = {name for name, count in level.accelerators.items() if count}.union(
            *(each.resources for each in with_resources)
        )
        if len(every) > 1:
            detail = ", ".join(sorted(every))
            notes.add(SEVERAL_ACCELERATORS, profile=profile, field="extra_resource_limits", detail=detail)
    labels = {key: each for key, each in level.labels.items() if has_labels and key not in unsettled}
    settled = replace(level, labels=labels)
    by_entry: dict[int, dict[str, Any]] = {}
    for driver in drivers if len(drivers) == 1 else with_resources:
        for entry in driver.entries:
            if len(drivers) > 1 and not entry.parts.accelerators:
                continue
            is_settled = has_labels and len(drivers) == 1
            own = settled.overlay(entry.parts if is_settled else replace(entry.parts, labels={}))
            by_entry[id(entry)] = gpus.find(own.accelerators, own.labels, profile=entry.where) or dict(_NO_GPU)
    is_replaced = any(each.is_closed and all(id(entry) in by_entry for entry in each.entries) for each in drivers)
    preset = {} if is_replaced else gpus.find(settled.accelerators, settled.labels, profile=profile)
    if len(drivers) == 1:
        by_entry = {key: each for key, each in by_entry.items() if each != (preset or _NO_GPU)}
    return preset, by_entry
