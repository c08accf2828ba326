"""The result of converting a profile list: the settings, and methods that convert KubeSpawner's user options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuspawner.settings.profiles.notes import (
    DEFAULT_CHANGED,
    NEVER_STARTED,
    NO_ENTRY,
    NO_USER_ALLOWED,
    NOT_VALID,
    SAME_SLUG,
    Note,
)
from gpuspawner.settings.profiles.profile_list import Profile, ProfileListError, ProfileOption

REPEATED = "#"
"""Separator in the keys of profiles with the same slug: the second profile with the slug ``gpu`` has the key ``gpu#2``.

Several profiles may have the same slug if a hook of the hub shows each user only one of them.
"""
_UNLISTED_SUFFIX = "--unlisted-choice"
_EMPTYING = (NOT_VALID, NEVER_STARTED, NO_USER_ALLOWED, NO_ENTRY, SAME_SLUG)
"""Reasons why the conversion leaves out profiles. If no profile is left, the error names them."""


@dataclass(slots=True)
class ConvertedChoice:
    """A list in a preset (``choices``), converted from an option of a profile.

    :param name: key of the list in the preset.
    :param option: the option of the profile.
    :param entries: key of a choice of the option → slug of the entry in the list.
    :param has_image: whether users may enter an image instead of picking an entry.
    """

    name: str
    option: ProfileOption
    entries: dict[str, str] = field(default_factory=dict)
    has_image: bool = False


@dataclass(slots=True)
class ConvertedProfile:
    """A preset, converted from a profile.

    :param slug: key of the preset in the settings.
    :param profile: the profile.
    :param choices: key of an option of the profile → list in the preset.
    """

    slug: str
    profile: Profile
    choices: dict[str, ConvertedChoice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedProfiles:
    """The result of converting a profile list.

    :param settings: the settings, as below ``hub.config.GPUSpawner``.
    :param notes: differences between the settings and the profile list.
    :param presets: slug of a profile → preset. If several profiles have the slug, see :data:`REPEATED`.
    :param profiles: slug of a profile → profile, also for profiles that the settings leave out.
    """

    settings: Mapping[str, Any]
    notes: tuple[Note, ...]
    presets: Mapping[str, ConvertedProfile]
    profiles: Mapping[str, Profile]

    def convert_options(self, options: Mapping[str, object]) -> dict[str, object] | None:
        """Return gpuspawner's user options for user options of KubeSpawner, or None if no preset offers the choice.

        :param options: KubeSpawner's user options: the profile and the picked choices, such as
            ``{"profile": "gpu", "image": "pytorch"}``; empty if the user chose nothing.
        """
        if not options:
            return {}
        found = self.presets.get(str(options.get("profile")))
        if found is None:
            return None
        chosen: dict[str, str] = {}
        converted: dict[str, object] = {"v": 1, "preset": found.slug}
        for key, choice in found.choices.items():
            text, picked = options.get(f"{key}{_UNLISTED_SUFFIX}"), options.get(key)
            if text:
                if not choice.has_image:
                    return None
                converted["custom_image"] = text
            elif picked:
                if picked not in choice.entries:
                    return None
                chosen[choice.name] = choice.entries[str(picked)]
        return {**converted, "preset_choices": chosen} if chosen else converted

    def leave_out(self, field: str, reason: str) -> ConvertedProfiles | None:
        """Return this result without the preset, or without the list entry in a preset, that has a problem.

        If the list would be empty, leave out the whole preset, unless users may enter an image instead. Return None if
        the problem is in no preset.

        :param field: YAML path of the problem in the settings.
        :param reason: the problem, for a note.
        """
        keys = (key for key, each in self.presets.items() if _is_below(field, f"presets.{each.slug}"))
        key = max(keys, key=lambda each: len(self.presets[each].slug), default=None)
        if key is None:
            return None
        found, presets, where = self.presets[key], dict(self.presets), self.presets[key].profile.display_name
        preset = dict(self.settings["presets"][found.slug])
        for option, choice in found.choices.items():
            path = f"presets.{found.slug}.choices.{choice.name}.entries"
            slugs = [slug for slug in choice.entries.values() if _is_below(field, f"{path}.{slug}")]
            if slugs:
                slug = max(slugs, key=len)
                where = f"{where} · {choice.option.display_name}: {slug}"
                kept = {old: new for old, new in choice.entries.items() if new != slug}
                own = preset["choices"][choice.name]
                entries = {name: each for name, each in own.get("entries", {}).items() if name != slug}
                preset["choices"] = {**preset["choices"], choice.name: {**own, "entries": entries}}
                presets[key] = replace(found, choices={**found.choices, option: replace(choice, entries=kept)})
                is_empty = not kept and not choice.has_image
                break
        else:
            is_empty = True
        everything = {**self.settings["presets"], found.slug: preset}
        if is_empty:
            del presets[key], everything[found.slug]
        note = Note(cause=NOT_VALID, profile=where, field=field, detail=reason)
        settings = _drop_unused({**self.settings, "presets": everything})
        return replace(self, settings=settings, notes=(*self.notes, note), presets=presets)

    def describe_options(self, options: Mapping[str, object]) -> str:
        """Return a text that describes KubeSpawner's user options, such as ``GPU server · Memory: 16 GB``.

        :param options: user options as for :meth:`convert_options`.
        """
        if not options:
            return "No choice"
        found = self.profiles.get(str(options.get("profile")))
        if found is None:
            return str(options.get("profile"))
        parts = [found.display_name]
        for option in found.options:
            names = {choice.key: choice.display_name for choice in option.choices}
            picked, text = options.get(option.key), options.get(f"{option.key}{_UNLISTED_SUFFIX}")
            if text or picked:
                parts.append(f"{option.display_name}: {text or names.get(str(picked), picked)}")
        return " · ".join(parts)


def _is_below(field: str, path: str) -> bool:
    return field == path or field.startswith(f"{path}.")


def _drop_unused(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the images and GPU types that no preset and no entry of a preset's lists names."""
    presets = settings["presets"].values()
    entries = [
        entry
        for each in presets
        for choice in each.get("choices", {}).values()
        for entry in choice.get("entries", {}).values()
    ]
    found = dict(settings)
    for section, key in (("images", "image"), ("gpus", "gpu")):
        named = {each.get(key) for each in (*presets, *entries)}
        kept = {slug: each for slug, each in settings.get(section, {}).items() if slug in named}
        found = {name: each for name, each in {**found, section: kept}.items() if each or name != section}
    if "gpus" not in found:
        found.pop("discover_gpus", None)
    return found


def require_presets(found: ConvertedProfiles) -> ConvertedProfiles:
    """Check that a conversion made at least one preset, and return the conversion's result.

    If the conversion left out the default profile, the result gets a note about this.

    :param found: the result of the conversion.
    :raises ProfileListError: the result has no preset.
    """
    if not found.presets:
        reasons = [
            f"{note.profile}: {note.cause.text} {note.detail}" for note in found.notes if note.cause in _EMPTYING
        ]
        raise ProfileListError((), f"has no profile with which a server could start. {'; '.join(reasons)}")
    notes = tuple(note for note in found.notes if note.cause != DEFAULT_CHANGED)
    default = next((key for key, each in found.profiles.items() if each.is_default), None)
    if default is not None and default not in found.presets:
        old, new = found.profiles[default], next(iter(found.presets.values())).profile
        names = f"{old.display_name} → {new.display_name}"
        notes = (*notes, Note(cause=DEFAULT_CHANGED, field="default", detail=names))
    return replace(found, notes=notes)
