"""Converts profiles to presets, with the images and GPU types that these need; start here.

Each profile becomes one preset, and each of its options a choice of the preset. The preset contains the limits and
guarantees that KubeSpawner's own traits and the profile give a server; an entry of a choice contains only what its
overrides change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuspawner.core.catalog.model import UNLIMITED_AMOUNT
from gpuspawner.settings.profiles.notes import (
    NEVER_STARTED,
    NO_ENTRY,
    NOBODY_ALLOWED,
    NOT_VALID,
    RESTRICTED_IMAGE,
    SAME_SLUG,
    SECOND_IMAGE,
    SEVERAL_ACCELERATORS,
    SHARED_GPUS,
    SHORTENED,
    UNLISTED_CHOICE,
    VISIBLE_GPUS,
    Note,
    NoteList,
)
from gpuspawner.settings.profiles.overrides import (
    AMOUNT_TRAITS,
    NO_AMOUNT,
    RESOURCE_TRAITS,
    Amount,
    OverrideParts,
    OverrideSplitter,
    SpawnerTraits,
    read_amount,
    replaces_selector,
    split_resources,
)
from gpuspawner.settings.profiles.profile_gpus import ProfileGPUs, make_unique_slug, tells_gpu
from gpuspawner.settings.profiles.profile_list import (
    Profile,
    ProfileAccess,
    ProfileChoice,
    ProfileListError,
    ProfileListParser,
    ProfileOption,
)

OWN_IMAGE = "default"
"""Slug of KubeSpawner's own image, which presets may name although ``images`` lacks it."""
_LONGEST = {"display_name": 200, "description": 2000, "message": 2000}
_TRAITS_BY_KEY = {
    name: trait
    for key, (limit, guarantee) in AMOUNT_TRAITS.items()
    for name, trait in ((key, limit), (f"{key}_guarantee", guarantee))
}
"""Key of a preset → KubeSpawner's trait of the amount."""
_LONGEST_PATTERN = 1000
REPEATED = "#"
"""Mark between a slug and a number in :attr:`ConvertedProfiles.presets`, if several profiles have the slug.

A hook may leave only one of these profiles to a user.
"""
_UNLISTED_SUFFIX = "--unlisted-choice"
_NO_GPUS = frozenset({"", "void", "none"})
_NO_GPU: Mapping[str, Any] = {"gpu": "", "gpu_count": 0}


_EMPTYING = (NOT_VALID, NEVER_STARTED, NOBODY_ALLOWED, NO_ENTRY, SAME_SLUG)
"""Causes that leave a profile out."""


@dataclass(slots=True)
class ConvertedChoice:
    """A choice of a preset.

    :param name: key of the choice in the preset.
    :param option: the option of the profile.
    :param entries: key of a profile's choice → slug of the entry.
    :param has_image: whether users may enter an image.
    """

    name: str
    option: ProfileOption
    entries: dict[str, str] = field(default_factory=dict)
    has_image: bool = False


@dataclass(slots=True)
class ConvertedProfile:
    """A preset.

    :param slug: key of the preset.
    :param profile: the profile.
    :param choices: key of an option → choice of the preset.
    """

    slug: str
    profile: Profile
    choices: dict[str, ConvertedChoice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedProfiles:
    """The settings that a profile list becomes.

    :param settings: keys below ``hub.config.GPUSpawner``.
    :param notes: what the settings do otherwise than the profile list.
    :param presets: slug of a profile → its preset.
    :param profiles: slug → profile, also for profiles that are left out.
    """

    settings: Mapping[str, Any]
    notes: tuple[Note, ...]
    presets: Mapping[str, ConvertedProfile]
    profiles: Mapping[str, Profile]

    def convert_options(self, options: Mapping[str, object]) -> dict[str, object] | None:
        """Return the user options of gpuspawner for those of KubeSpawner, or None if there is no equivalent.

        :param options: user options with ``profile``, and a key for each option that the user chose; or an empty
            mapping for a server without a choice.
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
        """Return the settings without the entry or preset at a path, or None if the path leads to neither.

        :param field: YAML path of a problem in the settings.
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
        """Return a text that names a choice: ``GPU server · Memory: 16 GB``.

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
    """Return settings without images and GPU types that no preset names."""
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


def convert_profile_list(
    profile_list: object, *, base: Mapping[str, Any], traits: SpawnerTraits, sorts_keys: bool
) -> ConvertedProfiles:
    """Return settings with which users may start the same servers as with a profile list, and no others.

    :param profile_list: value of ``c.KubeSpawner.profile_list``.
    :param base: trait → KubeSpawner's own value, for the traits in :data:`.overrides.BASE_TRAITS`; missing = not set.
    :param traits: what KubeSpawner's class accepts.
    :param sorts_keys: whether the keys of mappings reach KubeSpawner sorted, as in Helm values.
    :raises ProfileListError: the value is no profile list.
    """
    notes = NoteList()
    profiles = ProfileListParser(slugify=traits.slugify, sorts_keys=sorts_keys, notes=notes).parse(profile_list)
    converter = _Converter(_read_base(base), splitter=OverrideSplitter(traits, notes), notes=notes)
    for profile in profiles:
        converter.add(profile)
    return require_presets(converter.finish())


def require_presets(found: ConvertedProfiles) -> ConvertedProfiles:
    """Return the settings unchanged if they have a preset.

    :param found: the settings.
    :raises ProfileListError: there is no preset.
    """
    if not found.presets:
        reasons = [
            f"{note.profile}: {note.cause.text} {note.detail}" for note in found.notes if note.cause in _EMPTYING
        ]
        raise ProfileListError((), f"has no profile with which a server could start. {'; '.join(reasons)}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """The effective values of a server with KubeSpawner's own traits, a profile, and perhaps one choice."""

    image: str = ""
    amounts: Mapping[str, Amount] = field(default_factory=dict)
    accelerators: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, object] = field(default_factory=dict)
    has_own_selector: bool = False

    def overlay(self, parts: OverrideParts) -> _Level:
        labels = {**self.labels, **parts.labels}
        return _Level(
            image=self.image if parts.image is None else parts.image,
            amounts={**self.amounts, **parts.amounts},
            accelerators={**self.accelerators, **parts.accelerators},
            labels={key: value for key, value in labels.items() if value is not None},
            has_own_selector=self.has_own_selector or replaces_selector(parts.rest.get("extra_pod_config")),
        )

    def requests_too_much(self, key: str) -> bool:
        limit, guarantee = (self.amounts.get(trait, NO_AMOUNT).size for trait in AMOUNT_TRAITS[key])
        return 0 < limit < guarantee


@dataclass(slots=True, kw_only=True)
class _Entry:
    choice: ProfileChoice
    slug: str
    parts: OverrideParts
    where: str


@dataclass(slots=True, kw_only=True)
class _Option:
    option: ProfileOption
    name: str
    entries: list[_Entry]
    image_input: dict[str, Any] | None
    where: str

    @property
    def is_closed(self) -> bool:
        """Whether a server always has one of the entries."""
        return bool(self.entries) and self.image_input is None

    def touches(self, trait: str) -> bool:
        return any(trait in entry.parts.amounts for entry in self.entries)

    @property
    def resources(self) -> set[str]:
        return {resource for entry in self.entries for resource in entry.parts.accelerators}

    @property
    def labels(self) -> set[str]:
        return {
            key
            for entry in self.entries
            for key, value in entry.parts.labels.items()
            if value is None or tells_gpu(key, value)
        }


def _read_base(base: Mapping[str, Any]) -> _Level:
    amounts = {
        trait: read_amount(key, base[trait])
        for key, pair in AMOUNT_TRAITS.items()
        for trait in pair
        if base.get(trait) is not None
    }
    selector = base.get("node_selector")
    return _Level(
        image=base.get("image") or "",
        amounts=amounts,
        accelerators=split_resources(base.get(RESOURCE_TRAITS[0]))[0],
        labels=selector if isinstance(selector, Mapping) else {},
        has_own_selector=replaces_selector(base.get("extra_pod_config")),
    )


class _Converter:
    def __init__(self, base: _Level, *, splitter: OverrideSplitter, notes: NoteList) -> None:
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
        options: list[_Option] = []
        for option in profile.options:
            found = self._convert_option(option, profile, taken=[each.name for each in options])
            if found is None:
                return
            options.append(found)
        level = self._base.overlay(parts)
        if not self._is_within_limits(level, options, where):
            return
        self._drop_extra_images(options)
        if empty := next((each for each in options if not each.entries and each.image_input is None), None):
            self._notes.add(NO_ENTRY, profile=empty.where)
            return
        slug = make_unique_slug(profile.slug, self._presets, fallback="preset")
        preset = self._build_preset(profile, parts, level, options)
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
        if access.admits_nobody:
            self._notes.add(NOBODY_ALLOWED, profile=where)
        return not access.admits_nobody

    def _convert_option(self, option: ProfileOption, profile: Profile, *, taken: list[str]) -> _Option | None:
        """Return an option with its entries, or None if no server with it could start."""
        where = f"{profile.display_name} · {option.display_name}"
        entries: list[_Entry] = []
        for choice in option.choices:
            own = f"{where}: {choice.display_name}"
            parts = (
                self._splitter.split(choice.overrides, profile=own) if self._is_allowed(choice.access, own) else None
            )
            if parts is not None:
                slugs = [each.slug for each in entries]
                slug = make_unique_slug(choice.key, slugs, fallback="entry", has_underscores=True)
                entries.append(_Entry(choice=choice, slug=slug, parts=parts, where=own))
        if not option.choices and option.unlisted is None:
            self._notes.add(NO_ENTRY, profile=where)
            return None
        return _Option(
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
        if any("{value}" in text for text in _list_texts(constants)):  # KubeSpawner replaces it by the user's text
            self._notes.add(UNLISTED_CHOICE, profile=where, field="unlisted_choice")
            return None
        parts = self._splitter.split(constants, profile=where)
        if parts is None:
            return None
        is_plain = not (parts.amounts or parts.accelerators or parts.labels or parts.variables)
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
            "display_name": self._shorten(unlisted.display_name, "display_name", where),
            "pattern": unlisted.pattern,
            "message": self._shorten(unlisted.message, "message", where),
            "kubespawner_override": dict(parts.rest),
        }
        return {key: value for key, value in found.items() if value}

    def _drop_extra_images(self, options: list[_Option]) -> None:
        """Keep an image field only if it is the preset's first one, and no later choice sets the image."""
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

    def _is_within_limits(self, level: _Level, options: list[_Option], where: str) -> bool:
        """Return whether a profile requests at most its limits; remove entries that request more than theirs."""
        for key, traits in AMOUNT_TRAITS.items():
            setting = [each for each in options if any(each.touches(trait) for trait in traits)]
            if not setting and level.requests_too_much(key):
                self._note_too_much(level, key, where)
                return False
            for option in setting[:1] if len(setting) == 1 else ():
                for entry in tuple(option.entries):
                    own = level.overlay(entry.parts)
                    if own.requests_too_much(key):
                        self._note_too_much(own, key, entry.where)
                        option.entries.remove(entry)
        return True

    def _note_too_much(self, level: _Level, key: str, where: str) -> None:
        limit, guarantee = (level.amounts[trait].written for trait in AMOUNT_TRAITS[key])
        detail = f"{guarantee} is more than the limit, {limit}"
        self._notes.add(NEVER_STARTED, profile=where, field=AMOUNT_TRAITS[key][1], detail=detail)

    def _build_preset(
        self, profile: Profile, parts: OverrideParts, level: _Level, options: list[_Option]
    ) -> dict[str, Any]:
        where = profile.display_name
        preset: dict[str, Any] = {"order": len(self._presets) + 1}
        preset |= self._describe(profile.display_name, profile.description, where)
        if profile.is_default:
            preset["default"] = True
        sets_image = any(all(entry.parts.image is not None for entry in each.entries) for each in options)
        if not sets_image:
            preset["image"] = self._find_image(level.image, "") if level.image else OWN_IMAGE
        amounts, amounts_by_entry = _plan_amounts(level, options, base=self._base)
        gpus, gpus_by_entry = self._plan_gpus(level, options, where)
        preset |= amounts | gpus
        preset |= _format_access(profile.access)
        has_gpu = bool(gpus) or any(each.get("gpu") for each in gpus_by_entry.values())
        self._note_variables(parts, where, has_gpu=has_gpu)
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
        self, option: _Option, *, planned: Mapping[int, dict[str, Any]], order: int, has_gpu: bool
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"order": order, "display_name": option.option.display_name[:200]}
        entries: dict[str, dict[str, Any]] = {}
        for number, entry in enumerate(option.entries, start=1):
            built: dict[str, Any] = {"order": number}
            built |= self._describe(entry.choice.display_name, entry.choice.description, entry.where)
            if entry.choice.key == option.option.default and number != 1:
                built["default"] = True
            if entry.parts.image is not None:
                built["image"] = self._find_image(entry.parts.image, entry.choice.display_name)
            built |= planned.get(id(entry), {})
            built |= _format_access(entry.choice.access)
            self._note_variables(entry.parts, entry.where, has_gpu=has_gpu)
            if entry.parts.rest:
                built["kubespawner_override"] = dict(entry.parts.rest)
            entries[entry.slug] = built
        if entries:
            _drop_needless_order(entries)
            choice["entries"] = entries
        if option.image_input is not None:
            choice["custom_image"] = option.image_input
        return choice

    def _plan_gpus(
        self, level: _Level, options: list[_Option], where: str
    ) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
        """Return the keys ``gpu`` and ``gpu_count`` of a preset and, by identity, of entries that change them.

        A GPU type depends on a resource and on labels, which two choices may set. The labels of the type are then only
        those that no choice changes.
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
                self._notes.add(SEVERAL_ACCELERATORS, profile=where, field="extra_resource_limits", detail=detail)
        labels = {key: each for key, each in level.labels.items() if has_labels and key not in unsettled}
        settled = replace(level, labels=labels)
        by_entry: dict[int, dict[str, Any]] = {}
        for driver in drivers if len(drivers) == 1 else with_resources:
            for entry in driver.entries:
                if len(drivers) > 1 and not entry.parts.accelerators:
                    continue
                is_settled = has_labels and len(drivers) == 1
                own = settled.overlay(entry.parts if is_settled else replace(entry.parts, labels={}))
                by_entry[id(entry)] = self._gpus.find(own.accelerators, own.labels, profile=entry.where) or dict(
                    _NO_GPU
                )
        is_replaced = any(each.is_closed and all(id(entry) in by_entry for entry in each.entries) for each in drivers)
        preset = {} if is_replaced else self._gpus.find(settled.accelerators, settled.labels, profile=where)
        if len(drivers) == 1:
            by_entry = {key: each for key, each in by_entry.items() if each != (preset or _NO_GPU)}
        return preset, by_entry

    def _note_variables(self, parts: OverrideParts, where: str, *, has_gpu: bool) -> None:
        for name, value in parts.variables.items():
            shows = value is not None and str(value) not in _NO_GPUS
            cause = VISIBLE_GPUS if has_gpu or not shows else SHARED_GPUS
            if shows or has_gpu:
                self._notes.add(cause, profile=where, field=f"environment.{name}", detail=str(value))

    def _describe(self, name: str, description: str, where: str) -> dict[str, Any]:
        found = {"display_name": self._shorten(name, "display_name", where)}
        if description:
            found["description"] = self._shorten(description, "description", where)
        return found

    def _shorten(self, text: str, key: str, where: str) -> str:
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


def _plan_amounts(
    level: _Level, options: list[_Option], *, base: _Level
) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Return the keys for CPU and memory of a preset and, by identity, of entries that change them.

    A server without a guarantee requests its limit. The keys say so with the number where one option at most changes
    the amounts, and else with a guarantee of 0, as KubeSpawner does: a later entry may still set the limit. A guarantee
    of 0 also takes away that of the hub, ``base``.
    """
    preset: dict[str, Any] = {}
    by_entry: dict[int, dict[str, Any]] = {}
    for key, traits in AMOUNT_TRAITS.items():
        setting = [each for each in options if any(each.touches(trait) for trait in traits)]
        is_alone = len(setting) < 2  # noqa: PLR2004
        usual = _format_amounts(key, level, is_alone=is_alone)
        if base.amounts.get(traits[1], NO_AMOUNT).size:
            usual.setdefault(f"{key}_guarantee", 0)
        for entry in (entry for option in setting for entry in option.entries):
            own = _format_amounts(key, level.overlay(entry.parts), is_alone=is_alone)
            if is_alone and f"{key}_guarantee" in usual:
                own.setdefault(f"{key}_guarantee", 0)
            by_entry.setdefault(id(entry), {}).update(
                {
                    name: each
                    for name, each in own.items()
                    if _TRAITS_BY_KEY[name] in entry.parts.amounts or (is_alone and usual.get(name) != each)
                }
            )
        replaced = {
            name
            for name in usual
            if any(each.is_closed and all(name in by_entry[id(entry)] for entry in each.entries) for each in setting)
        }
        preset |= {name: each for name, each in usual.items() if name not in replaced}
    return preset, by_entry


def _format_amounts(key: str, level: _Level, *, is_alone: bool) -> dict[str, Any]:
    limit, guarantee = (level.amounts.get(trait, NO_AMOUNT) for trait in AMOUNT_TRAITS[key])
    found = {key: limit.written if limit.size else UNLIMITED_AMOUNT}
    if not is_alone:
        found[f"{key}_guarantee"] = guarantee.written
    elif request := guarantee if guarantee.size else limit if limit.size else None:
        found[f"{key}_guarantee"] = request.written
    return found


def _format_access(access: ProfileAccess) -> dict[str, Any]:
    keys = {"allowed_groups": access.groups, "allowed_users": access.users}
    return {key: list(dict.fromkeys(names)) for key, names in keys.items() if names}


def _drop_needless_order(entries: Mapping[str, dict[str, Any]]) -> None:
    """Remove ``order`` from entries whose keys have the right order when Helm has sorted them."""
    if list(entries) == sorted(entries):
        for entry in entries.values():
            del entry["order"]
