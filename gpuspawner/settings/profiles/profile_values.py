"""Finds the values of servers with a profile, and derives CPU and memory of the preset that replaces the profile.

Each option of the profile becomes a list in the preset, and each choice an entry of the list. A server's values come
from KubeSpawner's own traits, from the profile, and from the user's choices in the profile's options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
"""Key with which a preset sets an amount of CPU or memory → KubeSpawner's trait for this amount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveValues:
    """Values of a server's KubeSpawner traits, after a profile or choices in its options may have overridden them.

    :param image: reference of the image; empty = unknown.
    :param amounts: KubeSpawner's trait for a limit or guarantee of CPU or memory → amount.
    :param accelerators: extended resource → number in ``extra_resource_limits``.
    :param requested: extended resource → number in ``extra_resource_guarantees``.
    :param labels: label → value in the node selector.
    :param variables: name → value of environment variables that pick or hide GPUs; gpuspawner sets these itself.
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
        """Return a copy of these values, overridden by the values of a ``kubespawner_override``.

        :param parts: the parts of the ``kubespawner_override``.
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
        """Return whether the guarantee of ``key`` (``cpu`` or ``memory``) exceeds its limit; False without a limit."""
        limit, guarantee = (self.amounts.get(trait, UNSET_AMOUNT).size for trait in AMOUNT_TRAITS[key])
        return 0 < limit < guarantee

    @property
    def mismatch(self) -> str:
        """Text that names the first accelerator with a guarantee that differs from its limit; empty if there is none.

        Kubernetes refuses a pod that requests more or less of an extended resource than the limit.
        """
        pairs = ((name, count, self.accelerators.get(name, 0)) for name, count in self.requested.items() if count)
        found = (f"{name}: {count}, but the limit is {limit}" for name, count, limit in pairs if count != limit)
        return next(found, "")


@dataclass(slots=True, kw_only=True)
class SplitEntry:
    """A choice in a profile's option. The choice becomes an entry of a list in a preset.

    :param slug: key of the entry in the settings.
    :param parts: the parts of the choice's ``kubespawner_override``.
    :param where: display names of the profile, option and choice, for notes to the admin.
    """

    choice: ProfileChoice
    slug: str
    parts: OverrideParts
    where: str


@dataclass(slots=True, kw_only=True)
class SplitOption:
    """An option of a profile, which becomes a list in a preset's ``choices``.

    :param name: key of the list in the settings.
    :param entries: the option's choices, which become the entries of the list.
    :param image_input: the setting ``custom_image`` of the list; None = users cannot enter an image.
    :param where: display names of the profile and option, for notes to the admin.
    """

    option: ProfileOption
    name: str
    entries: list[SplitEntry]
    image_input: dict[str, Any] | None
    where: str

    @property
    def is_closed(self) -> bool:
        """Whether users must pick one of the entries, because they cannot enter an image instead."""
        return bool(self.entries) and self.image_input is None

    def touches(self, trait: str) -> bool:
        """Return whether at least one entry sets a trait.

        :param trait: KubeSpawner's trait for a limit or guarantee of CPU or memory.
        """
        return any(trait in entry.parts.amounts for entry in self.entries)

    @property
    def resources(self) -> set[str]:
        """Extended resources of accelerators for which at least one entry sets a limit."""
        return {resource for entry in self.entries for resource in entry.parts.accelerators}

    @property
    def sets_accelerators(self) -> bool:
        """Whether at least one entry sets a limit or guarantee of an accelerator."""
        return any(entry.parts.accelerators or entry.parts.requested for entry in self.entries)

    @property
    def labels(self) -> set[str]:
        """Keys of node selector labels that an entry removes, or that may select the nodes of a GPU type."""
        return {
            key
            for entry in self.entries
            for key, value in entry.parts.labels.items()
            if value is None or tells_gpu(key, value)
        }


def read_base(base: Mapping[str, Any]) -> EffectiveValues:
    """Return the values of servers without a profile.

    :param base: trait → value that the hub's configuration of KubeSpawner sets.
    :raises SettingsError: KubeSpawner refuses a limit or guarantee; the problem's field is the name of the trait.
    """
    amounts: dict[str, Amount] = {}
    for trait, key in AMOUNT_KEYS.items():
        with _naming(trait):
            amounts[trait] = read_amount(key, base.get(trait))
    accelerators: dict[str, Mapping[str, int]] = {}
    for trait in RESOURCE_TRAITS:
        with _naming(trait):
            accelerators[trait], _ = split_resources(base.get(trait))
    limits, guarantees = RESOURCE_TRAITS
    selector = base.get("node_selector")
    return EffectiveValues(
        image=base.get("image") or "",
        amounts=amounts,
        accelerators=accelerators[limits],
        requested=accelerators[guarantees],
        labels=selector if isinstance(selector, Mapping) else {},
        variables=select_own_variables(base.get("environment")),
        has_own_selector=replaces_selector(base.get("extra_pod_config")),
    )


@contextmanager
def _naming(trait: str) -> Iterator[None]:
    """Replace a QuantityError in the ``with`` block by a SettingsError that names the trait."""
    try:
        yield
    except QuantityError as error:
        raise SettingsError(Problem(field=trait, code="bad_value", message=str(error))) from error


def plan_amounts(
    level: EffectiveValues, options: list[SplitOption], *, base: EffectiveValues
) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Return the settings of CPU and memory for a preset, and those for the entries of the preset's lists.

    Settings are a dict: key, such as ``cpu_guarantee`` → value. The second result is ``id(entry)`` → settings.

    For a server with a limit and no guarantee, Kubernetes sets the request to the limit. In this case, the guarantee in
    the settings is:

    - the limit, if at most one option changes the limit or guarantee
    - 0 (no guarantee), if several options do, because the limit then depends on several choices

    The settings also contain the guarantee 0 if the profile removes a guarantee of the hub's configuration.

    :param level: the values of servers with the profile, without the user's choices.
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
