"""The door to the settings: from what traitlets holds to checked settings, or an error that names the YAML path.

What is null in settings: nothing said at a key, and an entry of a lower values file taken out.

Models say which is which: a key that nobody knows stays, for validation to refuse, whatever it is set to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.text.quoting import sanitize_name
from gpuspawner.settings.checks import check_presets, check_settings
from gpuspawner.settings.convert import convert_settings
from gpuspawner.settings.gpu import build_accelerator_table, load_builtin_accelerators
from gpuspawner.settings.merging import convert_to_plain
from gpuspawner.settings.models import SettingsModel
from gpuspawner.settings.validation_errors import explain_validation_errors


def drop_nulls(value: object, annotation: object) -> object:
    """Return settings without what is null, as far as the annotation knows them.

    An entry that may be null by its annotation stays: there it says something of its own.
    """
    if isinstance(value, list):
        inside = next((get_args(kind)[0] for kind in _list_alternatives(annotation) if get_origin(kind) is list), None)
        return [drop_nulls(entry, inside) for entry in value]
    if not isinstance(value, dict):
        return value
    for kind in _list_alternatives(annotation):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            known = {info.alias or name: info.annotation for name, info in kind.model_fields.items()}
            return {
                key: drop_nulls(entry, known.get(key))
                for key, entry in value.items()
                if entry is not None or key not in known
            }
        if get_origin(kind) is dict:
            of_entries = get_args(kind)[1]
            may_be_null = NoneType in _list_alternatives(of_entries)
            return {
                key: drop_nulls(entry, of_entries) for key, entry in value.items() if entry is not None or may_be_null
            }
    return value


def find_emptied_mappings(raw: object) -> Iterator[Problem]:
    """Yield where nulls take out all there is and nothing is left, which would mean all that there are.

    YAML reads ``t4:`` as null as well, and whoever writes it means something else.
    """
    for slug, entry in _list_entries(raw, "gpus"):
        if label := _find_removed_key(entry.get("match")):
            message = (
                f"asks for no label, because null takes out {label}; name the values that are allowed, or set"
                " match itself to null for all nodes that have the resource"
            )
            yield Problem(field=f"gpus.{sanitize_name(slug)}.match", code="bad_value", message=message)
    policy = raw.get("policy") if isinstance(raw, Mapping) else None
    rules = [("default", policy.get("default"))] if isinstance(policy, Mapping) else []
    rules += [
        (f"{part}.{sanitize_name(name)}", rule)
        for part in ("groups", "users")
        for name, rule in _list_entries(policy, part)
    ]
    for place, rule in rules:
        if slug := _find_removed_key(rule.get("gpus") if isinstance(rule, Mapping) else None):
            shown = '"*"' if slug == "*" else slug
            message = f"names no GPU type, because null takes one out; to allow one write {shown}: {{}}"
            yield Problem(field=f"policy.{place}.gpus", code="bad_value", message=message)


def _list_alternatives(annotation: object) -> list[Any]:
    """Return the alternatives of an annotation."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _list_alternatives(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [kind for part in get_args(annotation) for kind in _list_alternatives(part)]
    return [annotation]


def _list_entries(raw: object, section: str) -> Iterator[tuple[object, Mapping[str, Any]]]:
    entries = raw.get(section) if isinstance(raw, Mapping) else None
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        if isinstance(entry, Mapping):
            yield name, entry


def _find_removed_key(entries: object) -> str:
    """Return the first of entries that are all null, an empty text where some are left or none are said."""
    if not isinstance(entries, Mapping) or any(entry is not None for entry in entries.values()):
        return ""
    return sanitize_name(next(iter(entries), ""))


@dataclass(frozen=True, slots=True)
class Settings:
    """What an admin configured, checked.

    :param model: the settings, key by key.
    """

    model: SettingsModel

    @classmethod
    def parse(cls, raw: Mapping[str, object]) -> Settings:
        """Return checked settings.

        :param raw: the keys of :class:`~gpuspawner.settings.models.SettingsModel` as YAML holds them; empty and
            missing ones are the same.
        :raises SettingsError: with one problem for each path that is wrong.
        """
        try:
            model = SettingsModel.model_validate(_drop_empty_values(convert_to_plain(raw)))
        except ValidationError as error:
            raise SettingsError(*explain_validation_errors(error.errors(include_url=False), SettingsModel)) from None
        settings = cls(model)
        # A preset can only be judged by rules that are themselves right.
        problems = check_settings(model, frozenset(load_builtin_accelerators())) or check_presets(
            settings.build_configured()
        )
        if problems:
            raise SettingsError(*problems)
        return settings

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is configured at all."""
        return self.model == SettingsModel()

    def build_configured(self) -> ConfiguredCatalog:
        """Return what the settings say, as the core's values."""
        return convert_settings(self.model, self.build_table())

    def build_table(self) -> AcceleratorTable:
        """Return the known GPU models with the admin's changes."""
        return build_accelerator_table(self.model.accelerators)


def _drop_empty_values(raw: object) -> object:
    """Return settings without what stands for nothing: nulls, and sections that are empty as they are written.

    :raises SettingsError: nulls leave nothing where that would mean everything.
    """
    if problems := list(find_emptied_mappings(raw)):
        raise SettingsError(*problems)
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if key not in SettingsModel.model_fields or value != {}}
    return drop_nulls(raw, SettingsModel)
