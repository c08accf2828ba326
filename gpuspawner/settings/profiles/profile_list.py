"""Converts a KubeSpawner ``profile_list`` to settings: images, CPU and memory ranges, GPU types, and presets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from gpuspawner.core.errors import SettingsError
from gpuspawner.core.units.quantity import QuantityError, format_cpu, format_memory_option, parse_cpu, parse_memory
from gpuspawner.settings.parsing import Settings
from gpuspawner.settings.profiles.profile_gpus import (
    ProfileGPUs,
    describe_lost_parts,
    find_unplaced_traits,
    make_unique_slug,
)
from gpuspawner.settings.profiles.variants import ImageChoice, ProfileVariant, parse_profile_list

AMOUNT_TRAITS = {"cpu": ("cpu_limit", "cpu_guarantee"), "memory": ("mem_limit", "mem_guarantee")}
"""Key in the settings → name of KubeSpawner's trait for the limit, and name of its trait for the guarantee."""
_READ = {"cpu": parse_cpu, "memory": parse_memory}


class ProfileAmounts:
    """Reads the CPU and memory amounts of profiles.

    :param defaults: KubeSpawner's trait → its default; a missing or null default means no limit or guarantee.
    :param notes: list that receives sentences for the admin about amounts that the settings leave out or change.
    """

    def __init__(self, defaults: Mapping[str, Any], notes: list[str]) -> None:
        self._notes = notes
        traits = [(name, trait) for name, pair in AMOUNT_TRAITS.items() for trait in pair]
        self._defaults = {trait: self._read(name, defaults.get(trait), who=trait) for name, trait in traits}

    def read_limit(self, name: str, variant: ProfileVariant) -> int | None:
        """Return a variant's limit in millicores or bytes.

        If the variant has no limit, return its guarantee. If it has neither, return None.

        :param name: ``cpu`` or ``memory``.
        :param variant: one way to start a server.
        """
        limit, guarantee = (self._of(name, trait, variant=variant) for trait in AMOUNT_TRAITS[name])
        if limit is None and guarantee is not None:
            amount_text = format_setting_amount(name, guarantee)
            self._notes.append(
                f"{variant.name}: {name} has a guarantee and no limit; every server has a limit here, and this one's "
                f"is the guarantee, {amount_text}."
            )
        return limit or guarantee

    def compute_guarantee(self, name: str, variant: ProfileVariant) -> Fraction | None:
        """Return the guarantee as a fraction of the limit; None if either is missing or the fraction exceeds 1.

        :param name: ``cpu`` or ``memory``.
        :param variant: one way to start a server.
        """
        limit, guarantee = (self._of(name, trait, variant=variant) for trait in AMOUNT_TRAITS[name])
        return Fraction(guarantee, limit) if limit and guarantee and guarantee <= limit else None

    def _of(self, name: str, trait: str, *, variant: ProfileVariant) -> int | None:
        """Return the limit or guarantee that a trait gives a variant, or None if there is none.

        As in KubeSpawner, a null in the variant's overrides removes the default.
        """
        if trait not in variant.overrides:
            return self._defaults[trait]
        who, default = f"{variant.name}: {trait}", self._defaults[trait]
        return self._read(name, variant.overrides[trait], who=who, fallback=default)

    def _read(self, name: str, value: object, *, who: str, fallback: int | None = None) -> int | None:
        if value is None:
            return None
        try:
            return _READ[name](value) or None
        except QuantityError:
            self._notes.append(f"{who} is no plain amount, which is left out.")
            return fallback


def format_setting_amount(name: str, amount: int) -> float | str:
    """Return an amount of CPU or memory as written in settings.

    :param name: ``cpu`` or ``memory``.
    :param amount: millicores or bytes.
    """
    if name != "cpu":
        return format_memory_option(amount)
    text = format_cpu(amount)
    return float(text) if "." in text else int(text)


_FINEST_STEP = {"cpu": 100, "memory": 256 << 20}
"""Lower bound of the ``step`` of CPU (in millicores) and memory (in bytes) in the converted settings."""
_CONVERTED_TRAITS = {
    "image",
    *(trait for traits in AMOUNT_TRAITS.values() for trait in traits),
    "extra_resource_limits",
    "extra_resource_guarantees",
    "node_selector",
    "tolerations",
    "environment",
    "extra_pod_config",
    "start_timeout",
}
_BY_SLUG = ("images", "gpus", "presets")


_NAMED = 5
"""Maximum number of names of variants in one note for the admin."""
_NO_DEFAULTS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedProfiles:
    """The settings converted from a profile list.

    :param settings: keys below ``hub.config.GPUSpawner``.
    :param notes: sentences for the admin about parts of the profile list that the settings leave out or change.
    """

    settings: Mapping[str, Any]
    notes: tuple[str, ...]


def convert_profile_list(
    profile_list: object, *, default_image: str = "", defaults: Mapping[str, Any] = _NO_DEFAULTS
) -> ConvertedProfiles:
    """Return settings that offer the same as a profile list.

    Images, amounts and GPU types become separate choices of the form, which users may combine freely. Each profile
    becomes one preset for each combination of choices in its options. If an option changes only the image, its choices
    become images of the form, not presets.
    Custom images are allowed if at least one profile allows any image reference.

    :param profile_list: as in ``c.KubeSpawner.profile_list`` or ``singleuser.profileList``.
    :param default_image: reference of KubeSpawner's own image, for profiles without one; empty if unknown.
    :param defaults: KubeSpawner's trait → limit or guarantee of profiles that do not set the trait.
    :raises SettingsError: the value is not a profile list.
    """
    found = parse_profile_list(profile_list)
    conversion = _Conversion(found.notes, default_image=default_image, defaults=defaults)
    variants = sorted(found.variants, key=lambda variant: not variant.is_default)
    conversion.images(variants, found.images)
    for name in AMOUNT_TRAITS:
        conversion.amounts(name, variants)
    for variant in variants:
        conversion.preset(variant)
    conversion.note_unlimited()
    settings = _drop_invalid(conversion.settings(custom_images=found.custom_images), conversion.notes)
    return ConvertedProfiles(settings=settings, notes=tuple(dict.fromkeys(conversion.notes)))


def _drop_invalid(settings: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    while True:
        try:
            Settings.parse(settings)
        except SettingsError as error:
            found = [problem for problem in error.problems if _remove_path(settings, problem.field)]
            if not found:
                raise
            notes += [f"{problem.field} {problem.message}: left out." for problem in found]
        else:
            return settings


def _remove_path(settings: dict[str, Any], path: str) -> bool:
    """Remove the part of the settings that a problem's YAML path names; return whether anything was removed.

    For the path ``gpus.a100.match.zone``, remove ``zone`` from the mapping ``match``. If ``match`` does not contain
    ``zone``, remove ``match``. If the entry ``a100`` does not contain ``match``, remove the entry. The same applies to
    ``images`` and ``presets``. For any other path, remove the section that the path's first key names.
    """
    section, _, rest = path.partition(".")
    entries = settings.get(section, {})
    slug = max((slug for slug in entries if f"{rest}.".startswith(f"{slug}.")), key=len, default="")
    key, _, inner = rest[len(slug) + 1 :].partition(".")
    if section in _BY_SLUG and slug in entries:
        entry = entries[slug]
        if isinstance(inside := entry.get(key), dict) and inner in inside:
            removed = inside.pop(inner)  # Remove only the path's last key, not the mapping that contains the key.
        else:
            removed = entry.pop(key, None) if key in entry else entries.pop(slug)
    else:
        removed = settings.pop(section, None)
    return removed is not None


class _Conversion:
    def __init__(self, notes: Iterable[str], *, default_image: str, defaults: Mapping[str, Any]) -> None:
        self.notes = list(notes)
        self._amounts = ProfileAmounts(defaults, self.notes)
        self._default_image = default_image
        self._images: dict[str, dict[str, Any]] = {}
        self._references: dict[str, str] = {}
        self._bounds: dict[str, dict[str, Any]] = {}
        self._steps: dict[str, int] = {}
        self._unlimited: dict[str, list[str]] = {}
        self._gpus = ProfileGPUs(self.notes)
        self._presets: dict[str, dict[str, Any]] = {}

    def settings(self, *, custom_images: bool) -> dict[str, Any]:
        sections = {
            "images": self._images,
            "custom_images": {"allowed": True} if custom_images else {},
            **self._bounds,
            "gpus": self._gpus.types,
            "presets": self._presets,
        }
        found: dict[str, Any] = {name: section for name, section in sections.items() if section}
        if self._presets:
            # A profile list offers only what it names, so the form must not add GPU types found by node labels.
            found["discover_gpus"] = False
        return found

    def images(self, variants: Iterable[ProfileVariant], choices: Iterable[ImageChoice]) -> None:
        named = {choice.reference: choice.name for choice in choices}
        references = [self._reference(variant) for variant in variants]
        if "" in references and any((*references, *named)):
            self.notes.append("Some profiles name no image: add KubeSpawner's own to images, and to their presets.")
        for reference in dict.fromkeys([*references, *named]):
            if not reference:
                continue
            if any(letter.isspace() or letter in "{}" for letter in reference):
                self.notes.append(f"image {reference}: it is put together when a server starts, which is left out.")
                continue
            short = reference.rsplit("/", 1)[-1]
            slug = make_unique_slug(named.get(reference) or short.partition("@")[0], self._images, fallback="image")
            self._images[slug] = {
                "display_name": (named.get(reference) or short or reference)[:200],
                "image": reference,
            }
            self._references[reference] = slug

    def amounts(self, name: str, variants: Iterable[ProfileVariant]) -> None:
        found = {amount for variant in variants if (amount := self._amounts.read_limit(name, variant))}
        if not found:
            return
        step = max(math.gcd(*found), _FINEST_STEP[name])
        self._steps[name] = step
        whole = [_round_up(amount, step) for amount in found]
        bounds = {"min": min(step, *whole), "max": max(whole), "step": step}
        self._bounds[name] = {key: format_setting_amount(name, amount) for key, amount in bounds.items()}
        parts = {part for variant in variants if (part := self._amounts.compute_guarantee(name, variant)) is not None}
        if len(parts) == 1:
            self._bounds[name]["guarantee"] = float(next(iter(parts)))
        elif parts:
            least, most = (float(each) for each in (min(parts), max(parts)))
            self._bounds[name]["guarantee"] = most
            self.notes.append(
                f"{name}: profiles guarantee {least:.2f} to {most:.2f} of the limit; one fraction holds for all here, "
                "the largest."
            )

    def preset(self, variant: ProfileVariant) -> None:
        preset: dict[str, Any] = {"display_name": variant.name[:200]}
        if variant.description:
            preset["description"] = variant.description[:2000]
        if image := self._references.get(self._reference(variant)):
            preset["image"] = image
        for name in AMOUNT_TRAITS:
            amount = self._amounts.read_limit(name, variant)
            if not amount:
                self._unlimited.setdefault(name, []).append(variant.name)
                continue
            rounded = _round_up(amount, self._steps[name])
            if rounded != amount:
                self.notes.append(
                    f"{variant.name}: {name} {format_setting_amount(name, amount)} becomes "
                    f"{format_setting_amount(name, rounded)}."
                )
            preset[name] = format_setting_amount(name, rounded)
        preset |= self._gpus.add_variant(variant)
        self._note_the_rest(variant, has_gpu="gpu" in preset)
        self._presets[make_unique_slug(variant.name, self._presets, fallback="preset")] = preset

    def note_unlimited(self) -> None:
        for name, who in self._unlimited.items():
            more = f" and {len(who) - _NAMED} more" if len(who) > _NAMED else ""
            self.notes.append(
                f"{'; '.join(who[:_NAMED])}{more}: {name} has no limit; every server has one here, which without one "
                "in the preset is what the form selects at first."
            )

    def _reference(self, variant: ProfileVariant) -> str:
        image = variant.overrides.get("image")
        return (image.strip() if isinstance(image, str) else "") or self._default_image

    def _note_the_rest(self, variant: ProfileVariant, *, has_gpu: bool) -> None:
        if has_gpu:
            self.notes += describe_lost_parts(variant)
        left = {
            name for name, value in variant.overrides.items() if name not in _CONVERTED_TRAITS and value is not None
        }
        if left := left | find_unplaced_traits(variant, has_gpu=has_gpu):
            names = ", ".join(sorted(left))
            self.notes.append(f"{variant.name}: {names} cannot differ by choice here; set it on KubeSpawner for all.")


def _round_up(amount: int, step: int) -> int:
    return -(-amount // step) * step
