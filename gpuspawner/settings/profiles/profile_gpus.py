"""Converts the GPU requests, node selectors and tolerations of KubeSpawner profiles to GPU types in the settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuspawner.core.catalog.node_labels import find_vendor, slugify
from gpuspawner.settings.gpu import build_accelerator_table
from gpuspawner.settings.profiles.variants import ProfileVariant, ensure_mapping

_LONGEST_SLUG = 63
_LONGEST_NAME = 200
_RUNTIME_CLASS = ("runtimeClassName", "runtime_class_name")
_TOLERATION = ("key", "operator", "value", "effect")
_RESOURCES = ("extra_resource_limits", "extra_resource_guarantees")
_OF_TYPES = ("node_selector", "tolerations", "environment", "start_timeout")
"""KubeSpawner's traits that a GPU type of the settings can set, but a preset cannot."""


class ProfileGPUs:
    """Collects the GPU types of a profile list that is converted into settings.

    A variant is one combination of choices in a profile's options. Variants share a GPU type if they have the same GPU
    resource, node selector, tolerations, environment, RuntimeClass and start timeout.

    :param notes: list that receives sentences for the admin about parts of the profiles that the settings leave out.
    :ivar types: the setting ``gpus``.
    """

    def __init__(self, notes: list[str]) -> None:
        self.types: dict[str, dict[str, Any]] = {}
        self._seen: list[tuple[str, dict[str, Any]]] = []
        self._notes = notes
        self._table = build_accelerator_table({})

    def add_variant(self, variant: ProfileVariant) -> dict[str, Any]:
        """Return the keys ``gpu`` and ``gpu_count`` of a variant's preset, or an empty dict if the variant has no GPU.

        If no GPU type in ``types`` fits the variant, add a GPU type to ``types``.

        :param variant: one way to start a server.
        """
        limits = ensure_mapping(variant.overrides.get("extra_resource_limits"))
        asked = {
            name: count for name, value in limits.items() if find_vendor(str(name)) and (count := _parse_count(value))
        }
        if not asked:
            return {}
        resource, *others = asked
        if others:
            self._notes.append(f"{variant.name}: asks for several GPU resources; only {resource} is kept.")
        facts = _collect_type_facts(resource, variant)
        slug = next((slug for slug, known in self._seen if known == facts), None) or self._add(facts, variant)
        entry = self.types[slug]
        entry["max_count"] = max(asked[resource], entry.get("max_count", 1))
        return {"gpu": slug, "gpu_count": asked[resource]}

    def _add(self, facts: dict[str, Any], variant: ProfileVariant) -> str:
        resource, match = facts["resource"], facts.get("match", {})
        models = [self._table.find(key, value) for key, (value,) in match.items()]
        known = next((each.accelerator for each in models if each is not None), None)
        if known is not None and resource.endswith("/gpu"):
            base, name = known.slug, known.name
        else:
            base, name = resource.rpartition("/")[2], " ".join([resource, *(value for (value,) in match.values())])
        if any(other["display_name"] == name for other in self.types.values()):
            name = f"{name} ({variant.name})"  # Two GPU types of one model must not have the same name.
        slug = make_unique_slug(base, self.types, fallback="gpu")
        if not match:
            self._notes.append(f"{variant.name}: names no node, so its GPU type {slug} is any node with {resource}.")
        self.types[slug] = {"display_name": name[:_LONGEST_NAME], **facts}
        self._seen.append((slug, facts))
        return slug


def describe_lost_parts(variant: ProfileVariant) -> Iterator[str]:
    """Yield a sentence for the admin about each part of a variant that a GPU type cannot contain.

    :param variant: one way to start a server, with a GPU.
    """
    overrides = variant.overrides
    environment = ensure_mapping(overrides.get("environment"))
    kept = _filter_environment(environment)
    if lost := sorted(str(name) for name, value in environment.items() if value is not None and str(name) not in kept):
        reason = "with braces, or no text, which here is the same for everybody"
        yield f"{variant.name}: environment {', '.join(lost)} left out: {reason}; set it on KubeSpawner for all."
    if any(not isinstance(each, Mapping) or set(each) - set(_TOLERATION) for each in _list_tolerations(overrides)):
        yield f"{variant.name}: of tolerations only {', '.join(_TOLERATION)} are kept."
    readable = {
        "node_selector": lambda value: isinstance(value, Mapping),
        "environment": lambda value: isinstance(value, Mapping),
        "tolerations": lambda value: isinstance(value, Mapping | list | tuple),
        "start_timeout": _parse_timeout,
    }
    for name, reads in readable.items():
        if (value := overrides.get(name)) and not reads(value):
            yield f"{variant.name}: {name} is none that could be read, which is left out."


def find_unplaced_traits(variant: ProfileVariant, *, has_gpu: bool) -> set[str]:
    """Return the names of a variant's KubeSpawner traits that neither its preset nor its GPU type can set.

    A resource that neither can set is named in the form ``extra_resource_limits of example.com/fpga``.

    :param variant: one way to start a server.
    :param has_gpu: whether the variant has a GPU type.
    """
    overrides = variant.overrides
    left = set() if has_gpu else {name for name in _OF_TYPES if overrides.get(name)}
    pod = overrides.get("extra_pod_config")
    if pod and (not has_gpu or not isinstance(pod, Mapping) or set(pod) - set(_RUNTIME_CLASS)):
        left.add("extra_pod_config")
    for trait in _RESOURCES:
        resources = overrides.get(trait)
        if resources and not isinstance(resources, Mapping):
            left.add(trait)
        for name, value in ensure_mapping(resources).items():
            if value is not None and str(value).strip() != "0" and not (find_vendor(str(name)) and _parse_count(value)):
                left.add(f"{trait} of {name}")
    return left


def _collect_type_facts(resource: str, variant: ProfileVariant) -> dict[str, Any]:
    overrides = variant.overrides
    pod = ensure_mapping(overrides.get("extra_pod_config"))
    selector = ensure_mapping(overrides.get("node_selector"))
    found = {
        "match": {str(key): [_format_text(value)] for key, value in selector.items() if value is not None},
        "tolerations": [
            {key: str(each[key]) for key in _TOLERATION if each.get(key)}
            for each in _list_tolerations(overrides)
            if isinstance(each, Mapping)
        ],
        "environment": _filter_environment(ensure_mapping(overrides.get("environment"))),
        "runtime_class": next((str(pod[key]) for key in _RUNTIME_CLASS if pod.get(key)), ""),
        "start_timeout": _parse_timeout(overrides.get("start_timeout")),
    }
    return {"resource": resource, **{key: value for key, value in found.items() if value}}


def _list_tolerations(overrides: Mapping[str, Any]) -> list[Any]:
    """Return a variant's tolerations as a list; KubeSpawner also accepts a dict."""
    value = overrides.get("tolerations")
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _filter_environment(value: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables that are equal for all users.

    The result leaves out values with braces, which KubeSpawner may expand as templates, and values that are no text or
    number.
    """
    plain = {str(key): _format_text(each) for key, each in value.items() if isinstance(each, str | int | float)}
    return {key: text for key, text in plain.items() if "{" not in text and "}" not in text}


def _parse_timeout(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _format_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_count(value: object) -> int:
    text = str(value).strip()
    return int(text) if len(text) <= 4 and text.isascii() and text.isdigit() else 0  # noqa: PLR2004 - thousands


def make_unique_slug(text: str, taken: Iterable[str], *, fallback: str) -> str:
    """Return a slug for a text, different from those in use.

    :param text: any text, such as a display name.
    :param taken: slugs in use.
    :param fallback: slug for a text without usable characters.
    """
    used = set(taken)
    base = slugify(text)[: _LONGEST_SLUG - 5].strip("-.") or fallback
    names = (base, *(f"{base}-{number}" for number in range(2, len(used) + 3)))
    return next(name for name in names if name not in used)
