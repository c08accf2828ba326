"""Splits a ``kubespawner_override`` into the values for which presets have keys, and all other traits.

A preset has keys for the image, for CPU and memory, and for accelerators. All other traits stay in the preset's own
``kubespawner_override``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.request.pod_requirements import GPU_HIDING_ENVIRONMENT
from gpuspawner.core.units.quantity import QuantityError, format_cpu, parse_memory, parse_quantity, round_up_cpu
from gpuspawner.settings.preset_checks import IDENTITY_TRAITS
from gpuspawner.settings.profiles.notes import (
    CONTAINER_GPUS,
    CONTAINER_RESOURCES,
    CPU_ROUNDED,
    HUB_WIDE,
    NEVER_STARTED,
    NO_TRAIT,
    NOT_CONFIGURABLE,
    NoteList,
)
from gpuspawner.settings.value_types import DOMAIN_PATTERN, LABEL_VALUE_PATTERN, NAME_PATTERN

AMOUNT_TRAITS = {"cpu": ("cpu_limit", "cpu_guarantee"), "memory": ("mem_limit", "mem_guarantee")}
"""Key in the settings → name of KubeSpawner's trait for the limit, and name of its trait for the guarantee."""
AMOUNT_KEYS = {trait: key for key, pair in AMOUNT_TRAITS.items() for trait in pair}
RESOURCE_TRAITS = ("extra_resource_limits", "extra_resource_guarantees")
BASE_TRAITS = (
    "image",
    *(trait for pair in AMOUNT_TRAITS.values() for trait in pair),
    *RESOURCE_TRAITS,
    "node_selector",
    "extra_pod_config",
    "environment",
)
"""The conversion of a profile list needs the configured values of these KubeSpawner traits."""

_OTHER_ACCELERATORS = re.compile(
    r"google\.com/tpu|cloud-tpus\.google\.com/.+|aws\.amazon\.com/neuron[a-z]*|habana\.ai/.+|huawei\.com/(Ascend|npu).*"
    r"|cambricon\.com/.+|qualcomm\.com/qaic.*|tenstorrent\.com/.+|furiosa\.ai/.+|rebellions\.ai/.+|graphcore\.ai/.+"
)
_CONTAINER_TRAITS = ("extra_container_config", "extra_containers", "init_containers")
_RESOURCE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_KEY = re.compile(rf"({DOMAIN_PATTERN}/)?{NAME_PATTERN}")
_LABEL_VALUE = re.compile(LABEL_VALUE_PATTERN)
_GENERAL_LABEL = re.compile(
    r"(.*\.)?(topology\.[a-z0-9.-]+|hub\.jupyter\.org)/.*|(beta\.)?kubernetes\.io/(os|arch|hostname)"
    r"|node-role\.kubernetes\.io/.*|failure-domain\.beta\.kubernetes\.io/.*"
)
"""Matches general labels, such as the zone, which do not identify a GPU type: nodes without GPUs have them, too."""
_MOST_UNITS = 1024
"""Largest number of one accelerator in a server: the settings accept no larger ``max_count``."""
_IMAGE = re.compile(r"[^\s{}]{1,1000}")
_BYTES = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


class Amount(NamedTuple):
    """An amount of CPU or memory.

    :param size: in millicores or bytes; 0 = no limit or no guarantee.
    :param written: the amount for the YAML of the settings, such as ``0.5`` or ``4G``.
    """

    size: int
    written: object


UNSET_AMOUNT = Amount(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnerTraits:
    """What the conversion must know about KubeSpawner's class.

    :param names: names of the configurable traits.
    :param aliases: deprecated name of a trait → current name.
    :param attributes: names of all attributes of the class.
    :param find_fault: called with a trait's name and a value; returns why KubeSpawner refuses the value, or "" if it
        accepts the value.
    :param slugify: function that turns a display name into a slug.
    """

    names: Collection[str]
    aliases: Mapping[str, str] = field(default_factory=dict)
    attributes: Collection[str] = ()
    find_fault: Callable[[str, object], str]
    slugify: Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideParts:
    """The parts of a ``kubespawner_override``.

    :param image: reference of the image; None = not set.
    :param amounts: KubeSpawner's trait for a limit or guarantee of CPU or memory → amount, if the trait is set.
    :param accelerators: extended resource → number in ``extra_resource_limits``; 0 removes the accelerator.
    :param requested: extended resource → number in ``extra_resource_guarantees``.
    :param labels: label → value in ``node_selector``; None removes the label from the node selector.
    :param variables: name → value of the variables in ``environment`` with which gpuspawner hides GPUs from servers.
    :param rest: trait → value that stays in the preset's ``kubespawner_override``: all values that are in no part
        above, and the whole ``node_selector``.
    """

    image: str | None = None
    amounts: Mapping[str, Amount] = field(default_factory=dict)
    accelerators: Mapping[str, int] = field(default_factory=dict)
    requested: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)


def tells_gpu(key: object, value: object) -> bool:
    """Return whether a label of a node selector may tell the nodes of one GPU type from other nodes.

    :param key: the label's key.
    :param value: the label's value; None = a ``kubespawner_override`` removes the label.
    """
    return (
        isinstance(key, str)
        and isinstance(value, str)
        and bool(_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value))
        and not _GENERAL_LABEL.fullmatch(key)
    )


def select_own_variables(environment: Any) -> dict[str, object]:
    """Return those environment variables with which gpuspawner itself hides GPUs from servers.

    :param environment: value of KubeSpawner's trait ``environment``.
    """
    variables = environment.items() if isinstance(environment, Mapping) else ()
    return {str(name): value for name, value in variables if name in GPU_HIDING_ENVIRONMENT}


def replaces_selector(pod_config: Any) -> bool:
    """Return whether ``extra_pod_config`` contains a node selector, which replaces the one that other traits set.

    :param pod_config: value of ``extra_pod_config``.
    """
    return isinstance(pod_config, Mapping) and any(pod_config.get(key) for key in ("nodeSelector", "node_selector"))


class _RefusedValueError(ValueError):
    """KubeSpawner or Kubernetes refuses the value of a trait."""


class OverrideSplitter:
    """Splits each ``kubespawner_override`` of a profile list into parts.

    :param traits: names of KubeSpawner's traits, and a function that checks their values.
    :param notes: receives notes about traits that are left out or changed.
    """

    def __init__(self, traits: SpawnerTraits, notes: NoteList) -> None:
        self._traits = traits
        self._notes = notes

    def split(self, overrides: Mapping[str, Any], *, profile: str) -> OverrideParts | None:
        """Return the parts of a ``kubespawner_override``, or None if KubeSpawner or Kubernetes refuses a value in it.

        :param overrides: the ``kubespawner_override``: trait → value.
        :param profile: display names of the profile and, if any, of the option and choice, for notes to the admin.
        """
        known = self._select_known(overrides, profile)
        parts: dict[str, Any] = {"amounts": {}, "labels": {}, "variables": {}, "rest": {}}
        for name, value in known.items():
            try:
                self._require_valid(name, value)
                self._add(parts, name, value=value, profile=profile)
            except (_RefusedValueError, QuantityError) as error:
                self._notes.add(NEVER_STARTED, profile=profile, field=name, detail=str(error))
                return None
        return OverrideParts(**parts)

    def _require_valid(self, name: str, value: object) -> None:
        if fault := self._traits.find_fault(name, value):
            raise _RefusedValueError(fault)

    def _select_known(self, overrides: Mapping[str, Any], profile: str) -> dict[str, Any]:
        known: dict[str, Any] = {}
        for raw_name, value in overrides.items():
            name = self._traits.aliases.get(str(raw_name), str(raw_name))
            if name in IDENTITY_TRAITS:
                self._notes.add(HUB_WIDE, profile=profile, field=name)
            elif name in self._traits.names:
                known[name] = value
            else:
                cause = NOT_CONFIGURABLE if name in self._traits.attributes else NO_TRAIT
                self._notes.add(cause, profile=profile, field=name)
        return known

    def _add(self, parts: dict[str, Any], name: str, *, value: Any, profile: str) -> None:
        if name == "image":
            parts["image"] = _check_image(value)
        elif name in AMOUNT_KEYS:
            parts["amounts"][name] = self._read_amount(AMOUNT_KEYS[name], value, field=name, profile=profile)
        elif name in RESOURCE_TRAITS:
            own, other = split_resources(value)
            parts["accelerators" if name == RESOURCE_TRAITS[0] else "requested"] = own
            if other:
                parts["rest"][name] = other
        else:
            self._add_other(parts, name, value=value, profile=profile)

    def _add_other(self, parts: dict[str, Any], name: str, *, value: Any, profile: str) -> None:
        rest = value
        if name == "environment":
            parts["variables"] = select_own_variables(value)
            rest = {key: each for key, each in value.items() if key not in GPU_HIDING_ENVIRONMENT}
        elif name in _CONTAINER_TRAITS:
            rest, dropped = _drop_container_gpus(value)
            if dropped:
                self._notes.add(CONTAINER_GPUS, profile=profile, field=name, detail=", ".join(sorted(dropped)))
            if name == "extra_container_config" and rest.get("resources"):
                self._notes.add(CONTAINER_RESOURCES, profile=profile, field=f"{name}.resources")
                rest = {key: each for key, each in rest.items() if key != "resources"}
        elif name == "node_selector":
            parts["labels"] = dict(value)
        if rest or not value:
            parts["rest"][name] = rest

    def _read_amount(self, key: str, value: object, *, field: str, profile: str) -> Amount:
        amount = read_amount(key, value)
        if key == "cpu" and amount.size and Fraction(repr(value)) * 1000 != amount.size:
            self._notes.add(CPU_ROUNDED, profile=profile, field=field, detail=f"{value} → {amount.written}")
        return amount


def _drop_container_gpus(value: Any) -> tuple[Any, set[str]]:
    """Remove GPUs from the limits and requests of containers; return the changed copy, and the names of these GPUs.

    :param value: a part of a container, or a list or dict of containers.
    """
    if isinstance(value, list | tuple):
        found = [_drop_container_gpus(each) for each in value]
        return [each for each, _ in found], set().union(*(dropped for _, dropped in found))
    if not isinstance(value, Mapping):
        return value, set()
    kept: dict[Any, Any] = {}
    dropped: set[str] = set()
    for key, each in value.items():
        if key in ("limits", "requests") and isinstance(each, Mapping):
            rest: Any = {name: amount for name, amount in each.items() if not find_vendor(str(name))}
            below = {str(name) for name in each if find_vendor(str(name))}
        else:
            rest, below = _drop_container_gpus(each)
        if rest or not below:
            kept[key] = rest
        dropped |= below
    return kept, dropped


def read_amount(key: str, value: object) -> Amount:
    """Return an amount as KubeSpawner reads it.

    :param key: ``cpu`` or ``memory``.
    :param value: value of KubeSpawner's trait for a limit or guarantee.
    :raises QuantityError: KubeSpawner or the API server refuses the amount.
    """
    if not value:
        return UNSET_AMOUNT
    if key == "cpu":
        millis = round_up_cpu(value)
        text = format_cpu(millis)
        return Amount(millis, float(text) if "." in text else int(text))
    size = _read_bytes(value)
    parse_memory(size)
    try:
        written = value if isinstance(value, str) and parse_memory(value) == size else size
    except QuantityError:
        written = size
    return Amount(size, written) if size else UNSET_AMOUNT


def _read_bytes(value: Any) -> int:
    """Convert a number, or text with a unit, to a number of bytes as JupyterHub's ``ByteSpecification`` does."""
    try:
        return int(float(value[:-1]) * _BYTES[value[-1]]) if isinstance(value, str) else int(value)
    except (KeyError, TypeError, ValueError, OverflowError):
        message = "must be a number of bytes, or a text such as 4G (K, M, G or T, without an i)"
        raise QuantityError(message) from None


def split_resources(value: Any) -> tuple[dict[str, int], dict[str, Any]]:
    """Split a mapping of resources into two mappings: accelerator → number, and any other resource → value.

    If an accelerator's number exceeds :data:`_MOST_UNITS`, the accelerator is in the second mapping.

    :param value: value of ``extra_resource_limits`` or ``extra_resource_guarantees``.
    :raises QuantityError: Kubernetes refuses the number of an accelerator.
    """
    accelerators: dict[str, int] = {}
    other: dict[str, Any] = {}
    for name, amount in value.items() if isinstance(value, Mapping) else ():
        resource = str(name)
        is_named = _RESOURCE_NAME.fullmatch(resource) is not None
        is_accelerator = is_named and (find_vendor(resource) or _OTHER_ACCELERATORS.fullmatch(resource))
        count = _read_count(amount) if is_accelerator else 0
        if is_accelerator and count <= _MOST_UNITS:
            accelerators[resource] = count
        else:
            other[resource] = amount
    return accelerators, other


def _read_count(value: Any) -> int:
    if value is None:
        return 0
    count = parse_quantity(str(value) if isinstance(value, int | float) else value)
    if count.denominator != 1:
        raise QuantityError("must be a whole number")
    return int(count)


def _check_image(value: Any) -> str:
    if not isinstance(value, str) or not _IMAGE.fullmatch(value):
        raise _RefusedValueError("must be the reference of an image")
    return value
