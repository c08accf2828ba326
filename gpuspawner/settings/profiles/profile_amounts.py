"""CPU and memory of profiles: what each says, else what KubeSpawner gives all servers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from gpuspawner.core.units.quantity import QuantityError, format_cpu, format_memory_option, parse_cpu, parse_memory
from gpuspawner.settings.profiles.profile_variants import ProfileVariant

AMOUNT_TRAITS = {"cpu": ("cpu_limit", "cpu_guarantee"), "memory": ("mem_limit", "mem_guarantee")}
"""Name in settings → KubeSpawner's traits of the limit and the guarantee."""
_READ = {"cpu": parse_cpu, "memory": parse_memory}


class ProfileAmounts:
    """Reads amounts of profiles.

    :param usual: trait of KubeSpawner → what a profile has that says nothing; missing or null: none.
    :param notes: where it is said what could not be read, or not carried over.
    """

    def __init__(self, usual: Mapping[str, Any], notes: list[str]) -> None:
        self._notes = notes
        traits = [(name, trait) for name, pair in AMOUNT_TRAITS.items() for trait in pair]
        self._usual = {trait: self._read(name, usual.get(trait), who=trait) for name, trait in traits}

    def read_limit(self, name: str, variant: ProfileVariant) -> int | None:
        """Return the limit of a variant, else what it is guaranteed, in millicores or bytes."""
        limit, least = (self._of(name, trait, variant=variant) for trait in AMOUNT_TRAITS[name])
        if limit is None and least is not None:
            told = format_setting_amount(name, least)
            self._notes.append(
                f"{variant.name}: {name} has a guarantee and no limit; every server has a limit here, and this one's "
                f"is the guarantee, {told}."
            )
        return limit or least

    def compute_guarantee(self, name: str, variant: ProfileVariant) -> Fraction | None:
        """Return the guaranteed part of the limit, None where one of the two is missing."""
        limit, least = (self._of(name, trait, variant=variant) for trait in AMOUNT_TRAITS[name])
        return Fraction(least, limit) if limit and least and least <= limit else None

    def _of(self, name: str, trait: str, *, variant: ProfileVariant) -> int | None:
        """Return an amount of a variant; null takes the usual one away, as on KubeSpawner."""
        if trait not in variant.overrides:
            return self._usual[trait]
        who, usual = f"{variant.name}: {trait}", self._usual[trait]
        return self._read(name, variant.overrides[trait], who=who, otherwise=usual)

    def _read(self, name: str, value: object, *, who: str, otherwise: int | None = None) -> int | None:
        if value is None:
            return None
        try:
            return _READ[name](value) or None
        except QuantityError:
            self._notes.append(f"{who} is no plain amount, which is left out.")
            return otherwise


def format_setting_amount(name: str, amount: int) -> float | str:
    """Return an amount as settings have it.

    :param amount: millicores or bytes.
    """
    if name != "cpu":
        return format_memory_option(amount)
    text = format_cpu(amount)
    return float(text) if "." in text else int(text)
