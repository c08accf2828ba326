"""Converts profiles to presets, and collects the images and GPU types that the presets use; start here.

- A profile becomes a preset, with the limits and guarantees of KubeSpawner's own traits and the profile.
- An option of the profile (``profile_options``) becomes a list in the preset (a key of ``choices``).
- A choice of the option becomes an entry of the list, with only what its ``kubespawner_override`` changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpuspawner.settings.profiles.converted import (
    REPEATED,
    ConvertedChoice,
    ConvertedProfile,
    ConvertedProfiles,
    require_presets,
)
from gpuspawner.settings.profiles.notes import (
    NEVER_STARTED,
    NO_ENTRY,
    NO_USER_ALLOWED,
    RESTRICTED_IMAGE,
    SAME_SLUG,
    SECOND_IMAGE,
    SHARED_GPUS,
    SHORTENED,
    UNLISTED_CHOICE,
    VISIBLE_GPUS,
    NoteList,
)
from gpuspawner.settings.profiles.overrides import (
    AMOUNT_TRAITS,
    RESOURCE_TRAITS,
    OverrideParts,
    OverrideSplitter,
    SpawnerTraits,
)
from gpuspawner.settings.profiles.profile_gpus import ProfileGPUs, make_unique_slug, plan_gpus
from gpuspawner.settings.profiles.profile_list import (
    Profile,
    ProfileAccess,
    ProfileListParser,
    ProfileOption,
)
from gpuspawner.settings.profiles.profile_values import (
    EffectiveValues,
    SplitEntry,
    SplitOption,
    plan_amounts,
    read_base,
)

OWN_IMAGE = "default"
"""Slug of the image in KubeSpawner's trait ``image``; presets may use it although the setting ``images`` lacks it."""
_LONGEST = {"display_name": 200, "description": 2000, "message": 2000}
_LONGEST_PATTERN = 1000
_NO_GPUS = frozenset({"", "void", "none"})


def convert_profile_list(
    profile_list: object, *, base: Mapping[str, Any], traits: SpawnerTraits, sorts_keys: bool
) -> ConvertedProfiles:
    """Convert a profile list to settings for the same servers, and notes about differences.

    :param profile_list: value of ``c.KubeSpawner.profile_list``.
    :param base: trait → value that the hub's configuration of KubeSpawner sets, for the traits in
        :data:`.overrides.BASE_TRAITS`; missing = not set.
    :param traits: what the conversion must know about KubeSpawner's class, such as the names of its traits.
    :param sorts_keys: whether the keys of mappings reach KubeSpawner sorted, as in Helm values.
    :raises ProfileListError: the value is not a profile list, or no server could start with any of its profiles.
    :raises SettingsError: KubeSpawner refuses a limit or guarantee in ``base``.
    """
    notes = NoteList()
    profiles = ProfileListParser(slugify=traits.slugify, sorts_keys=sorts_keys, notes=notes).parse(profile_list)
    converter = _Converter(read_base(base), splitter=OverrideSplitter(traits, notes), notes=notes)
    for profile in profiles:
        converter.add(profile)
    return require_presets(converter.finish())


class _Converter:
    def __init__(self, base: EffectiveValues, *, splitter: OverrideSplitter, notes: NoteList) -> None:
        self._base = base
        self._splitter = splitter
        self._notes = notes
        self._images: dict[str, dict[str, Any]] = {}
        self._slugs: dict[str, str] = {}
        self._gpus = ProfileGPUs(notes)
        self._presets: dict[str, dict[str, Any]] = {}
        self._found: dict[str, ConvertedProfile] = {}
        self._seen: dict[str, Profile] = {}

    def finish(self) -> ConvertedProfiles:
        sections = {"images": self._images, "gpus": self._gpus.types, "presets": self._presets}
        settings: dict[str, Any] = {name: section for name, section in sections.items() if section}
        settings = {"only_presets": True, **settings}
        if self._gpus.types:
            settings["discover_gpus"] = False
        return ConvertedProfiles(settings=settings, notes=self._notes.notes, presets=self._found, profiles=self._seen)

    def add(self, profile: Profile) -> None:
        where = profile.display_name
        earlier = [each for each in self._seen.values() if each.slug == profile.slug]
        key = f"{profile.slug}{REPEATED}{len(earlier) + 1}" if earlier else profile.slug
        self._seen[key] = profile
        if not all(each.access.is_restricted for each in earlier):
            self._notes.add(SAME_SLUG, profile=where, field="slug", detail=profile.slug)
            return
        if not self._is_allowed(profile.access, where):
            return
        parts = self._splitter.split(profile.overrides, profile=where)
        if parts is None:
            return
        options: list[SplitOption] = []
        for option in profile.options:
            found = self._convert_option(option, profile, taken=[each.name for each in options])
            if found is None:
                return
            options.append(found)
        level = self._base.overlay(parts)
        if not (
            self._is_within_limits(level, options, where=where) and self._has_equal_limits(level, options, where=where)
        ):
            return
        self._drop_extra_images(options)
        if empty := next((each for each in options if not each.entries and each.image_input is None), None):
            self._notes.add(NO_ENTRY, profile=empty.where)
            return
        slug = make_unique_slug(profile.slug, self._presets, fallback="preset")
        preset = self._build_preset(profile, parts, level=level, options=options)
        self._presets[slug] = preset
        found_choices = {
            each.option.key: ConvertedChoice(
                each.name,
                each.option,
                {entry.choice.key: entry.slug for entry in each.entries},
                each.image_input is not None,
            )
            for each in options
        }
        self._found[key] = ConvertedProfile(slug, profile, found_choices)

    def _is_allowed(self, access: ProfileAccess, where: str) -> bool:
        if access.admits_no_user:
            self._notes.add(NO_USER_ALLOWED, profile=where)
        return not access.admits_no_user

    def _convert_option(self, option: ProfileOption, profile: Profile, *, taken: list[str]) -> SplitOption | None:
        """Convert an option of a profile; None if the option has neither choices nor a text field."""
        where = f"{profile.display_name} · {option.display_name}"
        entries: list[SplitEntry] = []
        for choice in option.choices:
            own = f"{where}: {choice.display_name}"
            parts = (
                self._splitter.split(choice.overrides, profile=own) if self._is_allowed(choice.access, own) else None
            )
            if parts is not None:
                slugs = [each.slug for each in entries]
                slug = make_unique_slug(choice.key, slugs, fallback="entry", has_underscores=True)
                entries.append(SplitEntry(choice=choice, slug=slug, parts=parts, where=own))
        if not option.choices and option.unlisted is None:
            self._notes.add(NO_ENTRY, profile=where)
            return None
        return SplitOption(
            option=option,
            name=make_unique_slug(option.key, taken, fallback="choice", has_underscores=True),
            entries=entries,
            image_input=self._convert_unlisted(option, where),
            where=where,
        )

    def _convert_unlisted(self, option: ProfileOption, where: str) -> dict[str, Any] | None:
        unlisted = option.unlisted
        if unlisted is None:
            return None
        constants = {key: value for key, value in unlisted.overrides.items() if key != "image"}
        # KubeSpawner replaces `{value}` with the user's text in any trait, gpuspawner only in the image.
        if any("{value}" in text for text in _list_texts(constants)):
            self._notes.add(UNLISTED_CHOICE, profile=where, field="unlisted_choice")
            return None
        parts = self._splitter.split(constants, profile=where)
        if parts is None:
            return None
        is_plain = not (parts.amounts or parts.accelerators or parts.requested or parts.labels or parts.variables)
        if unlisted.overrides.get("image") != "{value}" or not is_plain:
            self._notes.add(UNLISTED_CHOICE, profile=where, field="unlisted_choice")
            return None
        if fault := _find_pattern_fault(unlisted.pattern):
            self._notes.add(NEVER_STARTED, profile=where, field="unlisted_choice.validation_regex", detail=fault)
            return None
        if unlisted.access.is_restricted:
            self._notes.add(RESTRICTED_IMAGE, profile=where, field="unlisted_choice")
            return None
        found = {
            "display_name": self._shorten(unlisted.display_name, "display_name", where=where),
            "pattern": unlisted.pattern,
            "message": self._shorten(unlisted.message, "message", where=where),
            "kubespawner_override": dict(parts.rest),
        }
        return {key: value for key, value in found.items() if value}

    def _drop_extra_images(self, options: list[SplitOption]) -> None:
        """Keep only the first text field for an image that no later option overrides.

        A later option overrides it in KubeSpawner if one of the option's choices sets the image.
        """
        has_image = False
        for index, option in enumerate(options):
            if option.image_input is None:
                continue
            later = (entry for each in options[index + 1 :] for entry in each.entries)
            if has_image or any(entry.parts.image is not None for entry in later):
                self._notes.add(SECOND_IMAGE, profile=option.where, field="unlisted_choice")
                option.image_input = None
            else:
                has_image = True

    def _is_within_limits(self, level: EffectiveValues, options: list[SplitOption], *, where: str) -> bool:
        """Return False if the profile's guarantee of CPU or memory exceeds the limit, and no option sets either.

        If exactly one option sets them, remove its choices whose guarantee exceeds the limit.
        """
        for key, traits in AMOUNT_TRAITS.items():
            setting = [each for each in options if any(each.touches(trait) for trait in traits)]
            if not setting and level.requests_too_much(key):
                self._note_too_much(level, key, where=where)
                return False
            for option in setting[:1] if len(setting) == 1 else ():
                for entry in tuple(option.entries):
                    own = level.overlay(entry.parts)
                    if own.requests_too_much(key):
                        self._note_too_much(own, key, where=entry.where)
                        option.entries.remove(entry)
        return True

    def _has_equal_limits(self, level: EffectiveValues, options: list[SplitOption], *, where: str) -> bool:
        """Return False if the profile's guarantee and limit of an accelerator differ, and no option sets accelerators.

        If exactly one option sets accelerators, remove its choices whose guarantee and limit differ.
        """
        setting = [each for each in options if each.sets_accelerators]
        if not setting and level.mismatch:
            self._notes.add(NEVER_STARTED, profile=where, field=RESOURCE_TRAITS[1], detail=level.mismatch)
            return False
        for option in setting if len(setting) == 1 else ():
            for entry in tuple(option.entries):
                if detail := level.overlay(entry.parts).mismatch:
                    self._notes.add(NEVER_STARTED, profile=entry.where, field=RESOURCE_TRAITS[1], detail=detail)
                    option.entries.remove(entry)
        return True

    def _note_too_much(self, level: EffectiveValues, key: str, *, where: str) -> None:
        limit, guarantee = (level.amounts[trait].written for trait in AMOUNT_TRAITS[key])
        detail = f"{guarantee} is more than the limit, {limit}"
        self._notes.add(NEVER_STARTED, profile=where, field=AMOUNT_TRAITS[key][1], detail=detail)

    def _build_preset(
        self, profile: Profile, parts: OverrideParts, *, level: EffectiveValues, options: list[SplitOption]
    ) -> dict[str, Any]:
        where = profile.display_name
        preset: dict[str, Any] = {"order": len(self._presets) + 1}
        preset |= self._describe(profile.display_name, profile.description, where=where)
        if profile.is_default:
            preset["default"] = True
        sets_image = any(all(entry.parts.image is not None for entry in each.entries) for each in options)
        if not sets_image:
            preset["image"] = self._find_image(level.image, "") if level.image else OWN_IMAGE
        amounts, amounts_by_entry = plan_amounts(level, options, base=self._base)
        gpus, gpus_by_entry = plan_gpus(level, options, gpus=self._gpus, notes=self._notes, profile=where)
        preset |= amounts | gpus
        preset |= _format_access(profile.access)
        has_gpu = bool(gpus) or any(each.get("gpu") for each in gpus_by_entry.values())
        self._note_variables(level.variables, where, has_gpu=has_gpu)
        if parts.rest:
            preset["kubespawner_override"] = dict(parts.rest)
        planned = {
            key: amounts_by_entry.get(key, {}) | gpus_by_entry.get(key, {})
            for key in (*amounts_by_entry, *gpus_by_entry)
        }
        if options:
            preset["choices"] = {
                each.name: self._build_choice(each, planned=planned, order=order, has_gpu=has_gpu)
                for order, each in enumerate(options, start=1)
            }
            _drop_needless_order(preset["choices"])
        return preset

    def _build_choice(
        self, option: SplitOption, *, planned: Mapping[int, dict[str, Any]], order: int, has_gpu: bool
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"order": order, "display_name": option.option.display_name[:200]}
        entries: dict[str, dict[str, Any]] = {}
        for number, entry in enumerate(option.entries, start=1):
            built: dict[str, Any] = {"order": number}
            built |= self._describe(entry.choice.display_name, entry.choice.description, where=entry.where)
            if entry.choice.key == option.option.default and number != 1:
                built["default"] = True
            if entry.parts.image is not None:
                built["image"] = self._find_image(entry.parts.image, entry.choice.display_name)
            built |= planned.get(id(entry), {})
            built |= _format_access(entry.choice.access)
            self._note_variables(entry.parts.variables, entry.where, has_gpu=has_gpu)
            if entry.parts.rest:
                built["kubespawner_override"] = dict(entry.parts.rest)
            entries[entry.slug] = built
        if entries:
            _drop_needless_order(entries)
            choice["entries"] = entries
        if option.image_input is not None:
            choice["custom_image"] = option.image_input
        return choice

    def _note_variables(self, variables: Mapping[str, object], where: str, *, has_gpu: bool) -> None:
        for name, value in variables.items():
            shows = value is not None and str(value) not in _NO_GPUS
            cause = VISIBLE_GPUS if has_gpu or not shows else SHARED_GPUS
            if shows or has_gpu:
                self._notes.add(cause, profile=where, field=f"environment.{name}", detail=str(value))

    def _describe(self, name: str, description: str, *, where: str) -> dict[str, Any]:
        found = {"display_name": self._shorten(name, "display_name", where=where)}
        if description:
            found["description"] = self._shorten(description, "description", where=where)
        return found

    def _shorten(self, text: str, key: str, *, where: str) -> str:
        longest = _LONGEST[key]
        if len(text) > longest:
            self._notes.add(SHORTENED, profile=where, field=key)
        return text[:longest]

    def _find_image(self, reference: str, name: str) -> str:
        if reference not in self._slugs:
            short = reference.rpartition("@")[0] or reference
            short = short.rpartition("/")[2] or reference
            slug = make_unique_slug(short.replace(":", "-"), [*self._images, OWN_IMAGE], fallback="image")
            self._slugs[reference] = slug
            self._images[slug] = {"display_name": (name or short)[:200], "image": reference}
        return self._slugs[reference]


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _list_texts(each)


def _find_pattern_fault(pattern: str) -> str:
    """Return why a regular expression cannot be used, or "" if it can."""
    if len(pattern) > _LONGEST_PATTERN:
        return f"is longer than {_LONGEST_PATTERN} characters"
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}"
    return ""


def _format_access(access: ProfileAccess) -> dict[str, Any]:
    keys = {"allowed_groups": access.groups, "allowed_users": access.users}
    return {key: list(dict.fromkeys(names)) for key, names in keys.items() if names}


def _drop_needless_order(entries: Mapping[str, dict[str, Any]]) -> None:
    """Remove ``order`` if the keys are in alphabetical order, the order in which Helm sorts keys."""
    if list(entries) == sorted(entries):
        for entry in entries.values():
            del entry["order"]
