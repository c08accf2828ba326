"""Limits that are legal as settings and that no machine, GPU or cluster can hold: a unit or a digit too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuspawner.core.catalog.catalogue import Bounds, GPUType, UnitKind
from gpuspawner.core.catalog.policy_rules import UNLIMITED
from gpuspawner.core.discovery.assemble import ConfiguredCatalog
from gpuspawner.core.errors import Problem
from gpuspawner.core.text.quoting import sanitize_name
from gpuspawner.core.units.duration import format_duration
from gpuspawner.core.units.quantity import format_cpu, format_memory
from gpuspawner.settings.models import SettingsModel
from gpuspawner.settings.policy_entries import RuleEntry

# More than what there is: 1,920 CPUs, 32 TiB and 16 GPUs in the largest machines of clouds and vendors, 288 GB in the
# largest GPU; Kubernetes is made for 5,000 nodes (https://kubernetes.io/docs/setup/best-practices/cluster-large/).
_MOST_CPU_MILLIS = 2048 * 1000
_MOST_MEMORY_BYTES = 64 * 1024**4
_MOST_GPU_MEMORY_BYTES = 2 * 1024**4
_MOST_CARDS = 16
_MOST_SLICES = 1024
_MOST_NODES = 15_000
_MOST_GPUS = 100_000
_LONGEST_S = 366 * 24 * 60 * 60
_LONGEST_MINUTES = 24 * 60


def find_oversized_limits(model: SettingsModel, configured: ConfiguredCatalog) -> Iterator[Problem]:
    """Yield the limits that nothing can hold, as paths below the section."""
    yield from _check_bounds("cpu", configured.cpu, most=_MOST_CPU_MILLIS, show=format_cpu)
    yield from _check_bounds("memory", configured.memory, most=_MOST_MEMORY_BYTES, show=format_memory)
    yield from _check_bounds("run_time", configured.run_time, most=_LONGEST_S, show=format_duration)
    most = configured.memory.max if configured.memory is not None else _MOST_MEMORY_BYTES
    yield from _check_bounds("shared_memory", configured.shared_memory, most=most, show=format_memory)
    for slug, gpu in configured.gpus.items():
        yield from _check_gpu_limits(f"gpus.{slug}", gpu)
    for slug, union in configured.unions.items():
        if (union.min_memory_bytes or 0) > _MOST_GPU_MEMORY_BYTES:
            yield _make_too_large(
                f"gpus.{slug}.min_memory", "any GPU has", shown=format_memory(union.min_memory_bytes or 0)
            )
    for slug, entry in model.accelerators.items():
        if entry is not None and (entry.memory or 0) > _MOST_GPU_MEMORY_BYTES:
            yield _make_too_large(f"accelerators.{slug}.memory", "any GPU has", shown=format_memory(entry.memory or 0))
    yield from _check_presets(model, configured)
    for slug, pool in model.pools.items():
        if pool.enabled and _MOST_GPUS < (pool.max_gpus or 0) < UNLIMITED:
            yield _make_too_large(f"pools.{slug}.max_gpus", "any cluster has", shown=f"{pool.max_gpus} GPUs")
    for path, rule in _list_rules(model):
        yield from _check_rule(path, rule, configured=configured)


def _check_bounds(path: str, bounds: Bounds | None, *, most: int, show: Callable[[int], str]) -> Iterator[Problem]:
    if bounds is None:
        return
    if bounds.max > most:
        yield _make_too_large(f"{path}.max", f"there can be at most ({show(most)})", shown=show(bounds.max))
    if bounds.min < bounds.max < bounds.min + bounds.step:
        message = (
            f"is more than there is between {path}.min and {path}.max: nothing but {show(bounds.min)} can be picked"
        )
        yield Problem(field=f"{path}.step", code="too_large", message=message)


def _check_gpu_limits(path: str, gpu: GPUType) -> Iterator[Problem]:
    if (gpu.memory_bytes or 0) > _MOST_GPU_MEMORY_BYTES:
        yield _make_too_large(f"{path}.memory", "any GPU has", shown=format_memory(gpu.memory_bytes or 0))
    if gpu.unit is UnitKind.CARD and gpu.max_count > _MOST_CARDS:
        yield _make_too_large(f"{path}.max_count", "any machine has", shown=f"{gpu.max_count} GPUs in one server")
    scale_up = gpu.scale_up
    if scale_up is None:
        return
    if gpu.unit is UnitKind.CARD and scale_up.gpus_per_node > _MOST_CARDS:
        shown = f"{scale_up.gpus_per_node} GPUs on one node"
        yield _make_too_large(f"{path}.scale_up.gpus_per_node", "any machine has", shown=shown)
    if scale_up.max_nodes > _MOST_NODES:
        yield _make_too_large(f"{path}.scale_up.max_nodes", "any cluster has", shown=f"{scale_up.max_nodes} nodes")
    if scale_up.minutes > _LONGEST_MINUTES:
        message = f"is more than a day until a new node is ready: {scale_up.minutes:g} minutes"
        yield Problem(field=f"{path}.scale_up.minutes", code="too_large", message=message)


def _check_presets(model: SettingsModel, configured: ConfiguredCatalog) -> Iterator[Problem]:
    """Yield counts that nodes decide about, and that none will ever have."""
    for slug, preset in model.presets.items():
        gpu = configured.gpus.get(preset.gpu or "")
        most = _MOST_SLICES if gpu is not None and gpu.unit is not UnitKind.CARD else _MOST_CARDS
        if preset.enabled and (preset.gpu_count or 0) > most:
            shown = f"{preset.gpu_count} GPUs in one server"
            yield _make_too_large(f"presets.{slug}.gpu_count", "any machine has", shown=shown)


def _list_rules(model: SettingsModel) -> Iterator[tuple[str, RuleEntry]]:
    if model.policy is None:
        return
    yield "policy.default", model.policy.default
    for section, rules in (("groups", model.policy.groups), ("users", model.policy.users)):
        yield from ((f"policy.{section}.{sanitize_name(name)}", rule) for name, rule in rules.items())


def _check_rule(path: str, rule: RuleEntry, *, configured: ConfiguredCatalog) -> Iterator[Problem]:
    cpu, memory = rule.cpu.max if rule.cpu else None, rule.memory.max if rule.memory else None
    for name, own, bounds, most, show in (
        ("cpu", cpu, configured.cpu, _MOST_CPU_MILLIS, format_cpu),
        ("memory", memory, configured.memory, _MOST_MEMORY_BYTES, format_memory),
    ):
        if own is None or own == UNLIMITED:
            continue
        if own > most:
            yield _make_too_large(f"{path}.{name}.max", "any machine has", shown=show(own))
        elif bounds is not None and bounds.max < own:
            message = f"has no effect: {name}.max holds for everybody ({show(bounds.max)}), and this is {show(own)}"
            yield Problem(field=f"{path}.{name}.max", code="unused", message=message)
    times = [(path, rule.max_runtime)]
    times += [(f"{path}.gpus.{sanitize_name(slug)}", limits.max_runtime) for slug, limits in (rule.gpus or {}).items()]
    for place, longest in times:
        if longest is not None and _LONGEST_S < longest < UNLIMITED:
            yield _make_too_large(f"{place}.max_runtime", "a year", shown=format_duration(longest))


def _make_too_large(field: str, than: str, *, shown: str) -> Problem:
    return Problem(field=field, code="too_large", message=f"is more than {than}: {shown}")
