"""Warns about valid settings that are probably mistakes.

The mistakes are pointless limits, unknown GPU types, misspelled names, and presets with unexpected effects, such as a
preset that no user may start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial

from gpuspawner.core.catalog.accelerators import (
    AMD_PRODUCT,
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    INTEL_PRODUCT,
    KARPENTER_PREFIXES,
    strip_product_suffix,
)
from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE, parse_reference
from gpuspawner.core.catalog.model import Catalog, GPUType, Preset, TraitValues
from gpuspawner.core.catalog.policy_model import ANY, Person, Policy, Rule
from gpuspawner.core.catalog.software import PLATFORM_LABELS
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog, assemble_catalog
from gpuspawner.core.discovery.discover import SPOT_LABELS
from gpuspawner.core.errors import PolicyError, Problem, SelectionError
from gpuspawner.core.json_access import as_dict, as_dicts
from gpuspawner.core.policy.admission import UnreadClusterError, admit
from gpuspawner.core.policy.allowance import Allowance, resolve_allowance
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.request.field_definitions import CUSTOM_IMAGE
from gpuspawner.core.request.presets import PRESET_CHOICES
from gpuspawner.core.text.wording import format_list, quote, sanitize_name, suggest_name
from gpuspawner.core.units.duration import format_duration
from gpuspawner.core.units.quantity import TooPreciseError, format_cpu, format_memory, parse_cpu, round_up_cpu
from gpuspawner.core.value_types import LABEL_VALUE_PATTERN
from gpuspawner.settings import Settings
from gpuspawner.settings.accelerators import load_builtin_accelerators
from gpuspawner.settings.convert import sort_entries
from gpuspawner.settings.models import PresetEntry, PresetValues, SettingsModel
from gpuspawner.settings.preset_checks import list_overriding_entries


def find_pointless_limits(configured: ConfiguredCatalog) -> Iterator[Problem]:
    """Yield a problem for each step that leaves a single amount, and for more shared memory than there is memory.

    The problems' paths start below ``hub.config.GPUSpawner``.

    :param configured: the catalog that the settings describe.
    """
    memory, shared_memory = configured.memory, configured.shared_memory
    for path, bounds, show in (
        ("cpu", configured.cpu, format_cpu),
        ("memory", memory, format_memory),
        ("run_time", configured.run_time, format_duration),
        ("shared_memory", shared_memory, format_memory),
    ):
        if bounds is not None and bounds.min < bounds.max < bounds.min + bounds.step:
            message = (
                f"is more than there is between {path}.min and {path}.max: nothing but {show(bounds.min)} can be picked"
            )
            yield Problem(field=f"{path}.step", code="too_large", message=message)
    if memory is not None and shared_memory is not None and shared_memory.max > memory.max:
        message = f"is more than memory.max, {format_memory(memory.max)}: {format_memory(shared_memory.max)}"
        yield Problem(field="shared_memory.max", code="too_large", message=message)


_UNNAMED_TYPE_PREFIXES = ("nvidia-gpu", "amd-gpu", "intel-gpu", "nvidia-mig-")
"""Prefixes of the slugs that gpuspawner gives to GPU types of nodes whose labels don't name the GPU model."""


def find_unknown_slugs(model: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each slug that names neither a GPU type of the settings nor one that nodes may have.

    :param model: the settings as written.
    """
    known = {*model.gpus, ANY}
    models = {*load_builtin_accelerators(), *model.accelerators}
    for field, slug in _list_named_slugs(model):
        if slug not in known and not _may_be_found(slug, models):
            message = (
                f"there is no GPU type {quote(slug)} in the settings, nor a model of which nodes could bring it."
                f"{suggest_name(slug, [*model.gpus, *models])}"
            )
            yield Problem(field=field, code="unknown_slug", message=message)


def _may_be_found(slug: str, models: set[str]) -> bool:
    """Return whether gpuspawner may derive a GPU type with the slug from node labels.

    If the labels name the GPU model, the slug is that of the model, perhaps with a suffix for MIG or sharing.
    Otherwise, the slug begins with one of :data:`_UNNAMED_TYPE_PREFIXES`.
    """
    return slug.startswith(_UNNAMED_TYPE_PREFIXES) or any(
        slug == model or slug.startswith(f"{model}-") for model in models
    )


def _list_named_slugs(model: SettingsModel) -> Iterator[tuple[str, str]]:
    for slug, entry in model.gpus.items():
        yield from ((f"gpus.{slug}.any_of.{index}", member) for index, member in enumerate(entry.any_of))
    yield from ((f"{path}.gpu", values.gpu) for path, values in _list_preset_values(model) if values.gpu)
    if model.queue is not None:
        yield from ((f"queue.gpus.{index}", slug) for index, slug in enumerate(model.queue.gpus))
    for slug, pool in model.pools.items():
        if pool.enabled:
            yield from ((f"pools.{slug}.gpus.{index}", each) for index, each in enumerate(pool.gpus))
    if model.policy is not None:
        yield from _list_rule_slugs("policy.default", model.policy.default)
        for section, rules in (("groups", model.policy.groups), ("users", model.policy.users)):
            for name, rule in rules.items():
                yield from _list_rule_slugs(f"policy.{section}.{sanitize_name(name)}", rule)


def _list_rule_slugs(path: str, rule: Rule) -> Iterator[tuple[str, str]]:
    yield from ((f"{path}.gpus.{sanitize_name(slug)}", slug) for slug in rule.gpus or ())


_NEAR = 0.85
KNOWN_LABELS = frozenset(
    {
        *(GFD_PRODUCT, GKE_ACCELERATOR, AMD_PRODUCT, INTEL_PRODUCT),
        *SPOT_LABELS,
        *PLATFORM_LABELS,
        *(f"{prefix}instance-{what}" for prefix in KARPENTER_PREFIXES for what in ("family", "category", "size")),
        *(f"{prefix}instance-gpu-{what}" for prefix in KARPENTER_PREFIXES for what in ("name", "count", "memory")),
        *(f"nvidia.com/gpu.{what}" for what in ("count", "family", "memory", "present", "replicas")),
        *("nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.strategy", "nvidia.com/mig.config"),
        *(
            f"cloud.google.com/gke-{what}"
            for what in ("gpu-sharing-strategy", "gpu-partition-size", "nodepool", "tpu-accelerator", "tpu-topology")
        ),
        "cloud.google.com/gke-max-shared-clients-per-gpu",
        *("kubernetes.azure.com/accelerator", "kubernetes.azure.com/agentpool", "k8s.amazonaws.com/accelerator"),
        *("kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname", "node.kubernetes.io/instance-type"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "eks.amazonaws.com/nodegroup"),
        *("karpenter.sh/nodepool", "hub.jupyter.org/node-purpose", "amd.com/gpu.compute-memory-partition"),
    }
)
"""Labels that vendors and clouds set on GPU nodes. The settings probably misspell a label that only resembles one."""
_TAINTS = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "kubernetes.azure.com/scalesetpriority"}
    | {"kubernetes.io/arch", "hub.jupyter.org/dedicated", "hub.jupyter.org_dedicated", "sku"}
)
_RUNTIME_CLASSES = ("nvidia", "nvidia-cdi", "nvidia-legacy")
_ARCHITECTURES = ("amd64", "arm64", "arm", "ppc64le", "riscv64", "s390x", "386")


def find_misspelled_names(model: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each probably misspelled label, model, taint, runtime class, image reference or architecture.

    :param model: the settings as written.
    """
    for slug, gpu in model.gpus.items():
        if gpu.enabled:
            yield from _check_gpu_names(f"gpus.{slug}", gpu)
    for slug, image in model.images.items():
        if image.enabled and image.image and parse_reference(image.image) is None:
            message = f"is no reference of an image that a node could pull, such as {EXAMPLE_REFERENCE}"
            yield Problem(field=f"images.{slug}.image", code="doubtful", message=message)
        for index, architecture in enumerate(image.architectures):
            if architecture not in _ARCHITECTURES:
                message = (
                    f"is no architecture that nodes have: they are called {', '.join(_ARCHITECTURES[:2])} and so on"
                )
                yield Problem(field=f"images.{slug}.architectures.{index}", code="doubtful", message=message)


def _check_gpu_names(path: str, gpu: GPUType) -> Iterator[Problem]:
    for key, labels in gpu.match.items():
        yield from _check_name(f"{path}.match.{key}", key, known=KNOWN_LABELS)
        for index, value in enumerate(labels):
            product = strip_product_suffix(value) if key == GFD_PRODUCT else value
            field = f"{path}.match.{key}.{index}" if len(labels) > 1 else f"{path}.match.{key}"
            yield from _check_name(field, product, known=_list_model_values(key))
    for index, toleration in enumerate(gpu.tolerations):
        yield from _check_name(f"{path}.tolerations.{index}.key", toleration.key, known=_TAINTS | {gpu.resource})
    if gpu.runtime_class:
        yield from _check_name(f"{path}.runtime_class", gpu.runtime_class, known=_RUNTIME_CLASSES)


def _check_name(field: str, name: str, *, known: Iterable[str]) -> Iterator[Problem]:
    known = frozenset(known)
    near = [] if name in known else get_close_matches(name, known, n=1, cutoff=_NEAR)
    if near:
        message = f"may be written wrongly: {quote(name)} is not well known. Did you mean {quote(near[0])}?"
        yield Problem(field=field, code="doubtful", message=message)


def _list_model_values(key: str) -> frozenset[str]:
    sources = {GFD_PRODUCT: "gfd", GKE_ACCELERATOR: "gke", AMD_PRODUCT: "amd", INTEL_PRODUCT: "intel"}
    sources |= {f"{prefix}instance-gpu-name": "karpenter" for prefix in KARPENTER_PREFIXES}
    models = load_builtin_accelerators().values()
    return frozenset(name for model in models for name in model.labels.get(sources.get(key, ""), ()))


_MAX_PERSONS = 500
"""Maximum number of sample users with whom the program looks for a user who may start a preset."""


def find_preset_mistakes(settings: Settings, raw: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem for each value in a preset that probably has another effect than the admin expects.

    - a CPU amount that is rounded up
    - a preset, or an entry in its ``choices``, that no user may have
    - an override that replaces a different override of the same server
    - a value of any ``kubespawner_override`` that the API server would reject

    :param settings: valid settings.
    :param raw: the settings as loaded from YAML, with the amounts as written.
    """
    configured = settings.build_configured()
    catalog = assemble_catalog(configured, Inventory(), table=settings.build_table(), fallback_image="")
    yield from _find_rounded_amounts(raw)
    yield from _find_denied_presets(catalog, configured)
    yield from _find_replaced_overrides(configured)
    for path, entry in list_overriding_entries(settings.model):
        yield from _check_override(f"{path}.kubespawner_override", entry.overrides)


def _list_preset_values(model: SettingsModel) -> Iterator[tuple[str, PresetValues]]:
    """Yield the YAML path and the values of each enabled preset, and of each enabled entry in its ``choices``."""
    for slug, preset in model.presets.items():
        if preset.enabled:
            yield f"presets.{slug}", preset
            yield from ((f"presets.{slug}.{path}", entry) for path, entry in _list_entries(preset))


def _list_entries(preset: PresetEntry) -> Iterator[tuple[str, PresetValues]]:
    for name, choice in preset.choices.items():
        for slug, entry in choice.entries.items():
            if choice.enabled and entry.enabled:
                yield f"choices.{sanitize_name(name)}.entries.{sanitize_name(slug)}", entry


def _find_rounded_amounts(raw: Mapping[str, object]) -> Iterator[Problem]:
    for slug, preset in as_dict(raw.get("presets")).items():
        path = f"presets.{sanitize_name(slug)}"
        yield from _check_precision(path, as_dict(preset))
        for name, choice in as_dict(as_dict(preset).get("choices")).items():
            for key, entry in as_dict(as_dict(choice).get("entries")).items():
                inside = f"{path}.choices.{sanitize_name(name)}.entries.{sanitize_name(key)}"
                yield from _check_precision(inside, as_dict(entry))


def _check_precision(path: str, values: Mapping[str, object]) -> Iterator[Problem]:
    for key in ("cpu", "cpu_guarantee"):
        try:
            parse_cpu(values.get(key, 1))
        except TooPreciseError:
            message = (
                f"is rounded up to {round_up_cpu(values[key])}m: Kubernetes knows no less than a thousandth of a CPU"
            )
            yield Problem(field=f"{path}.{key}", code="rounded", message=message)
        except ValueError:
            continue  # "unlimited" or null: Kubernetes rounds only numbers


def _find_denied_presets(catalog: Catalog, configured: ConfiguredCatalog) -> Iterator[Problem]:
    """Yield a problem for each preset, and for each entry in a preset's ``choices``, that no user may have."""
    if catalog.policy is None:
        return
    allowances = [resolve_allowance(catalog, each, usage=Usage()) for each in _list_persons(catalog.policy)]
    find_denial = partial(_find_denial, allowances=allowances, unread_types=configured.uncounted)
    for slug, preset in catalog.presets.items():
        if not all(choice.entries for choice in preset.choices.values()):
            continue  # A choice offers only a text field for an image; the program knows no valid image reference.
        variants = dict(_list_variants(preset))
        denials = {path: find_denial(options) for path, options in variants.items()}
        denied = [path for path, reason in denials.items() if reason is not None]
        # The path "" stands for the preset with its default entries. Report it only if all entries are denied, because
        # users can pick other entries.
        for path in [""] if len(denied) == len(denials) else filter(None, denied):
            answer = f". Users who choose it read: {denials[path]}" if denials[path] else ""
            message = f"is allowed to no group and no user{answer}"
            yield Problem(field=f"presets.{slug}{path}", code="no_user", message=message)


def _list_variants(preset: Preset) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield pairs of a YAML path below a preset and user options with the preset.

    The first pair has an empty path, and options that pick no entry. Each further pair has the path of an entry in the
    preset's ``choices``, and options that pick only this entry.
    """
    yield "", {"preset": preset.slug}
    for name, choice in preset.choices.items():
        for slug in choice.entries:
            yield f".choices.{name}.entries.{slug}", {"preset": preset.slug, PRESET_CHOICES: {name: slug}}


def _list_persons(policy: Policy) -> list[Person]:
    """Return sample users who together have all rights that the policy gives, but at most :data:`_MAX_PERSONS` users.

    - a user without groups, a user in all groups, and a user in each single group
    - each user that the policy names, once in all groups and once without groups
    """
    groups = {*policy.groups, *(group for pool in policy.pools.values() for group in pool.groups)}
    groups |= {group for access in policy.access.values() for group in access.groups}
    users = {*policy.users, *(user for access in policy.access.values() for user in access.users)}
    everything = frozenset(groups)
    found = [Person(name=""), Person(name="", groups=everything)]
    found += [Person(name="", groups=frozenset({group})) for group in sorted(groups)]
    found += [Person(name=user, groups=own) for user in sorted(users) for own in (everything, frozenset[str]())]
    return found[:_MAX_PERSONS]


def _find_denial(
    options: Mapping[str, object], *, allowances: Iterable[Allowance], unread_types: frozenset[str]
) -> str | None:
    """Return why no user may start the server that user options describe, or None if at least one user may.

    The reason is "" if the options name a preset that is hidden from all users. The result is also None if the answer
    depends on the cluster's nodes, or on an image reference that only users know.
    """
    reason = ""
    for allowance in allowances:
        try:
            admit(options, allowance, unread_types=unread_types)
        except UnreadClusterError:
            return None
        except PolicyError as error:
            reason = reason or error.problems[0].message
        except SelectionError as error:
            if any(each.field == CUSTOM_IMAGE.name for each in error.problems):
                return None  # Checking the pattern needs a valid image reference, and only users know one.
        else:
            return None
    return reason


def _find_replaced_overrides(configured: ConfiguredCatalog) -> Iterator[Problem]:
    """Yield a problem for each KubeSpawner trait that two overrides set to different values for the same server.

    The function compares the ``kubespawner_override`` of a preset, or of an entry in its ``choices``, with those of the
    image and the GPU type. It also compares these two with each other.
    """
    found: dict[str, Problem] = {}
    for slug, preset in configured.presets.items():
        for path, options, overrides in _list_override_layers(preset):
            below: list[tuple[str, TraitValues]] = []
            image = options.get("image", next(iter(configured.images), ""))
            if image in configured.images:
                below.append((f"images.{image}", configured.images[str(image)].overrides))
            if options.get("gpu") in configured.gpus:
                below.append((f"gpus.{options['gpu']}", configured.gpus[str(options["gpu"])].overrides))
            own = (f"presets.{slug}{path}", overrides)
            pairs = [*((under, own) for under in below), *([(below[0], below[1])] if len(below) > 1 else [])]
            for (under, lower), (over, upper) in pairs:
                for trait in _list_conflicts(lower, upper):
                    message = f"takes the place of what {under} says, which servers with both do not get"
                    field = f"{over}.kubespawner_override.{trait}"
                    found.setdefault(field, Problem(field=field, code="replaced", message=message))
    yield from found.values()


def _list_override_layers(preset: Preset) -> Iterator[tuple[str, Mapping[str, object], TraitValues]]:
    """Yield (path, options, override) for a preset, and then for each entry in its ``choices``.

    The path is a YAML path below the preset, empty for the preset itself. The options are values of form fields, such
    as the image. The override is the ``kubespawner_override`` at the path.
    """
    yield "", preset.options, preset.overrides
    for name, choice in preset.choices.items():
        for entry in choice.entries.values():
            yield f".choices.{name}.entries.{entry.slug}", {**preset.options, **entry.options}, entry.overrides


def _list_conflicts(lower: TraitValues, upper: TraitValues) -> Iterator[str]:
    """Yield the dotted name of each value in ``upper`` that replaces a different value in ``lower``."""
    for name, value in upper.items():
        if name not in lower or lower[name] == value:
            continue
        below = lower[name]
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            yield from (f"{sanitize_name(name)}.{inside}" for inside in _list_conflicts(below, value))
        else:
            yield sanitize_name(name)


def find_unused_settings(model: SettingsModel) -> Iterator[Problem]:
    """If users can only start presets (``only_presets``), yield a problem for each setting that has no effect then.

    :param model: the settings as written.
    """
    if not model.only_presets:
        return
    presets = [each for each in model.presets.values() if each.enabled]
    for name in ("cpu", "memory"):
        setting = getattr(model, name)
        if setting is not None and all(_always_sets(preset, name) for preset in presets):
            part = "has no effect" if setting.guarantee is None else "has no effect, except its guarantee"
            message = f"{part}: with only_presets users start only presets, and each says its {name}"
            yield Problem(field=name, code="unused", message=message)
    values = [each for _, each in _list_preset_values(model)]
    if model.shared_memory is not None and all(each.shared_memory is None for each in values):
        message = "has no effect: with only_presets users start only presets, and none says its shared_memory"
        yield Problem(field="shared_memory", code="unused", message=message)
    if model.custom_images.allowed:
        message = "has no effect: with only_presets users name images only in a preset's choice with custom_image"
        yield Problem(field="custom_images", code="unused", message=message)
    used = {each.image for each in values} | {None}
    offered = [slug for slug, image in model.images.items() if image.enabled]
    unused = [slug for slug in offered if slug not in used and not _is_default_image(slug, model)]
    if unused:
        message = f"has entries without effect: no preset has {format_list(unused)}, and with only_presets users start"
        yield Problem(field="images", code="unused", message=f"{message} only presets")


def _is_default_image(slug: str, model: SettingsModel) -> bool:
    """Return whether an image is the first one, and at least one preset may start servers with this default image.

    A server gets the default image if neither its preset nor the picked entries in ``choices`` name an image.
    """
    presets = (each for each in model.presets.values() if each.enabled)
    first = next(iter(sort_entries(model.images)), None)
    return slug == first and not all(_always_sets(each, "image") for each in presets)


def _always_sets(preset: PresetEntry, name: str) -> bool:
    """Return whether a preset sets a value such as ``image``, whichever entries of its choices the user picks."""
    choices = [each for each in preset.choices.values() if each.enabled]
    entries = [[entry for entry in choice.entries.values() if entry.enabled] for choice in choices]
    return getattr(preset, name) is not None or any(
        bool(each) and choice.custom_image is None and all(getattr(entry, name) is not None for entry in each)
        for choice, each in zip(choices, entries, strict=True)
    )


_LABEL_VALUE = re.compile(LABEL_VALUE_PATTERN, re.ASCII)
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("", "Exists", "Equal")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def _check_override(path: str, override: TraitValues) -> Iterator[Problem]:
    """Yield a problem for each value of a ``kubespawner_override`` that would make the API server reject the pod."""
    for trait in ("node_selector", "extra_labels"):
        for key, value in as_dict(override.get(trait)).items():
            is_template = trait == "extra_labels" and "{" in str(value)
            if value is not None and not is_template and not (isinstance(value, str) and _LABEL_VALUE.match(value)):
                message = "is no value of a label: it must be a text of at most 63 letters, digits, -, _ and ."
                yield Problem(field=f"{path}.{trait}.{sanitize_name(key)}", code="doubtful", message=message)
    policy = override.get("image_pull_policy")
    if policy is not None and policy not in _PULL_POLICIES:
        message = f"must be {', '.join(_PULL_POLICIES[:-1])} or {_PULL_POLICIES[-1]}, not {quote(policy)}"
        yield Problem(field=f"{path}.image_pull_policy", code="doubtful", message=message)
    tolerations = override.get("tolerations")
    if not isinstance(tolerations, Mapping):
        tolerations = {str(index): each for index, each in enumerate(as_dicts(tolerations))}
    for key, toleration in tolerations.items():
        for name, reason in _explain_toleration(as_dict(toleration)):
            field = f"{path}.tolerations.{sanitize_name(key)}.{name}"
            yield Problem(field=field, code="doubtful", message=reason)


def _explain_toleration(toleration: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield (key, reason) for each wrong or missing key that makes the API server reject a toleration."""
    operator, effect = toleration.get("operator") or "", toleration.get("effect") or ""
    if operator not in _OPERATORS:
        yield "operator", f"must be Exists or Equal, not {quote(operator)}"
    if effect not in _EFFECTS:
        yield "effect", f"must be one of {', '.join(_EFFECTS[1:])}, not {quote(effect)}"
    if operator == "Exists" and toleration.get("value"):
        yield "value", "must be left out with operator Exists"
    if operator in ("", "Equal") and not toleration.get("key"):
        yield "key", "is missing, and only operator Exists tolerates every taint"
