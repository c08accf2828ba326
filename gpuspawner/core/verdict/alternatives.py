"""Searches for selections that fit the cluster now and are similar to a selection that does not fit.

A selection is what a user chooses in the form: GPU type and count, CPU, memory, image and so on. The caller passes a
function that decides whether a selection fits. Each call of the function scans the cluster, so the search makes few
calls. The search returns only selections for which the function returned True.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, UnitKind
from gpuspawner.core.catalog.software import explain_misfit
from gpuspawner.core.request.selection import Selection, find_image, find_max_run_time_s

MAX_ALTERNATIVES = 3
"""Largest number of alternatives (similar selections that fit) in the form, or in the error of a refused start."""

MAX_FIT_CHECKS = 40
"""One search calls ``fits`` at most this many times; it treats further selections as not fitting."""

_BISECTIONS = 6
"""Maximum number of steps of a binary search for the largest amount that fits; enough for 64 amounts."""

_SAME_MEMORY = 0.9
"""GPUs that have at least this share of the selected GPU memory count as having as much.

For example, an "80 GB" GPU has 81,920 MiB by the label of an A100, but 81,559 MiB by the label of an H100."""

_NEAR_MEMORY = 0.5
"""GPUs that have less than this share of the selected GPU memory are offered only if no others fit."""


def find_alternatives(
    selection: Selection,
    catalog: Catalog,
    *,
    fits: Callable[[Selection], bool],
    types: Iterable[GPUType] | None = None,
) -> tuple[Selection, ...]:
    """Return selections that fit, smallest change first: fewer GPUs, less CPU, less memory, other GPUs.

    The search first changes only one of GPU count, CPU, memory and GPU type. If no such selection fits, the search
    reduces CPU and memory together. If no such selection fits either, the search changes the GPU type or count, and
    also reduces CPU and memory where necessary.

    Other GPU types come in the order of ``types``, each with the count that :func:`choose_gpu_count` returns.
    Selections with less than half of the selected GPU memory are returned only if no other selection fits.

    :param fits: returns whether a selection fits. It is called at most :data:`MAX_FIT_CHECKS` times, never for
        ``selection``.
    :param types: other GPU types to try, in this order; None = the types that :func:`list_other_types` returns.
    """
    others = list_other_types(selection, catalog) if types is None else list(types)
    others.sort(key=lambda gpu: has_little_memory(gpu, selection, catalog=catalog))
    little = {gpu.slug for gpu in others if has_little_memory(gpu, selection, catalog=catalog)}
    search = _AlternativeSearch(selection, catalog, others=others, fits=fits)
    smaller: dict[Selection, None] = {}
    for changes in (search.list_single_changes, search.list_amount_changes, search.list_gpu_changes):
        found: dict[Selection, None] = {}
        for each in changes(selection):
            is_smaller = _compare_memory(each, selection, catalog=catalog) < _NEAR_MEMORY
            (smaller if is_smaller else found).setdefault(each)
            # The types with less than half of the memory come last: after the first of them, no better type follows.
            is_full = len(smaller) >= MAX_ALTERNATIVES
            if len(found) >= MAX_ALTERNATIVES or (is_smaller and each.gpu in little and (found or is_full)):
                break
        if found:
            return tuple(found)
    return tuple(smaller)[:MAX_ALTERNATIVES]


def choose_gpu_count(gpu: GPUType, selection: Selection, *, catalog: Catalog) -> int:
    """Return how many GPUs of another type would replace the selected GPUs.

    The result is the smallest count with about as much GPU memory in total, but at most the type's ``max_count``. For
    MIG slices and other shares of GPUs, the count does not change, because a program cannot combine their memory.

    :param selection: a selection with a GPU type.
    """
    own, count = catalog.gpus[selection.gpu or ""], selection.gpu_count
    if own.memory_bytes and gpu.memory_bytes and gpu.unit is UnitKind.CARD:
        count = max(1, math.ceil(_SAME_MEMORY * count * own.memory_bytes / gpu.memory_bytes))
    return min(count, gpu.max_count)


def has_little_memory(gpu: GPUType, selection: Selection, *, catalog: Catalog) -> bool:
    """Return whether the replacing GPUs have less than half as much memory in total as the selected GPUs.

    :func:`choose_gpu_count` says how many they are. The result is False if the memory of one of the types is unknown.

    :param selection: a selection with a GPU type.
    """
    return _compare_memory(_replace_gpus(gpu, selection, catalog=catalog), selection, catalog=catalog) < _NEAR_MEMORY


def _replace_gpus(gpu: GPUType, selection: Selection, *, catalog: Catalog) -> Selection:
    return replace(selection, gpu=gpu.slug, gpu_count=choose_gpu_count(gpu, selection, catalog=catalog))


def _compare_memory(other: Selection, selection: Selection, *, catalog: Catalog) -> float:
    """Return the GPU memory of one selection divided by that of another, or 1 if one of them is unknown or 0."""
    mine, selected = _sum_memory(other, catalog), _sum_memory(selection, catalog)
    return mine / selected if mine and selected else 1.0


def _sum_memory(selection: Selection, catalog: Catalog) -> int:
    if selection.gpu is None:
        return 0
    return selection.gpu_count * (catalog.gpus[selection.gpu].memory_bytes or 0)


def list_other_types(selection: Selection, catalog: Catalog) -> list[GPUType]:
    """Return the GPU types that could replace the selected type, most similar first.

    Each of these types works with the selected image and allows the selected run time. If the selection has no GPU
    type, the list is empty.
    """
    if selection.gpu is None:
        return []
    own = catalog.gpus[selection.gpu]
    image = find_image(selection, catalog)
    others = (gpu for gpu in catalog.gpus.values() if gpu.slug != own.slug and not explain_misfit(image, gpu))
    lasting = (gpu for gpu in others if _runs_long_enough(find_max_run_time_s(gpu.slug, catalog), selection.run_time_s))
    return sorted(lasting, key=lambda gpu: _measure_distance(gpu, selection, catalog=catalog))


class _AlternativeSearch:
    def __init__(
        self,
        selection: Selection,
        catalog: Catalog,
        *,
        others: Sequence[GPUType],
        fits: Callable[[Selection], bool],
    ) -> None:
        self._catalog = catalog
        self._others = others
        self._fits = fits
        self._answers = {selection: False}

    def list_single_changes(self, selection: Selection) -> Iterator[Selection]:
        for changed in (
            self._find_fewer_gpus(selection),
            self._find_less("cpu", selection),
            self._find_less("memory", selection),
        ):
            if changed is not None:
                yield changed
        for gpu in self._others:
            if self._check_fits(other := _replace_gpus(gpu, selection, catalog=self._catalog)):
                yield other

    def list_amount_changes(self, selection: Selection) -> Iterator[Selection]:
        if selection.cpu_millis is None or selection.memory_bytes is None:
            return
        least = self._make_least(selection)
        if self._check_fits(least):
            yield self._raise_amounts(least, selection)

    def list_gpu_changes(self, selection: Selection) -> Iterator[Selection]:
        if selection.gpu is None:
            return
        for gpu in (self._catalog.gpus[selection.gpu], *self._others):
            one = replace(selection, gpu=gpu.slug, gpu_count=1)
            most = _replace_gpus(gpu, selection, catalog=self._catalog)
            if self._check_fits(one):
                yield self._find_most_gpus(most) or one
            elif self._check_fits(least := self._make_least(one)):
                yield self._raise_amounts(self._find_most_gpus(self._make_least(most)) or least, selection)

    def _check_fits(self, candidate: Selection) -> bool:
        if candidate not in self._answers:
            if len(self._answers) > MAX_FIT_CHECKS:
                return False
            self._answers[candidate] = self._fits(candidate)
        return self._answers[candidate]

    def _find_most_gpus(self, selection: Selection) -> Selection | None:
        return selection if self._check_fits(selection) else self._find_fewer_gpus(selection)

    def _find_fewer_gpus(self, selection: Selection) -> Selection | None:
        found = _bisect_largest(
            1, selection.gpu_count - 1, fits=lambda count: self._check_fits(replace(selection, gpu_count=count))
        )
        return None if found is None else replace(selection, gpu_count=found)

    def _find_less(self, name: str, selection: Selection) -> Selection | None:
        bounds, amount = self._get_bounds(name), _get_amount(name, selection)
        if bounds is None or amount is None:
            return None
        changed = partial(_set_step, name, selection=selection, bounds=bounds)
        least, below = _find_least_step(name, selection, bounds=bounds), -((bounds.min - amount) // bounds.step) - 1
        found = _bisect_largest(least, below, fits=lambda step: self._check_fits(changed(step=step)))
        return None if found is None else changed(step=found)

    def _make_least(self, selection: Selection) -> Selection:
        for name in ("cpu", "memory"):
            if _get_amount(name, selection) is not None and (bounds := self._get_bounds(name)) is not None:
                least = _find_least_step(name, selection, bounds=bounds)
                selection = _set_step(name, selection=selection, bounds=bounds, step=least)
        return selection

    def _raise_amounts(self, found: Selection, selection: Selection) -> Selection:
        """Return ``found`` with as much CPU, and then as much memory, as fits, up to the amounts in ``selection``."""
        for name in ("cpu", "memory"):
            amount = _get_amount(name, selection)
            if amount is None:
                continue
            whole = _set_amount(name, found, amount=amount)
            found = whole if self._check_fits(whole) else self._find_less(name, whole) or found
        return found

    def _get_bounds(self, name: str) -> Bounds | None:
        return self._catalog.cpu if name == "cpu" else self._catalog.memory


def _runs_long_enough(longest_s: int | None, selected_s: int | None) -> bool:
    return longest_s is None or selected_s is None or selected_s <= longest_s


def _measure_distance(gpu: GPUType, selection: Selection, *, catalog: Catalog) -> tuple[bool | float, ...]:
    own, other = catalog.gpus[selection.gpu or ""], _replace_gpus(gpu, selection, catalog=catalog)
    share = _compare_memory(other, selection, catalog=catalog)
    return (
        share < _NEAR_MEMORY,
        gpu.vendor != own.vendor,
        gpu.memory_bytes is None,
        share < _SAME_MEMORY,
        max(0, other.gpu_count - selection.gpu_count),
        gpu.unit != own.unit,
        abs(math.log(share)),
    )


def _bisect_largest(low: int, high: int, *, fits: Callable[[int], bool]) -> int | None:
    if high < low or not fits(low):
        return None
    for _ in range(_BISECTIONS):
        if low == high:
            break
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _get_amount(name: str, selection: Selection) -> int | None:
    return selection.cpu_millis if name == "cpu" else selection.memory_bytes


def _find_least_step(name: str, selection: Selection, *, bounds: Bounds) -> int:
    """Return the smallest allowed CPU or memory, as a number of steps above ``bounds.min``.

    Memory must be at least as large as the shared memory.
    """
    needed = (selection.shared_memory_bytes or 0) if name == "memory" else 0
    return max(0, -((bounds.min - needed) // bounds.step))


def _set_amount(name: str, selection: Selection, *, amount: int) -> Selection:
    return replace(selection, cpu_millis=amount) if name == "cpu" else replace(selection, memory_bytes=amount)


def _set_step(name: str, *, selection: Selection, bounds: Bounds, step: int) -> Selection:
    return _set_amount(name, selection, amount=bounds.min + step * bounds.step)
