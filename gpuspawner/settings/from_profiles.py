"""From a KubeSpawner ``profile_list`` to settings: what profiles offer together, with a preset for each of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuspawner.core.errors import SettingsError
from gpuspawner.core.node_gpus import slugify, vendor_of
from gpuspawner.core.quantity import QuantityError, format_cpu, memory_option, parse_cpu, parse_memory
from gpuspawner.settings.accelerators import accelerator_table
from gpuspawner.settings.parsing import Settings
from gpuspawner.settings.profile_variants import ImageChoice, Variant, variants_of

_LONGEST_SLUG = 63
_FINEST_STEP = {"cpu": 100, "memory": 256 << 20}
"""Millicores and bytes."""
_READ = {"cpu": parse_cpu, "memory": parse_memory}
_LIMIT = {"cpu": "cpu_limit", "memory": "mem_limit"}
_GUARANTEE = {"cpu": "cpu_guarantee", "memory": "mem_guarantee"}
_UNDERSTOOD = {
    "image",
    *_LIMIT.values(),
    *_GUARANTEE.values(),
    "extra_resource_limits",
    "extra_resource_guarantees",
    "node_selector",
    "tolerations",
    "environment",
    "extra_pod_config",
    "start_timeout",
}
_BY_SLUG = ("images", "gpus", "presets")
_RUNTIME_CLASS = ("runtimeClassName", "runtime_class_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """Settings made of a profile list.

    :param settings: what goes below ``hub.config.GPUSpawner``.
    :param notes: sentences about what could not be carried over, or not exactly.
    """

    settings: Mapping[str, Any]
    notes: tuple[str, ...]


def convert(profile_list: object, *, default_image: str = "") -> Converted:
    """Return settings that offer what a profile list offers.

    What profiles have in common becomes choices of the form: any image with any amounts and any GPU, and images that
    people name by themselves if one profile takes any. Each profile, with each choice in its options, becomes a preset.

    :param profile_list: as ``c.KubeSpawner.profile_list`` or ``singleuser.profileList`` hold it.
    :param default_image: reference of KubeSpawner's own image, which profiles without one have; empty: not known.
    :raises SettingsError: it is no profile list.
    """
    found = variants_of(profile_list)
    work = _Conversion(found.notes, default_image=default_image)
    variants = sorted(found.variants, key=lambda variant: not variant.is_default)
    work.images(variants, found.images)
    for name in ("cpu", "memory"):
        work.amounts(name, variants)
    for variant in variants:
        work.preset(variant)
    settings = _settled(work.settings(custom_images=found.custom_images), work.notes)
    return Converted(settings=settings, notes=tuple(dict.fromkeys(work.notes)))


def _settled(settings: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return settings without what would be refused as such, and note what that was."""
    while True:
        try:
            Settings.parse(settings)
        except SettingsError as error:
            found = [problem for problem in error.problems if _take_out(settings, problem.field)]
            if not found:
                raise
            notes += [f"{problem.field} {problem.message}: left out." for problem in found]
        else:
            return settings


def _take_out(settings: dict[str, Any], path: str) -> bool:
    """Remove what a path names, if it is there: a key of an entry, the entry where it names no key, or a section."""
    section, _, rest = path.partition(".")
    entries = settings.get(section, {})
    slug = max((slug for slug in entries if f"{rest}.".startswith(f"{slug}.")), key=len, default="")
    key = rest[len(slug) + 1 :].partition(".")[0]
    if section in _BY_SLUG and slug in entries:
        removed = entries[slug].pop(key, None) if key in entries[slug] else entries.pop(slug)
    else:
        removed = settings.pop(section, None)
    return removed is not None


class _Conversion:
    """Settings in the making."""

    def __init__(self, notes: Iterable[str], *, default_image: str) -> None:
        self.notes = list(notes)
        self._default_image = default_image
        self._images: dict[str, dict[str, Any]] = {}
        self._references: dict[str, str] = {}
        self._bounds: dict[str, dict[str, Any]] = {}
        self._steps: dict[str, int] = {}
        self._gpus: dict[str, dict[str, Any]] = {}
        self._presets: dict[str, dict[str, Any]] = {}
        self._table = accelerator_table({})

    def settings(self, *, custom_images: bool) -> dict[str, Any]:
        sections = {
            "images": self._images,
            "custom_images": {"allowed": True} if custom_images else {},
            **self._bounds,
            "gpus": self._gpus,
            "presets": self._presets,
        }
        found: dict[str, Any] = {name: section for name, section in sections.items() if section}
        if self._presets:
            # A list of profiles is a closed one: what its author did not offer nobody is to get by converting it.
            found["discover_gpus"] = False
        return found

    def images(self, variants: Iterable[Variant], choices: Iterable[ImageChoice]) -> None:
        """Take in each image once; the name of a choice says more than that of a profile."""
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
            slug = _new_slug(named.get(reference) or short.partition("@")[0], self._images, fallback="image")
            self._images[slug] = {
                "display_name": (named.get(reference) or short or reference)[:200],
                "image": reference,
            }
            self._references[reference] = slug

    def amounts(self, name: str, variants: Iterable[Variant]) -> None:
        """Find bounds that hold what all variants have, in steps that reach each of it."""
        found = {amount for variant in variants if (amount := self._amount(name, variant))}
        if not found:
            return
        step = max(math.gcd(*found), _FINEST_STEP[name])
        self._steps[name] = step
        whole = [_up(amount, step) for amount in found]
        show = _shown(name)
        self._bounds[name] = {"min": show(min(step, *whole)), "max": show(max(whole)), "step": show(step)}
        parts = {part for variant in variants if (part := self._guaranteed(name, variant)) is not None}
        if len(parts) == 1:
            self._bounds[name]["guarantee"] = float(next(iter(parts)))
        elif parts:
            least, most = (float(each) for each in (min(parts), max(parts)))
            self._bounds[name]["guarantee"] = most
            self.notes.append(
                f"{name}: profiles guarantee {least:.2f} to {most:.2f} of the limit; one fraction holds for all here, "
                "the largest."
            )

    def preset(self, variant: Variant) -> None:
        """Make a preset of a variant, with the GPU type that it takes."""
        preset: dict[str, Any] = {"display_name": variant.name[:200]}
        if variant.description:
            preset["description"] = variant.description[:2000]
        if image := self._references.get(self._reference(variant)):
            preset["image"] = image
        for name, step in self._steps.items():
            amount = self._amount(name, variant)
            if not amount:
                continue
            rounded = _up(amount, step)
            if rounded != amount:
                self.notes.append(f"{variant.name}: {name} {_shown(name)(amount)} becomes {_shown(name)(rounded)}.")
            preset[name] = _shown(name)(rounded)
        preset |= self._gpu(variant)
        self._note_the_rest(variant, has_gpu="gpu" in preset)
        self._presets[_new_slug(variant.name, self._presets, fallback="preset")] = preset

    def _reference(self, variant: Variant) -> str:
        image = variant.overrides.get("image")
        return (image.strip() if isinstance(image, str) else "") or self._default_image

    def _amount(self, name: str, variant: Variant) -> int | None:
        """Return the limit of a variant, else what it is guaranteed."""
        for trait in (_LIMIT[name], _GUARANTEE[name]):
            value = variant.overrides.get(trait)
            if value is None:
                continue
            try:
                return _READ[name](value) or None
            except QuantityError:
                self.notes.append(f"{variant.name}: {trait} is no plain amount, which is left out.")
        return None

    def _guaranteed(self, name: str, variant: Variant) -> Fraction | None:
        """Return the guaranteed part of the limit, None where one of the two is missing."""
        try:
            limit, least = (_READ[name](variant.overrides.get(trait[name])) for trait in (_LIMIT, _GUARANTEE))
        except QuantityError:
            return None
        return Fraction(least, limit) if 0 < least <= limit else None

    def _gpu(self, variant: Variant) -> dict[str, Any]:
        """Return the GPU part of a preset."""
        limits = _mapping(variant.overrides.get("extra_resource_limits"))
        asked = {name: count for name, count in limits.items() if vendor_of(str(name)) and _count(count)}
        if not asked:
            return {}
        resource, *others = asked
        if others:
            self.notes.append(f"{variant.name}: asks for several GPU resources; only {resource} is kept.")
        count = _count(asked[resource])
        slug = self._gpu_slug(resource, variant)
        entry = self._gpus[slug]
        entry["max_count"] = max(count, entry.get("max_count", 1))
        return {"gpu": slug, "gpu_count": count}

    def _gpu_slug(self, resource: str, variant: Variant) -> str:
        """Return the slug of the GPU type of a variant, which is described if it is a new one."""
        overrides = variant.overrides
        match = {str(key): [str(value)] for key, value in _mapping(overrides.get("node_selector")).items()}
        for slug, entry in self._gpus.items():
            if (entry["resource"], entry.get("match", {})) == (resource, match):
                return slug
        models = [self._table.find(key, value) for key, (value,) in match.items()]
        known = next((each.accelerator for each in models if each is not None), None)
        if known is not None and resource.endswith("/gpu"):
            slug, name = known.slug, known.name
        else:
            slug, name = resource.rpartition("/")[2], " ".join([resource, *(value for (value,) in match.values())])
        slug = _new_slug(slug, self._gpus, fallback="gpu")
        entry = {"display_name": name[:200], "resource": resource}
        if match:
            entry["match"] = match
        else:
            self.notes.append(f"{variant.name}: names no node, so its GPU type {slug} is any node with {resource}.")
        if tolerations := _tolerations(overrides.get("tolerations")):
            entry["tolerations"] = tolerations
        environment = {str(key): str(value) for key, value in _mapping(overrides.get("environment")).items()}
        if plain := {key: value for key, value in environment.items() if "{" not in value}:
            entry["environment"] = plain
        pod = _mapping(overrides.get("extra_pod_config"))
        if runtime := next((str(pod[key]) for key in _RUNTIME_CLASS if key in pod), ""):
            entry["runtime_class"] = runtime
        timeout = overrides.get("start_timeout")
        if isinstance(timeout, int) and not isinstance(timeout, bool) and timeout > 0:
            entry["start_timeout"] = timeout
        self._gpus[slug] = entry
        return slug

    def _note_the_rest(self, variant: Variant, *, has_gpu: bool) -> None:
        """Say what of a variant is neither in its preset nor in its GPU type."""
        left = {name for name, value in variant.overrides.items() if name not in _UNDERSTOOD and value is not None}
        if not has_gpu:
            of_gpus = {"node_selector", "tolerations", "environment", "start_timeout"}
            left |= {name for name in of_gpus if variant.overrides.get(name)}
        if set(_mapping(variant.overrides.get("extra_pod_config"))) - set(_RUNTIME_CLASS):
            left.add("extra_pod_config")
        if left:
            names = ", ".join(sorted(left))
            self.notes.append(f"{variant.name}: {names} cannot differ by choice here; set it on KubeSpawner for all.")


def _tolerations(value: object) -> list[dict[str, Any]]:
    """Return tolerations as settings hold them; KubeSpawner also takes a dict of them."""
    entries = list(value.values()) if isinstance(value, Mapping) else value
    if not isinstance(entries, list | tuple):
        return []
    keys = ("key", "operator", "value", "effect")
    return [{key: str(each[key]) for key in keys if each.get(key)} for each in entries if isinstance(each, Mapping)]


def _count(value: object) -> int:
    """Return a number of devices, 0 for what is none."""
    text = str(value).strip()
    return int(text) if len(text) <= 4 and text.isascii() and text.isdigit() else 0  # noqa: PLR2004 - thousands


def _new_slug(text: str, taken: Iterable[str], *, fallback: str) -> str:
    """Return a slug for a text that none of those taken is."""
    used = set(taken)
    base = slugify(text)[: _LONGEST_SLUG - 5].strip("-.") or fallback
    names = (base, *(f"{base}-{number}" for number in range(2, len(used) + 3)))
    return next(name for name in names if name not in used)


def _up(amount: int, step: int) -> int:
    return -(-amount // step) * step


def _shown(name: str) -> Any:
    return (lambda millis: _number(format_cpu(millis))) if name == "cpu" else memory_option


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
