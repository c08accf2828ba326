"""Defines the keys of the admin's settings, and what of the catalog they describe.

:mod:`gpuspawner.settings.checks` checks keys against each other; only checked settings make a catalog. The hub later
adds what depends on the cluster's nodes, such as GPU types from node labels.

Helm merges the settings from several values files. A later file disables an image, GPU type or preset of an earlier
file with ``enabled: false``, or removes it with null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeVar

from pydantic import TypeAdapter

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.model import Bounds, CustomImages, GPUType, Image, Preset, UnitKind
from gpuspawner.core.catalog.policy_model import ANY, Access, AccessKey, GPUPool, Policy, Rule, normalize_group
from gpuspawner.core.catalog.queue import KueueQueue
from gpuspawner.core.catalog.software import index_images
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog, complete_type
from gpuspawner.core.request.field_definitions import (
    AMOUNT_FIELDS,
    CLOSED_CHOICES,
    CPU,
    MEMORY,
    RUN_TIME,
    SHARED_MEMORY,
    Priority,
)
from gpuspawner.core.request.fields import AmountField
from gpuspawner.core.value_types import (
    CPUs,
    Entries,
    FromSettings,
    Memory,
    OneOf,
    RestrictedEntry,
    RunTime,
    Slug,
    UnitFraction,
    select_enabled,
    setting,
)

RuleT = TypeVar("RuleT", bound=Rule)

_MIN, _MAX = "Smallest amount that users may choose.", "Largest amount that users may choose."
_STEP, _DEFAULT = "Amounts differ from min by multiples of it.", "Selected at first."


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountSetting(FromSettings):
    """Base class of CPU and memory settings; says which fraction of a pod's limit is the pod's request."""

    guarantee: Annotated[UnitFraction | None, setting("Fraction of the limit that the pod requests.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CPUSetting(AmountSetting):
    """Bounds of the CPU limit."""

    min: Annotated[CPUs, setting(_MIN)] = CPU.step
    max: Annotated[CPUs, setting(_MAX)]
    step: Annotated[CPUs, setting(_STEP)] = CPU.step
    default: Annotated[CPUs | None, setting(_DEFAULT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySetting(AmountSetting):
    """Bounds of the memory limit."""

    min: Annotated[Memory, setting(_MIN)] = MEMORY.step
    max: Annotated[Memory, setting(_MAX)]
    step: Annotated[Memory, setting(_STEP)] = MEMORY.step
    default: Annotated[Memory | None, setting(_DEFAULT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeSetting(FromSettings):
    """Bounds of the run time after which a server is stopped."""

    min: Annotated[RunTime, setting(_MIN)] = RUN_TIME.step
    max: Annotated[RunTime, setting(_MAX)]
    step: Annotated[RunTime, setting(_STEP)] = RUN_TIME.step
    default: Annotated[RunTime | None, setting(_DEFAULT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemorySetting(FromSettings):
    """Bounds of the size of /dev/shm; users may leave the size open."""

    min: Annotated[Memory, setting(_MIN)] = SHARED_MEMORY.step
    max: Annotated[Memory, setting(_MAX)]
    step: Annotated[Memory, setting(_STEP)] = SHARED_MEMORY.step


BoundsSetting = CPUSetting | MemorySetting | RunTimeSetting | SharedMemorySetting


def build_bounds(amount_field: AmountField, setting: BoundsSetting | None) -> Bounds | None:
    """Return the bounds of an amount in whole base units (millicores, bytes, seconds), or None if they are not set.

    :param amount_field: the form field of the amount. Its default and guarantee apply if the setting has none.
    """
    if setting is None:
        return None
    own = setting.guarantee if isinstance(setting, AmountSetting) else None
    chosen = None if isinstance(setting, SharedMemorySetting) else setting.default
    if chosen is None:
        default = setting.min if amount_field.default is None else amount_field.default
        inside = min(max(default, setting.min), setting.max)
        chosen = inside - (inside - setting.min) % setting.step
    return Bounds(
        min=setting.min,
        max=setting.max,
        step=setting.step,
        default=chosen,
        guarantee=amount_field.guarantee if own is None else own,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetEntry(RestrictedEntry):
    """A named bundle of values for fields of the form; a field that it leaves out has its default."""

    image: Annotated[Slug | None, setting("Slug of an image.")] = None
    cpu: Annotated[CPUs | None, setting("CPU limit.")] = None
    memory: Annotated[Memory | None, setting("Memory limit.")] = None
    gpu: Annotated[Slug | None, setting("Slug of a GPU type; empty: none.")] = None
    gpu_count: Annotated[int | None, setting("Number of GPUs.", ge=0)] = None
    run_time: Annotated[RunTime | None, setting("How long the server runs at most.")] = None
    shared_memory: Annotated[Memory | None, setting("Size of /dev/shm.")] = None
    priority: Annotated[Slug | None, setting("Slug of a priority.")] = None

    def build_preset(self) -> Preset:
        """Return the preset with the values of its fields as user options."""
        options: dict[str, object] = {} if self.image is None else {"image": self.image}
        for amount_field in AMOUNT_FIELDS:
            amount = getattr(self, amount_field.name)
            if amount is not None:
                options[amount_field.name] = amount_field.format_option(amount)
        if self.gpu is not None:
            options["gpu"] = self.gpu or None
        if self.gpu_count is not None:
            options["gpu_count"] = self.gpu_count
        chosen = {choice_field.name: getattr(self, choice_field.name) for choice_field in CLOSED_CHOICES}
        options |= {name: choice for name, choice in chosen.items() if choice is not None}
        return Preset(slug=self.slug, display_name=self.display_name, description=self.description, options=options)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsModel(FromSettings):
    """The settings below ``hub.config.GPUSpawner`` that say what users may choose."""

    images: Annotated[
        Entries[Image], setting("Images users may pick, by slug. Omitted: KubeSpawner's image is the only one.")
    ] = field(default_factory=dict)
    custom_images: Annotated[CustomImages, setting("Whether users may also enter an image reference.")] = field(
        default_factory=CustomImages
    )
    cpu: Annotated[
        CPUSetting | None, setting("Bounds of the CPU limit. Omitted: KubeSpawner's, up to the largest node.")
    ] = None
    memory: Annotated[
        MemorySetting | None, setting("Bounds of the memory limit. Omitted: KubeSpawner's, up to the largest node.")
    ] = None
    run_time: Annotated[
        RunTimeSetting | None, setting("Bounds of the run time. Omitted: servers have no time limit.")
    ] = None
    shared_memory: Annotated[
        SharedMemorySetting | None, setting("Bounds of the size of /dev/shm. Omitted: users cannot choose it.")
    ] = None
    priorities: Annotated[
        Entries[Priority], setting("Priorities that users may pick, by slug; the first one is the default.")
    ] = field(default_factory=dict)
    gpus: Annotated[
        Entries[GPUType], setting("GPU types users may pick, by slug; before those found by node labels.")
    ] = field(default_factory=dict)
    presets: Annotated[Entries[PresetEntry], setting("Named bundles of values for the fields, by slug.")] = field(
        default_factory=dict
    )
    policy: Annotated[
        Policy | None, setting("Who may have what. Omitted: every user may have everything on offer.")
    ] = None
    pools: Annotated[Entries[GPUPool], setting("GPUs that the members of some groups share, by slug.")] = field(
        default_factory=dict
    )
    accelerators: Annotated[
        dict[str, Accelerator | None],
        setting("Changes to the built-in table of GPU models, by model; null removes one."),
    ] = field(default_factory=dict)
    discover_gpus: Annotated[bool, setting("Whether gpuspawner also finds GPU types by node labels.")] = True
    new_nodes: Annotated[
        str,
        OneOf("possible", "none"),
        setting(
            "Whether nodes may be added that neither scale_up nor a NodePool of Karpenter describes. With none,"
            " the hub refuses a server that no node could take."
        ),
    ] = "possible"
    queue: Annotated[
        KueueQueue | None, setting("A queue of Kueue that servers with a GPU go through. Omitted: none.")
    ] = None

    def build_catalog(self, table: AcceleratorTable) -> ConfiguredCatalog:
        """Return the part of the catalog that these settings define.

        :param table: known GPU models, which provide the names and memory that GPU types omit.
        """
        may_add = self.new_nodes == "possible"
        types = {
            slug: complete_type(gpu, table=table, may_add=may_add or not gpu.enabled) for slug, gpu in self.gpus.items()
        }
        enabled = select_enabled(types)
        gpus = {slug: gpu for slug, gpu in enabled.items() if not gpu.is_union}
        images = select_enabled(self.images)
        custom_images = replace(self.custom_images, listed=index_images(images.values()))
        choices = {each.name: select_enabled(getattr(self, each.section)) for each in CLOSED_CHOICES}
        return ConfiguredCatalog(
            images=images,
            custom_images=custom_images if custom_images.allowed else None,
            cpu=build_bounds(CPU, self.cpu),
            memory=build_bounds(MEMORY, self.memory),
            run_time=build_bounds(RUN_TIME, self.run_time),
            shared_memory=build_bounds(SHARED_MEMORY, self.shared_memory),
            choices={name: entries for name, entries in choices.items() if entries},
            gpus=gpus,
            uncounted=frozenset(
                slug
                for slug, gpu in enabled.items()
                if "max_count" not in gpu.given and (gpu.is_union or gpu.unit is not UnitKind.SHARED)
            ),
            guessed=frozenset(slug for slug, gpu in gpus.items() if "unit" not in gpu.given),
            unions={slug: gpu for slug, gpu in enabled.items() if gpu.is_union},
            hidden=frozenset(slug for slug, gpu in types.items() if not gpu.enabled),
            hidden_gpus=tuple(gpu for gpu in types.values() if not gpu.enabled and gpu.resource and not gpu.is_union),
            presets={slug: entry.build_preset() for slug, entry in select_enabled(self.presets).items()},
            discover=self.discover_gpus,
            policy=self.build_policy(),
            queue=self.queue,
            new_nodes=may_add,
        )

    def build_policy(self) -> Policy | None:
        """Return the policy, or None without a section ``policy``, a pool, or anything that only some may choose."""
        pools, restricted = select_enabled(self.pools), self._list_restricted()
        if self.policy is None and not pools and not restricted:
            return None
        policy = self.policy or Policy()
        rules = {name: rule for name, rule in policy.groups.items() if rule.enabled}
        lists = (*(pool.groups for pool in pools.values()), *(entry.allowed_groups for entry in restricted.values()))
        users = {name: rule for name, rule in policy.users.items() if rule.enabled}
        named = [
            *(rule.gpus or () for rule in (policy.default, *rules.values(), *users.values())),
            *(pool.gpus for pool in pools.values()),
            [slug for kind, slug in restricted if kind == "gpu"],
        ]
        return replace(
            policy,
            default=_complete_rule(policy.default),
            groups={normalize_group(name): _complete_rule(rule) for name, rule in rules.items()},
            users={name: _complete_rule(rule) for name, rule in users.items()},
            pools={
                slug: replace(pool, groups=tuple(normalize_group(group) for group in pool.groups))
                for slug, pool in pools.items()
            },
            access={
                key: Access(
                    groups=frozenset(normalize_group(group) for group in entry.allowed_groups or ()),
                    users=frozenset(entry.allowed_users or ()),
                )
                for key, entry in restricted.items()
            },
            group_names=frozenset(rules).union(*filter(None, lists)),
            gpu_names=frozenset().union(*named) - {ANY},
        )

    def _list_restricted(self) -> dict[AccessKey, RestrictedEntry]:
        """Return each image, GPU type and preset that only some users may choose."""
        sections: dict[str, Mapping[str, RestrictedEntry]] = {
            "image": self.images,
            "gpu": self.gpus,
            "preset": self.presets,
        }
        return {
            (name, slug): entry
            for name, entries in sections.items()
            for slug, entry in entries.items()
            if entry.enabled and (entry.allowed_groups, entry.allowed_users) != (None, None)
        }


def _complete_rule(rule: RuleT) -> RuleT:
    """Return a rule that forbids custom images, if it lists images instead of ``*`` and has no ``custom_images``.

    A custom image is one that the user names by its reference.
    """
    lists_images = rule.images is not None and ANY not in rule.images
    return replace(rule, custom_images=False) if rule.custom_images is None and lists_images else rule


SETTINGS = TypeAdapter(SettingsModel)
"""Reads the settings, and writes their JSON Schema."""
FORM_SECTIONS = (
    *("images", "custom_images", "cpu", "memory", "run_time", "shared_memory", "presets"),
    *(choice.section for choice in CLOSED_CHOICES),
)
"""Settings that describe fields of the form, or presets for them. ``gpus`` may also name the GPUs of profiles."""
SLUG_SECTIONS = ("images", *(each.section for each in CLOSED_CHOICES), "gpus", "presets", "pools", "accelerators")
"""Settings that are mappings with slugs as keys."""
