"""Finds mistakes in a ``profile_list``, as KubeSpawner reads it: an error where a form or a start fails.

KubeSpawner checks nothing of the list when the hub starts. It fails when a user opens the form or starts the profile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kubespawner import KubeSpawner

from gpuspawner.cli.common.findings import Finding, Severity, describe_type
from gpuspawner.cli.values.chart_config import has_unknown_class
from gpuspawner.cli.values.helm_values import HelmValues
from gpuspawner.cli.values.trait_sources import find_trait_source, make_finding
from gpuspawner.core.json_access import KeyPath, as_dict
from gpuspawner.core.text.wording import quote, suggest_name
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.pod.override_checks import find_override_fault

_TRAITS = frozenset(KubeSpawner.class_trait_names(config=True))
_UNKNOWN_TRAIT = "unknown_key"


class _Mistake(NamedTuple):
    """A mistake at a path below the list."""

    path: KeyPath
    code: str
    message: str
    severity: Severity = Severity.ERROR


def find_profile_mistakes(values: HelmValues) -> Iterator[Finding]:
    """Yield a finding for each mistake in the ``profile_list``: an error, or a warning where KubeSpawner goes on."""
    source = find_trait_source(values, "profile_list")
    if source is None or not isinstance(source.value, Mapping | list):
        return
    is_foreign = has_unknown_class(values.chart)  # the hub's own class may have a trait that KubeSpawner lacks
    for path, code, message, severity in _check_list(source.value):
        adapted = Severity.WARNING if is_foreign and code == _UNKNOWN_TRAIT else severity
        yield make_finding(values, (*source.path, *path), severity=adapted, code=code, message=message)


def _check_list(profiles: Any) -> Iterator[_Mistake]:
    entries: dict[Any, Any] = dict(sorted(profiles.items()) if isinstance(profiles, Mapping) else enumerate(profiles))
    # The method needs nothing of the spawner, whose constructor would connect to a cluster.
    spawner = KubeSpawner.__new__(KubeSpawner)
    slugs: dict[str, Any] = {}
    for key, profile in entries.items():
        mistakes = list(_check_profile(profile, (key,)))
        yield from mistakes
        if any(mistake.severity is Severity.ERROR for mistake in mistakes):
            continue
        slug = private_api.complete_profiles(spawner, [profile])[0]["slug"]
        if (first := slugs.setdefault(slug, key)) != key:
            message = f"gives the slug {quote(slug)} of profile {first}: KubeSpawner always starts that one"
            path = (key, "slug" if "slug" in profile else "display_name")
            yield _Mistake(path, "duplicate_slug", message, Severity.WARNING)
    yield from _check_defaults(entries, ())


def _check_profile(profile: Any, path: KeyPath) -> Iterator[_Mistake]:
    if not isinstance(profile, Mapping):
        yield _expect("a mapping", profile, path=path)
        return
    yield from _check_name(profile, path)
    yield from _check_override(profile, path)
    yield from _check_types(profile.get("profile_options", {}), (*path, "profile_options"))
    for name, option in _list_mappings(profile.get("profile_options")).items():
        yield from _check_option(option, (*path, "profile_options", name))


def _check_option(option: Mapping[str, Any], path: KeyPath) -> Iterator[_Mistake]:
    yield from _check_name(option, path)
    yield from _check_types(option.get("choices") or {}, (*path, "choices"))
    choices = _list_mappings(option.get("choices"))
    for key, choice in choices.items():
        yield from _check_name(choice, (*path, "choices", key))
        yield from _check_override(choice, (*path, "choices", key))
    yield from _check_defaults(dict(sorted(choices.items())), (*path, "choices"))  # Helm sorts keys
    field = option.get("unlisted_choice", {})
    if not isinstance(field, Mapping):
        yield _expect("a mapping", field, path=(*path, "unlisted_choice"))
    elif field.get("enabled"):
        yield from _check_text_field(field, (*path, "unlisted_choice"))
    elif not option.get("choices"):
        message = "has neither choices nor an enabled unlisted_choice: no server of the profile starts"
        yield _Mistake(path, "missing", message)


def _check_text_field(field: Mapping[str, Any], path: KeyPath) -> Iterator[_Mistake]:
    if field["enabled"] is not True:
        yield _expect("true or false", field["enabled"], path=(*path, "enabled"))
    try:
        re.compile(field.get("validation_regex") or "")
    except (TypeError, re.error) as error:
        yield _Mistake((*path, "validation_regex"), "bad_value", f"is no regular expression: {error}")
    yield from _check_override(field, path)
    if not field.get("kubespawner_override", {}):
        message = "has no kubespawner_override: what the user writes has no effect"
        yield _Mistake(path, "missing", message, Severity.WARNING)


def _list_mappings(section: Any) -> dict[str, Mapping[str, Any]]:
    return {key: entry for key, entry in as_dict(section).items() if isinstance(entry, Mapping)}


def _check_types(section: Any, path: KeyPath) -> Iterator[_Mistake]:
    """Yield a mistake unless a value is a mapping of mappings."""
    if not isinstance(section, Mapping):
        yield _expect("a mapping", section, path=path)
    for key in as_dict(section).keys() - _list_mappings(section).keys():
        yield _expect("a mapping", section[key], path=(*path, key))


def _check_name(entry: Mapping[str, Any], path: KeyPath) -> Iterator[_Mistake]:
    if "display_name" not in entry:
        yield _Mistake(path, "missing", "has no display_name")
    elif not isinstance(entry["display_name"], str):
        yield _expect("a text", entry["display_name"], path=(*path, "display_name"))


def _check_defaults(entries: Mapping[Any, Any], path: KeyPath) -> Iterator[_Mistake]:
    first, *others = [key for key, entry in entries.items() if as_dict(entry).get("default")] or [None]
    for key in others:
        message = f"has no effect: {quote(str(first))} is the default already"
        yield _Mistake((*path, key, "default"), "conflict", message, Severity.WARNING)


def _check_override(entry: Mapping[str, Any], path: KeyPath) -> Iterator[_Mistake]:
    override, path = entry.get("kubespawner_override", {}), (*path, "kubespawner_override")
    if not isinstance(override, Mapping):
        yield _expect("a mapping", override, path=path)
    for name, value in as_dict(override).items():
        if name in _TRAITS:
            # KubeSpawner puts the user's text in place of {value}.
            if "{value}" not in str(value) and (fault := find_override_fault(name, value)):
                yield _Mistake((*path, name), "bad_value", fault)
        elif not hasattr(KubeSpawner, name):  # old names of traits are properties
            # KubeSpawner stores a value in an attribute that nothing reads, but fails at a mapping.
            severity = Severity.ERROR if isinstance(value, Mapping) else Severity.WARNING
            message = f"KubeSpawner has no such trait.{suggest_name(name, _TRAITS)}"
            yield _Mistake((*path, name), _UNKNOWN_TRAIT, message, severity)


def _expect(expected: str, value: object, *, path: KeyPath) -> _Mistake:
    return _Mistake(path, "wrong_type", f"must be {expected}, not {describe_type(value)}")
