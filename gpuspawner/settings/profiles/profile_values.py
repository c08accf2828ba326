"""The effective values of servers with a profile, and the amounts of CPU and memory that presets and entries say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuspawner.core.catalog.model import UNLIMITED_AMOUNT
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.units.quantity import QuantityError
from gpuspawner.settings.profiles.overrides import (
    AMOUNT_KEYS,
    AMOUNT_TRAITS,
    RESOURCE_TRAITS,
    UNSET_AMOUNT,
    Amount,
    OverrideParts,
    read_amount,
    replaces_selector,
    select_own_variables,
    split_resources,
    tells_gpu,
)
from gpuspawner.settings.profiles.profile_list import ProfileChoice, ProfileOption

_TRAITS_BY_KEY = {
    name: trait
    for key, (limit, guarantee) in AMOUNT_TRAITS.items()
    for name, trait in ((key, limit), (f"{key}_guarantee", guarantee))
}
"""Key of a preset → KubeSpawner's trait of the amount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveValues:
    """The effective values of a server with KubeSpawner's own traits, a profile, and perhaps one choice.

    :param image: reference of the image; empty = unknown.
    :param amounts: trait → amount.
    :param accelerators: extended resource → number.
    :param requested: extended resource → number of ``extra_resource_guarantees``.
    :param labels: the node selector.
    :param variables: environment variables that gpuspawner sets itself.
    :param has_own_selector: whether ``extra_pod_config`` replaces the node selector.
    """

    image: str = ""
    amounts: Mapping[str, Amount] = field(default_factory=dict)
    accelerators: Mapping[str, int] = field(default_factory=dict)
    requested: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)
    has_own_selector: bool = False

    def overlay(self, parts: OverrideParts) -> EffectiveValues:
        """Return the values with an override on top.

        :param parts: the override.
        """
        labels = {**self.labels, **parts.labels}
        return EffectiveValues(
            image=self.image if parts.image is None else parts.image,
            amounts={**self.amounts, **parts.amounts},
            accelerators={**self.accelerators, **parts.accelerators},
            requested={**self.requested, **parts.requested},
            labels={key: value for key, value in labels.items() if value is not None},
            variables={**self.variables, **parts.variables},
            has_own_selector=self.has_own_selector or replaces_selector(parts.rest.get("extra_pod_config")),
        )

    def requests_too_much(self, key: str) -> bool:
        """Return whether the guarantee is larger than the limit.

        :param key: ``cpu`` or ``memory``.
        """
        limit, guarantee = (self.amounts.get(trait, UNSET_AMOUNT).size for trait in AMOUNT_TRAITS[key])
        return 0 < limit < guarantee

    @property
    def mismatch(self) -> str:
        """The first accelerator that has a guarantee without an equal limit, which Kubernetes refuses; or empty."""
        pairs = ((name, count, self.accelerators.get(name, 0)) for name, count in self.requested.items() if count)
        found = (f"{name}: {count}, but the limit is {limit}" for name, count, limit in pairs if count != limit)
        return next(found, "")


@dataclass(slots=True, kw_only=True)
class SplitEntry:
    """A choice of an option, with its override split.

    :param slug: key of the entry in the settings.
    :param where: display names for notes.
    """

    choice: ProfileChoice
    slug: str
    parts: OverrideParts
    where: str


@dataclass(slots=True, kw_only=True)
class SplitOption:
    """An option of a profile, with the overrides of its choices split.

    :param name: key of the choice in the settings.
    :param image_input: the setting ``custom_image``; None = users cannot enter an image.
    :param where: display names for notes.
    """

    option: ProfileOption
    name: str
    entries: list[SplitEntry]
    image_input: dict[str, Any] | None
    where: str

    @property
    def is_closed(self) -> bool:
        """Whether a server always has one of the entries."""
        return bool(self.entries) and self.image_input is None

    def touches(self, trait: str) -> bool:
        """Return whether an entry sets an amount.

        :param trait: trait of KubeSpawner.
        """
        return any(trait in entry.parts.amounts for entry in self.entries)

    @property
    def resources(self) -> set[str]:
        """The accelerators that entries set."""
        return {resource for entry in self.entries for resource in entry.parts.accelerators}

    @property
    def sets_accelerators(self) -> bool:
        """Whether an entry sets a limit or guarantee of an accelerator."""
        return any(entry.parts.accelerators or entry.parts.requested for entry in self.entries)

    @property
    def labels(self) -> set[str]:
        """The labels of node selectors that entries change."""
        return {
            key
            for entry in self.entries
            for key, value in entry.parts.labels.items()
            if value is None or tells_gpu(key, value)
        }


def read_base(base: Mapping[str, Any]) -> EffectiveValues:
    """Return the values of servers without a profile.

    :param base: trait → KubeSpawner's own value.
    :raises SettingsError: KubeSpawner refuses an amount; the field is the trait.
    """
    amounts: dict[str, Amount] = {}
    for trait, key in AMOUNT_KEYS.items():
        try:
            amounts[trait] = read_amount(key, base.get(trait))
        except QuantityError as error:
            raise SettingsError(Problem(field=trait, code="bad_value", message=str(error))) from error
    selector = base.get("node_selector")
    return EffectiveValues(
        image=base.get("image") or "",
        amounts=amounts,
        accelerators=split_resources(base.get(RESOURCE_TRAITS[0]))[0],
        requested=split_resources(base.get(RESOURCE_TRAITS[1]))[0],
        labels=selector if isinstance(selector, Mapping) else {},
        variables=select_own_variables(base.get("environment")),
        has_own_selector=replaces_selector(base.get("extra_pod_config")),
    )


def plan_amounts(
    level: EffectiveValues, options: list[SplitOption], *, base: EffectiveValues
) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Return the keys for CPU and memory of a preset and, by identity, of entries that change them.

    A server without a guarantee requests its limit. The keys say so with the number where one option at most changes
    the amounts, and else with a guarantee of 0, as KubeSpawner does: a later entry may still set the limit. A guarantee
    of 0 also takes away that of the hub.

    :param level: the values of servers with the profile.
    :param options: the profile's options.
    :param base: the values of servers without a profile.
    """
    preset: dict[str, Any] = {}
    by_entry: dict[int, dict[str, Any]] = {}
    for key, traits in AMOUNT_TRAITS.items():
        setting = [each for each in options if any(each.touches(trait) for trait in traits)]
        is_alone = len(setting) < 2  # noqa: PLR2004
        usual = _format_amounts(key, level, is_alone=is_alone)
        if base.amounts.get(traits[1], UNSET_AMOUNT).size:
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


def _format_amounts(key: str, level: EffectiveValues, *, is_alone: bool) -> dict[str, Any]:
    limit, guarantee = (level.amounts.get(trait, UNSET_AMOUNT) for trait in AMOUNT_TRAITS[key])
    found = {key: limit.written if limit.size else UNLIMITED_AMOUNT}
    if not is_alone:
        found[f"{key}_guarantee"] = guarantee.written
    elif request := guarantee if guarantee.size else limit if limit.size else None:
        found[f"{key}_guarantee"] = request.written
    return found
