"""Parses a KubeSpawner ``profile_list``: profiles, their options, and the choices of each option.

KubeSpawner 7 accepts a list, or a dict, which it sorts by key. It applies the overrides of a profile first, then those
of the user's choice in each option, in the order of the options. Helm sorts the keys of mappings, so in Helm values
this order is alphabetical, and so is the order of an option's choices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.json_access import KeyPath
from gpuspawner.settings.profiles.notes import (
    ACCESS_KEY,
    IMAGE_BUILDING,
    LATER_DEFAULT,
    MARKUP,
    TEAMS,
    UNREAD_KEY,
    NoteList,
)

_ACCESS_KEYS = {"allowed_groups": "groups", "allowed_teams": "groups", "allowed_users": "users"}
"""Key with which a profile or choice names its users on 2i2c's hubs → attribute of :class:`ProfileAccess`. A hook of
these hubs reads these keys, not all in every version; KubeSpawner ignores them."""
_COMMON_KEYS = frozenset({"display_name", "slug", "description", "default", "kubespawner_override", *_ACCESS_KEYS})
_OPTION_KEYS = frozenset({"display_name", "choices", "unlisted_choice"})
_UNLISTED_KEYS = frozenset(
    {"enabled", "display_name", "display_name_in_choices", "description", "description_in_choices"}
    | {"validation_regex", "validation_message", "kubespawner_override", *_ACCESS_KEYS}
)
_LOOKS_LIKE_ACCESS = re.compile(
    r"allow|group|user|team|role|admin|restrict|permi|scope|require|deny|forbid|only|block|access|member|visib|entitl"
    r"|auth(?!ors?$)|owner|audience|hidden|tenant|course|project"
)
_MARKUP = re.compile(r"<\w+[^<>]*>")


class ProfileListError(SettingsError):
    """The profile list cannot be converted, for example because KubeSpawner could not use it.

    :param path: keys and list indexes that lead to the problem in the profile list.
    :param message: the problem, such as "must be a mapping"; error messages show it after the path.
    """

    def __init__(self, path: KeyPath, message: str) -> None:
        self.path = path
        field = ".".join(map(str, ("profile_list", *path)))
        super().__init__(Problem(field=field, code="wrong_type", message=message))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileAccess:
    """The groups and users who may start servers with a profile or choice, as the hook of 2i2c's hubs reads them.

    If both parameters are None, every user may start such servers.

    :param groups: names of groups; None = the profile list names no groups here.
    :param users: names of users; None = the profile list names no users here.
    """

    groups: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None

    @property
    def is_restricted(self) -> bool:
        """Whether the profile or choice is only for some users, or for none."""
        return self.groups is not None or self.users is not None

    @property
    def admits_no_user(self) -> bool:
        """Whether no user may start servers with the profile or choice."""
        return self.is_restricted and not self.groups and not self.users


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileChoice:
    """A choice of a profile's option.

    :param key: key of the choice, also in KubeSpawner's user options.
    :param path: keys that lead to the choice in the profile list.
    """

    key: str
    display_name: str
    path: KeyPath
    description: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    access: ProfileAccess = field(default_factory=ProfileAccess)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlistedChoice:
    """A text field in a profile's option (``unlisted_choice``), which users may use instead of picking a choice.

    :param pattern: regular expression that the beginning of the text must match; empty = any text.
    :param message: sentence for users whose text does not match.
    :param overrides: trait → value, in which ``{value}`` stands for the user's text.
    """

    display_name: str = ""
    pattern: str = ""
    message: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    access: ProfileAccess = field(default_factory=ProfileAccess)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOption:
    """An option of a profile, in which users pick one choice.

    :param key: key of the option, also in KubeSpawner's user options.
    :param choices: the choices that users may pick, in KubeSpawner's order.
    :param default: key of the choice that KubeSpawner uses if the user picks none; empty if there are no choices.
    :param unlisted: the option's text field; None = users must pick a choice.
    """

    key: str
    display_name: str
    path: KeyPath
    choices: tuple[ProfileChoice, ...] = ()
    default: str = ""
    unlisted: UnlistedChoice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile of KubeSpawner: traits for the user's server, and options that change the traits.

    :param slug: name of the profile in KubeSpawner's user options.
    :param is_default: whether a server without user options gets the profile.
    :param overrides: the profile's ``kubespawner_override``: trait → value.
    :param options: the profile's options, in the order in which KubeSpawner applies them.
    """

    slug: str
    display_name: str
    path: KeyPath
    description: str = ""
    is_default: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[ProfileOption, ...] = ()
    access: ProfileAccess = field(default_factory=ProfileAccess)


class ProfileListParser:
    """Parses profile lists.

    :param slugify: function that turns a display name into a slug as KubeSpawner does.
    :param sorts_keys: whether to sort the keys of mappings, as Helm does before KubeSpawner reads the profile list.
    :param notes: the parser adds a note for each key that KubeSpawner does not read.
    """

    def __init__(self, *, slugify: Callable[[str], str], sorts_keys: bool, notes: NoteList) -> None:
        self._slugify = slugify
        self._sorts_keys = sorts_keys
        self._notes = notes

    def parse(self, profile_list: object) -> list[Profile]:
        """Return the profiles in KubeSpawner's order.

        :param profile_list: value of ``c.KubeSpawner.profile_list``.
        :raises ProfileListError: the value is not a profile list, or contains no profiles.
        """
        _refuse_functions(profile_list, ())
        profiles = [self._parse_profile(raw, path) for path, raw in _list_profiles(profile_list)]
        if not profiles:
            raise ProfileListError((), "has no profiles")
        default, *later = [each for each in profiles if each.is_default] or profiles[:1]
        others = [each for each in profiles if each is not default]
        if default.access.is_restricted and later and later[0] is not others[0]:
            self._notes.add(LATER_DEFAULT, profile=later[0].display_name, field="default")
        return [replace(each, is_default=each is default) for each in profiles]

    def _parse_profile(self, raw: Any, path: KeyPath) -> Profile:
        profile = _require_mapping(raw, path)
        name = _read_text(profile.get("display_name"))
        if not name:
            raise ProfileListError(path, "has no display_name, without which KubeSpawner starts no server")
        if not isinstance(profile["display_name"], str):
            raise ProfileListError((*path, "display_name"), "must be a text, so it needs quotes")
        self._note_unread(profile, known=_COMMON_KEYS | {"profile_options"}, profile=name)
        self._note_markup(profile, name)
        options = _require_mapping(profile.get("profile_options") or {}, (*path, "profile_options"))
        return Profile(
            slug=_read_text(profile["slug"]) if "slug" in profile else self._slugify(name),
            display_name=name,
            path=path,
            description=_read_text(profile.get("description")),
            is_default=bool(profile.get("default")),
            overrides=_read_overrides(profile, path),
            options=tuple(
                self._parse_option(key, each, path=(*path, "profile_options", key), profile=name)
                for key, each in self._sort(options)
            ),
            access=self._read_access(profile, path, profile=name),
        )

    def _parse_option(self, key: str, raw: Any, *, path: KeyPath, profile: str) -> ProfileOption:
        option = _require_mapping(raw, path)
        name = _read_text(option.get("display_name")) or key
        where = f"{profile} · {name}"
        building = option.get("dynamic_image_building")
        if isinstance(building, Mapping) and building.get("enabled"):
            self._notes.add(IMAGE_BUILDING, profile=where, field="dynamic_image_building")
        known = _OPTION_KEYS | {"dynamic_image_building"}
        self._note_unread(option, known=known, profile=where)
        choices = _require_mapping(option.get("choices") or {}, (*path, "choices"))
        parsed = [
            (self._parse_choice(each, raw, path=(*path, "choices", each), option=where), raw)
            for each, raw in self._sort(choices)
        ]
        default = next((choice.key for choice, raw in parsed if raw.get("default")), parsed[0][0].key if parsed else "")
        return ProfileOption(
            key=key,
            display_name=name,
            path=path,
            choices=tuple(choice for choice, _ in parsed),
            default=default,
            unlisted=self._parse_unlisted(option.get("unlisted_choice"), (*path, "unlisted_choice"), option=where),
        )

    def _parse_choice(self, key: str, raw: Any, *, path: KeyPath, option: str) -> ProfileChoice:
        choice = _require_mapping(raw, path)
        name = _read_text(choice.get("display_name")) or key
        self._note_unread(choice, known=_COMMON_KEYS, profile=f"{option}: {name}")
        self._note_markup(choice, f"{option}: {name}")
        return ProfileChoice(
            key=key,
            display_name=name,
            path=path,
            description=_read_text(choice.get("description")),
            overrides=_read_overrides(choice, path),
            access=self._read_access(choice, path, profile=f"{option}: {name}"),
        )

    def _parse_unlisted(self, raw: Any, path: KeyPath, *, option: str) -> UnlistedChoice | None:
        unlisted = _require_mapping(raw or {}, path)
        if not unlisted.get("enabled"):
            return None
        self._note_unread(unlisted, known=_UNLISTED_KEYS, profile=option)
        return UnlistedChoice(
            display_name=_read_text(unlisted.get("display_name")),
            pattern=_read_text(unlisted.get("validation_regex"), strips=False),
            message=_read_text(unlisted.get("validation_message")),
            overrides=_read_overrides(unlisted, path),
            access=self._read_access(unlisted, path, profile=option),
        )

    def _read_access(self, raw: Mapping[str, Any], path: KeyPath, *, profile: str) -> ProfileAccess:
        if raw.get("allowed_teams") is not None:
            self._notes.add(TEAMS, profile=profile, field="allowed_teams")
        return _read_access(raw, path)

    def _sort(self, mapping: Mapping[str, Any]) -> list[tuple[str, Any]]:
        items = [(str(key), value) for key, value in mapping.items()]
        return sorted(items, key=lambda item: item[0]) if self._sorts_keys else items

    def _note_unread(self, raw: Mapping[str, Any], *, known: frozenset[str], profile: str) -> None:
        for key in raw:
            if key not in known:
                cause = ACCESS_KEY if _LOOKS_LIKE_ACCESS.search(str(key).lower()) else UNREAD_KEY
                self._notes.add(cause, profile=profile, field=str(key))

    def _note_markup(self, raw: Mapping[str, Any], profile: str) -> None:
        for key in ("display_name", "description"):
            if _MARKUP.search(_read_text(raw.get(key))):
                self._notes.add(MARKUP, profile=profile, field=key)


def _list_profiles(profile_list: object) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(profile_list, Mapping):
        yield from (((key,), profile_list[key]) for key in sorted(profile_list, key=str))
    elif isinstance(profile_list, list | tuple):
        yield from (((index,), each) for index, each in enumerate(profile_list))
    else:
        raise ProfileListError((), "must be a list or mapping of profiles")


def _refuse_functions(value: object, path: KeyPath) -> None:
    if callable(value):
        raise ProfileListError(path, "is a Python function: its values are not known before a server starts")
    if not isinstance(value, str | int | float | Mapping | list | tuple | None):
        raise ProfileListError(path, f"is a Python object ({type(value).__name__}), which settings cannot contain")
    if isinstance(value, Mapping):
        for key, each in value.items():
            _refuse_functions(each, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            _refuse_functions(each, (*path, index))


def _require_mapping(value: Any, path: KeyPath) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ProfileListError(path, "must be a mapping")
    return value


def _read_overrides(raw: Mapping[str, Any], path: KeyPath) -> Mapping[str, Any]:
    return _require_mapping(raw.get("kubespawner_override") or {}, (*path, "kubespawner_override"))


def _read_access(raw: Mapping[str, Any], path: KeyPath) -> ProfileAccess:
    found: dict[str, tuple[str, ...]] = {}
    for key, name in _ACCESS_KEYS.items():
        value = raw.get(key)
        if value is None:
            continue
        if not isinstance(value, list | tuple) or not all(isinstance(each, str | int) for each in value):
            raise ProfileListError((*path, key), "must be a list of names")
        found[name] = (*found.get(name, ()), *(str(each) for each in value))
    return ProfileAccess(**found)


def _read_text(value: object, *, strips: bool = True) -> str:
    if value is None or isinstance(value, Mapping | list | tuple):
        return ""
    return str(value).strip() if strips else str(value)
