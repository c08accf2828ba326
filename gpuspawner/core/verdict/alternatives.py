"""What to pick instead of a choice that does not fit: the choices nearest to it that do, the smallest change first.

Whether a choice fits is for the caller to say; it is asked as seldom as possible, because each answer is a survey of
the whole cluster. Nothing is assumed of its answers: what is returned was found to fit, whatever the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType
from gpuspawner.core.catalog.software import explain_misfit
from gpuspawner.core.request.selection import Selection, find_image, find_max_run_time_s

MAX_FIT_CHECKS = 40
"""Times that ``fits`` is called at most for one selection."""

_BISECTIONS = 6
"""Questions spent on one amount after its smallest one fitted: finds one of 64 steps, a part of a larger range."""


def find_alternatives(
    selection: Selection,
    catalogue: Catalog,
    *,
    fits: Callable[[Selection], bool],
    types: Iterable[GPUType] | None = None,
    limit: int = 3,
) -> tuple[Selection, ...]:
    """Return choices that fit, the smallest change first: fewer GPUs, less CPU, less memory, another GPU type.

    Each is as near as it can be: the largest count or amount that fits, on the catalogue's steps; the type of the same
    vendor with the least memory that is no less. Two things are changed at once only where no single change will do.
    What the image cannot use is never among them, nor the selection itself.

    :param selection: a valid one of this very catalogue.
    :param fits: asked at most :data:`MAX_FIT_CHECKS` times, never about the selection itself.
    :param types: other GPU types to try, in this order; all of them by default.
    :param limit: choices wanted; fewer when there are not as many.
    """
    others = list_other_types(selection, catalogue) if types is None else tuple(types)
    search = _AlternativeSearch(selection, catalogue, others=others, fits=fits)
    for changes in (search.list_single_changes, search.list_amount_changes, search.list_gpu_changes):
        found: dict[Selection, None] = {}
        for each in changes(selection):
            found.setdefault(each)
            if len(found) >= limit:
                break
        if found:
            return tuple(found)
    return ()


def list_other_types(selection: Selection, catalogue: Catalog) -> list[GPUType]:
    """Return the GPU types that could take the place of the one selected, the nearest first."""
    if selection.gpu is None:
        return []
    own = catalogue.gpus[selection.gpu]
    image = find_image(selection, catalogue)
    others = (gpu for gpu in catalogue.gpus.values() if gpu.slug != own.slug and not explain_misfit(image, gpu))
    lasting = (
        gpu for gpu in others if _runs_long_enough(find_max_run_time_s(gpu.slug, catalogue), selection.run_time_s)
    )
    return sorted(lasting, key=lambda gpu: _measure_distance(gpu, own))


class _AlternativeSearch:
    """Finds choices that fit, and counts how often it asked."""

    def __init__(
        self,
        selection: Selection,
        catalogue: Catalog,
        *,
        others: Sequence[GPUType],
        fits: Callable[[Selection], bool],
    ) -> None:
        self._catalogue = catalogue
        self._others = others
        self._fits = fits
        self._answers = {selection: False}

    def list_single_changes(self, wanted: Selection) -> Iterator[Selection]:
        """Yield choices that differ in one thing."""
        for changed in (
            self._find_fewer_gpus(wanted),
            self._find_less("cpu", wanted),
            self._find_less("memory", wanted),
        ):
            if changed is not None:
                yield changed
        for gpu in self._others:
            if wanted.gpu_count <= gpu.max_count and self._check_fits(other := replace(wanted, gpu=gpu.slug)):
                yield other

    def list_amount_changes(self, wanted: Selection) -> Iterator[Selection]:
        """Yield the choice with less CPU and less memory."""
        if wanted.cpu_millis is None or wanted.memory_bytes is None:
            return
        least = self._make_least(wanted)
        if self._check_fits(least):
            yield self._raise_amounts(least, wanted)

    def list_gpu_changes(self, wanted: Selection) -> Iterator[Selection]:
        """Yield choices with fewer GPUs or another type, and with less CPU and memory where it takes that as well."""
        if wanted.gpu is None:
            return
        for gpu in (self._catalogue.gpus[wanted.gpu], *self._others):
            one = replace(wanted, gpu=gpu.slug, gpu_count=1)
            most = replace(wanted, gpu=gpu.slug, gpu_count=min(wanted.gpu_count, gpu.max_count))
            if self._check_fits(one):
                yield self._find_most_gpus(most) or one
            elif self._check_fits(least := self._make_least(one)):
                yield self._raise_amounts(self._find_most_gpus(self._make_least(most)) or least, wanted)

    def _check_fits(self, candidate: Selection) -> bool:
        """Return whether a choice fits; False when too many questions were asked already."""
        if candidate not in self._answers:
            if len(self._answers) > MAX_FIT_CHECKS:
                return False
            self._answers[candidate] = self._fits(candidate)
        return self._answers[candidate]

    def _find_most_gpus(self, wanted: Selection) -> Selection | None:
        return wanted if self._check_fits(wanted) else self._find_fewer_gpus(wanted)

    def _find_fewer_gpus(self, wanted: Selection) -> Selection | None:
        """Return the choice with the most GPUs below those wanted."""
        found = _bisect_largest(
            1, wanted.gpu_count - 1, fits=lambda count: self._check_fits(replace(wanted, gpu_count=count))
        )
        return None if found is None else replace(wanted, gpu_count=found)

    def _find_less(self, name: str, wanted: Selection) -> Selection | None:
        """Return the choice with the most CPU, or memory, below what is wanted."""
        bounds, amount = self._get_bounds(name), _get_amount(name, wanted)
        if bounds is None or amount is None:
            return None
        changed = partial(_set_step, name, wanted=wanted, bounds=bounds)
        least, below = _find_least_step(name, wanted, bounds=bounds), -((bounds.min - amount) // bounds.step) - 1
        found = _bisect_largest(least, below, fits=lambda step: self._check_fits(changed(step=step)))
        return None if found is None else changed(step=found)

    def _make_least(self, wanted: Selection) -> Selection:
        """Return the choice with the least CPU and memory."""
        for name in ("cpu", "memory"):
            if _get_amount(name, wanted) is not None and (bounds := self._get_bounds(name)) is not None:
                least = _find_least_step(name, wanted, bounds=bounds)
                wanted = _set_step(name, wanted=wanted, bounds=bounds, step=least)
        return wanted

    def _raise_amounts(self, found: Selection, wanted: Selection) -> Selection:
        """Return a choice that fits with as much of the CPU, then of the memory that is wanted as fits."""
        for name in ("cpu", "memory"):
            amount = _get_amount(name, wanted)
            if amount is None:
                continue
            whole = _set_amount(name, found, amount=amount)
            found = whole if self._check_fits(whole) else self._find_less(name, whole) or found
        return found

    def _get_bounds(self, name: str) -> Bounds | None:
        return self._catalogue.cpu if name == "cpu" else self._catalogue.memory


def _runs_long_enough(longest_s: int | None, wanted_s: int | None) -> bool:
    return longest_s is None or wanted_s is None or wanted_s <= longest_s


def _measure_distance(gpu: GPUType, own: GPUType) -> tuple[bool, bool, bool, int]:
    """Return how far a type is from another: by vendor, too little memory, what one unit is, difference in memory.

    Memory that is not known may be too little.
    """
    known = gpu.memory_bytes or 0
    wanted = own.memory_bytes or 0
    return gpu.vendor != own.vendor, known < wanted, gpu.unit != own.unit, abs(known - wanted)


def _bisect_largest(low: int, high: int, *, fits: Callable[[int], bool]) -> int | None:
    """Return the largest number found to fit, by bisection; None when not even the smallest one does."""
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
    """Return the first step of an amount: the shared memory that is wanted needs memory to be a part of."""
    needed = (selection.shared_memory_bytes or 0) if name == "memory" else 0
    return max(0, -((bounds.min - needed) // bounds.step))


def _set_amount(name: str, selection: Selection, *, amount: int) -> Selection:
    return replace(selection, cpu_millis=amount) if name == "cpu" else replace(selection, memory_bytes=amount)


def _set_step(name: str, *, wanted: Selection, bounds: Bounds, step: int) -> Selection:
    return _set_amount(name, wanted, amount=bounds.min + step * bounds.step)
