"""Warns about valid settings that are probably mistakes.

The mistakes are pointless limits, unknown GPU types, misspelled names, and presets with unexpected effects, such as a
preset that no user may start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from gpuspawner.core.catalog.accelerators import (
    AMD_PRODUCT,
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    INTEL_PRODUCT,
    KARPENTER_PREFIXES,
    strip_product_suffix,
)
from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE, parse_reference
from gpuspawner.core.catalog.model import GPUType, TraitValues
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
from gpuspawner.core.text.wording import quote, sanitize_name, suggest_name
from gpuspawner.core.units.duration import format_duration
from gpuspawner.core.units.quantity import format_cpu, format_memory
from gpuspawner.core.value_types import LABEL_VALUE_PATTERN
from gpuspawner.settings import Settings
from gpuspawner.settings.accelerators import load_builtin_accelerators
from gpuspawner.settings.models import PresetEntry, SettingsModel
from gpuspawner.settings.overrides import list_overriding_entries


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
    yield from ((f"{path}.gpu", values.gpu) for path, values in _list_presets(model) if values.gpu)
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


def find_override_mistakes(model: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each value of any ``kubespawner_override`` that the API server would reject.

    :param model: valid settings.
    """
    for path, entry in list_overriding_entries(model):
        yield from _check_override(f"{path}.kubespawner_override", entry.overrides)


def _list_presets(model: SettingsModel) -> Iterator[tuple[str, PresetEntry]]:
    """Yield the YAML path and the values of each enabled preset."""
    yield from ((f"presets.{slug}", preset) for slug, preset in model.presets.items() if preset.enabled)


def find_denied_presets(settings: Settings) -> Iterator[Problem]:
    """Yield a problem for each preset that no user may have.

    :param settings: valid settings.
    """
    configured = settings.build_configured()
    catalog = assemble_catalog(configured, Inventory(), table=settings.build_table(), fallback_image="")
    if catalog.policy is None:
        return
    allowances = [resolve_allowance(catalog, person, usage=Usage()) for person in _list_persons(catalog.policy)]
    for slug in catalog.presets:
        reason = _find_denial({"preset": slug}, allowances=allowances, unread_types=configured.uncounted)
        if reason is not None:
            answer = f". Users who choose it read: {reason}" if reason else ""
            message = f"is allowed to no group and no user{answer}"
            yield Problem(field=f"presets.{slug}", code="no_user", message=message)


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
    depends on the cluster's nodes.
    """
    reason = ""
    for allowance in allowances:
        try:
            admit(options, allowance, unread_types=unread_types)
        except UnreadClusterError:
            return None
        except PolicyError as error:
            reason = reason or error.problems[0].message
        except SelectionError:
            continue
        else:
            return None
    return reason


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
