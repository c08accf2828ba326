"""Checks a user's choice among the profiles of KubeSpawner's ``profile_list``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slugify import slugify

from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import format_list, join_sentences, quote, sanitize_name
from gpuspawner.hub.errors import RefusedProfile


def check_profile(
    options: Any, profiles: Sequence[Mapping[str, Any]] | None, *, validate: Callable[[Any], None]
) -> str:
    """Return the name of the profile that the user has chosen, or of the default profile; empty without profiles.

    :param options: the user options, any JSON value.
    :param profiles: the profiles, as KubeSpawner has completed them.
    :param validate: KubeSpawner's own check of the options.
    :raises RefusedProfile: there is no such profile, or no such choice in one of its options.
    """
    asked = as_dict(options)
    slug = asked.get("profile")
    known: dict[Any, Mapping[str, Any]] = {}
    for profile in profiles or ():
        known.setdefault(profile["slug"], profile)  # of several profiles with one slug, KubeSpawner takes the first
    if slug and known and (not isinstance(slug, str) or slug not in known):
        message = gettext("There is no profile {value}.", value=quote(slug))
        raise RefusedProfile(join_sentences(message, gettext("Offered: {choices}.", choices=format_list(known))))
    try:
        validate(profiles)
    except (TypeError, ValueError) as error:
        raise RefusedProfile(str(error)) from error
    if not known:
        return ""
    chosen = known[slug] if slug else next((profile for profile in known.values() if profile.get("default")), {})
    _check_choices(asked, chosen)
    return str(chosen.get("display_name", ""))


def find_profile_name(profile_list: object, slug: str) -> str:
    """Return the name of a profile for users, or the slug for an unknown profile and for a list that is a function.

    :param profile_list: the admin's ``profile_list``.
    :param slug: slug of the profile.
    """
    profiles = profile_list.values() if isinstance(profile_list, Mapping) else profile_list
    for profile in profiles if isinstance(profiles, Iterable) else ():
        name = as_text(as_dict(profile).get("display_name"))
        if slug == (as_dict(profile).get("slug") or slugify(name)):
            return name
    return slug


def _check_choices(options: Mapping[str, Any], profile: Mapping[str, Any]) -> None:
    """Refuse a choice that a list of the profile lacks.

    KubeSpawner's own check accepts an unknown entry, and then fails. It checks nothing if the options name no profile,
    and then starts the default profile with them.
    """
    for key, option in as_dict(profile.get("profile_options")).items():
        name, choice, text = sanitize_name(key), options.get(key), options.get(f"{key}--unlisted-choice")
        choices, field = list(as_dict(as_dict(option).get("choices"))), as_dict(as_dict(option).get("unlisted_choice"))
        if text:
            pattern = as_text(field.get("validation_regex"))
            is_offered = field.get("enabled") and isinstance(text, str) and re.match(pattern, text)
        else:
            is_offered = not choice or choice in choices
        if not is_offered:
            message = gettext("{choice}: there is no entry {value}.", choice=name, value=quote(text or choice))
            raise RefusedProfile(message)
        if not (text or choice or choices):
            raise RefusedProfile(f"Unable to determine a default choice for {name}.")
