"""Expands a KubeSpawner ``profile_list`` into variants: ways to start a server, each with all traits that it overrides.

KubeSpawner 7 accepts a list, or a dict, which KubeSpawner sorts by key. A profile has ``kubespawner_override`` and
``profile_options``, whose ``choices`` have overrides of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuspawner.core.errors import Problem, SettingsError

_KEYS = frozenset({"display_name", "slug", "description", "default", "kubespawner_override", "profile_options"})
"""Keys of a profile that KubeSpawner reads."""
_MARKUP = re.compile(r"<\w+[^<>]*>")

_MOST_VARIANTS = 100
"""Maximum number of variants of a profile. If an option would exceed it, only the option's default choice is used."""
_ANYWHERE = ("docker.io/library/python:3.12", "ghcr.io/acme/lab:1", "registry.example:5000/team/lab:2026-10-01")
"""Image references in three registries. A ``validation_regex`` that matches all three is taken to match any image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileVariant:
    """One way to start a server.

    :param name: name shown to users: the profile's name, followed by the names of the combined choices.
    :param description: description shown to users.
    :param overrides: KubeSpawner's trait → value; values of choices replace values of the profile.
    :param is_default: whether KubeSpawner's form preselects this variant.
    """

    name: str
    description: str = ""
    overrides: Mapping[str, Any]
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChoice:
    """An image that users of a profile can choose.

    :param name: name shown to users.
    :param reference: image reference.
    """

    name: str
    reference: str


@dataclass(slots=True)
class ProfileVariants:
    """An expanded profile list.

    :param variants: in the order of the profile list.
    :param images: the images in options whose choices change only the image, in the order of the profile list.
    :param custom_images: whether users may enter any image reference.
    :param notes: sentences for the admin about parts of the profile list that the settings leave out or change.
    """

    variants: list[ProfileVariant] = field(default_factory=list)
    images: list[ImageChoice] = field(default_factory=list)
    custom_images: bool = False
    notes: list[str] = field(default_factory=list)


def parse_profile_list(profile_list: object) -> ProfileVariants:
    """Return the variants of a profile list: for each profile, one for each combination of choices in its options.

    An option whose choices change only the image adds no variants; its choices are in ``images`` of the result.

    :param profile_list: as in ``c.KubeSpawner.profile_list``.
    :raises SettingsError: the value is not a list or dict of profiles.
    """
    found = ProfileVariants()
    for place, profile in enumerate(_list_mappings(profile_list, what="profile list"), start=1):
        _read_profile(profile, place=place, found=found)
    return found


def _list_mappings(value: object, *, what: str) -> list[Mapping[str, Any]]:
    entries = [value[key] for key in sorted(value, key=str)] if isinstance(value, Mapping) else value
    if not isinstance(entries, list | tuple) or not all(isinstance(each, Mapping) for each in entries):
        message = f"the {what} must be a list of mappings; a function cannot be converted"
        raise SettingsError(Problem(field="profile_list", code="wrong_type", message=message))
    return list(entries)


def _describe_unread(profile: Mapping[str, Any], *, name: str) -> Iterator[str]:
    if strange := sorted(str(key) for key in profile if key not in _KEYS):
        # Report keys that KubeSpawner ignores: an admin's hook may read them, for example to check who may use a
        # profile.
        yield f"{name}: {', '.join(strange)} is no key of KubeSpawner; what reads it in your hub will not find it here."
    if _MARKUP.search(_format_text(profile.get("description"))):
        yield f"{name}: the description has HTML in it, which is shown as it is written."


def _read_profile(profile: Mapping[str, Any], *, place: int, found: ProfileVariants) -> None:
    name = _format_text(profile.get("display_name")) or _format_text(profile.get("slug")) or f"Profile {place}"
    base = ensure_mapping(profile.get("kubespawner_override"))
    found.notes += _describe_unread(profile, name=name)
    variants: list[tuple[list[str], dict[str, Any]]] = [([], dict(base))]
    for option in _list_options(profile):
        title = _format_text(option.get("display_name")) or "an option"
        _read_unlisted(ensure_mapping(option.get("unlisted_choice")), who=f"{name}: {title}", found=found)
        choices = [_Choice.read(key, each) for key, each in ensure_mapping(option.get("choices")).items()]
        if not choices:
            continue
        default = next((each for each in choices if each.is_default), choices[0])
        if all(set(each.overrides) <= {"image"} for each in choices):
            # In the form, users can combine any image with any other choice, so images need no variants of their own.
            found.images += [
                ImageChoice(name=each.name, reference=str(each.overrides["image"]))
                for each in choices
                if "image" in each.overrides
            ]
            variants = [(names, {**overrides, **default.overrides}) for names, overrides in variants]
        elif len(variants) * len(choices) > _MOST_VARIANTS:
            found.notes.append(f"{name}: {title} makes more than {_MOST_VARIANTS} combinations; its default is kept.")
            variants = [(names, {**overrides, **default.overrides}) for names, overrides in variants]
        else:
            variants = [
                ([*names, each.name], {**overrides, **each.overrides})
                for names, overrides in variants
                for each in sorted(choices, key=lambda choice: not choice.is_default)
            ]
    for number, (names, overrides) in enumerate(variants):
        found.variants.append(
            ProfileVariant(
                name=", ".join([name, *names]),
                description=_format_text(profile.get("description")),
                overrides=overrides,
                is_default=bool(profile.get("default")) and number == 0,
            )
        )


def _read_unlisted(unlisted: Mapping[str, Any], *, who: str, found: ProfileVariants) -> None:
    if not unlisted.get("enabled"):
        return
    pattern = _format_text(unlisted.get("validation_regex"))
    if ensure_mapping(unlisted.get("kubespawner_override")) != {"image": "{value}"}:
        found.notes.append(f"{who} lets people write a value of their own, which is left out.")
    elif not pattern:
        found.custom_images = True
    elif _takes_any_image(pattern):
        found.custom_images = True
        found.notes.append(f"{who} wants images written as {pattern}; here any reference of an image will do.")
    else:
        found.notes.append(
            f"{who} takes only images that match {pattern}, which is left out: allow custom_images with registries."
        )


def _takes_any_image(pattern: str) -> bool:
    try:
        return all(re.match(pattern, each) for each in _ANYWHERE)
    except (re.error, RecursionError, OverflowError):
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    name: str
    overrides: Mapping[str, Any]
    is_default: bool

    @classmethod
    def read(cls, key: object, raw: object) -> _Choice:
        choice = ensure_mapping(raw)
        return cls(
            name=_format_text(choice.get("display_name")) or str(key),
            overrides=ensure_mapping(choice.get("kubespawner_override")),
            is_default=bool(choice.get("default")),
        )


def _list_options(profile: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return map(ensure_mapping, ensure_mapping(profile.get("profile_options")).values())


def ensure_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping unchanged, and an empty one for any other value.

    :param value: any value.
    """
    return value if isinstance(value, Mapping) else {}


def _format_text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
