"""What to pick instead of a choice that does not fit: the choices nearest to it that do, the smallest change first.

Whether a choice fits is for the caller to say; it is asked as seldom as possible, because each answer is a survey of
the whole cluster. Nothing is assumed of its answers: what is returned was found to fit, whatever the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gpuspawner.core.catalog.catalogue import Bounds, Catalogue, GPUType
from gpuspawner.core.catalog.image_use import misfit_text
from gpuspawner.core.request.selection import Selection, image_of, longest_run_s

MOST_QUESTIONS = 40
"""Times that ``fits`` is called at most for one selection."""

_BISECTIONS = 6
"""Questions spent on one amount after its smallest one fitted: finds one of 64 steps, a part of a larger range."""


def nearest(
    selection: Selection,
    catalogue: Catalogue,
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
    :param fits: asked at most :data:`MOST_QUESTIONS` times, never about the selection itself.
    :param types: other GPU types to try, in this order; all of them by default.
    :param limit: choices wanted; fewer when there are not as many.
    """
    others = other_types(selection, catalogue) if types is None else tuple(types)
    search = _Search(selection, catalogue, others=others, fits=fits)
    for changes in (search.single_changes, search.changes_of_amounts, search.changes_of_gpu):
        found: dict[Selection, None] = {}
        for each in changes(selection):
            found.setdefault(each)
            if len(found) >= limit:
                break
        if found:
            return tuple(found)
    return ()


def other_types(selection: Selection, catalogue: Catalogue) -> list[GPUType]:
    """Return the GPU types that could take the place of the one selected, the nearest first."""
    if selection.gpu is None:
        return []
    own = catalogue.gpus[selection.gpu]
    image = image_of(selection, catalogue)
    others = (gpu for gpu in catalogue.gpus.values() if gpu.slug != own.slug and not misfit_text(image, gpu))
    lasting = (gpu for gpu in others if _lasts(longest_run_s(gpu.slug, catalogue), selection.run_time_s))
    return sorted(lasting, key=lambda gpu: _distance(gpu, own))


class _Search:
    """Finds choices that fit, and counts how often it asked."""

    def __init__(
        self,
        selection: Selection,
        catalogue: Catalogue,
        *,
        others: Sequence[GPUType],
        fits: Callable[[Selection], bool],
    ) -> None:
        self._catalogue = catalogue
        self._others = others
        self._fits = fits
        self._answers = {selection: False}

    def single_changes(self, wanted: Selection) -> Iterator[Selection]:
        """Yield choices that differ in one thing."""
        for changed in (self._fewer_gpus(wanted), self._less("cpu", wanted), self._less("memory", wanted)):
            if changed is not None:
                yield changed
        for gpu in self._others:
            if wanted.gpu_count <= gpu.max_count and self._asked(other := replace(wanted, gpu=gpu.slug)):
                yield other

    def changes_of_amounts(self, wanted: Selection) -> Iterator[Selection]:
        """Yield the choice with less CPU and less memory."""
        if wanted.cpu_millis is None or wanted.memory_bytes is None:
            return
        least = self._least(wanted)
        if self._asked(least):
            yield self._raised(least, wanted)

    def changes_of_gpu(self, wanted: Selection) -> Iterator[Selection]:
        """Yield choices with fewer GPUs or another type, and with less CPU and memory where it takes that as well."""
        if wanted.gpu is None:
            return
        for gpu in (self._catalogue.gpus[wanted.gpu], *self._others):
            one = replace(wanted, gpu=gpu.slug, gpu_count=1)
            most = replace(wanted, gpu=gpu.slug, gpu_count=min(wanted.gpu_count, gpu.max_count))
            if self._asked(one):
                yield self._most_gpus(most) or one
            elif self._asked(least := self._least(one)):
                yield self._raised(self._most_gpus(self._least(most)) or least, wanted)

    def _asked(self, candidate: Selection) -> bool:
        """Return whether a choice fits; False when too many questions were asked already."""
        if candidate not in self._answers:
            if len(self._answers) > MOST_QUESTIONS:
                return False
            self._answers[candidate] = self._fits(candidate)
        return self._answers[candidate]

    def _most_gpus(self, wanted: Selection) -> Selection | None:
        return wanted if self._asked(wanted) else self._fewer_gpus(wanted)

    def _fewer_gpus(self, wanted: Selection) -> Selection | None:
        """Return the choice with the most GPUs below those wanted."""
        found = _largest(1, wanted.gpu_count - 1, asked=lambda count: self._asked(replace(wanted, gpu_count=count)))
        return None if found is None else replace(wanted, gpu_count=found)

    def _less(self, name: str, wanted: Selection) -> Selection | None:
        """Return the choice with the most CPU, or memory, below what is wanted."""
        bounds, amount = self._bounds(name), _amount(name, wanted)
        if bounds is None or amount is None:
            return None
        changed = partial(_with_step, name, wanted=wanted, bounds=bounds)
        least, below = _least_step(name, wanted, bounds=bounds), -((bounds.min - amount) // bounds.step) - 1
        found = _largest(least, below, asked=lambda step: self._asked(changed(step=step)))
        return None if found is None else changed(step=found)

    def _least(self, wanted: Selection) -> Selection:
        """Return the choice with the least CPU and memory."""
        for name in ("cpu", "memory"):
            if _amount(name, wanted) is not None and (bounds := self._bounds(name)) is not None:
                least = _least_step(name, wanted, bounds=bounds)
                wanted = _with_step(name, wanted=wanted, bounds=bounds, step=least)
        return wanted

    def _raised(self, found: Selection, wanted: Selection) -> Selection:
        """Return a choice that fits with as much of the CPU, then of the memory that is wanted as fits."""
        for name in ("cpu", "memory"):
            amount = _amount(name, wanted)
            if amount is None:
                continue
            whole = _with_amount(name, found, amount=amount)
            found = whole if self._asked(whole) else self._less(name, whole) or found
        return found

    def _bounds(self, name: str) -> Bounds | None:
        return self._catalogue.cpu if name == "cpu" else self._catalogue.memory


def _lasts(longest_s: int | None, wanted_s: int | None) -> bool:
    return longest_s is None or wanted_s is None or wanted_s <= longest_s


def _distance(gpu: GPUType, own: GPUType) -> tuple[bool, bool, bool, int]:
    """Return how far a type is from another: by vendor, too little memory, what one unit is, difference in memory.

    Memory that is not known may be too little.
    """
    known = gpu.memory_bytes or 0
    wanted = own.memory_bytes or 0
    return gpu.vendor != own.vendor, known < wanted, gpu.unit != own.unit, abs(known - wanted)


def _largest(low: int, high: int, *, asked: Callable[[int], bool]) -> int | None:
    """Return the largest number found to fit, by bisection; None when not even the smallest one does."""
    if high < low or not asked(low):
        return None
    for _ in range(_BISECTIONS):
        if low == high:
            break
        middle = (low + high + 1) // 2
        if asked(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _amount(name: str, selection: Selection) -> int | None:
    return selection.cpu_millis if name == "cpu" else selection.memory_bytes


def _least_step(name: str, selection: Selection, *, bounds: Bounds) -> int:
    """Return the first step of an amount: the shared memory that is wanted needs memory to be a part of."""
    needed = (selection.shared_memory_bytes or 0) if name == "memory" else 0
    return max(0, -((bounds.min - needed) // bounds.step))


def _with_amount(name: str, selection: Selection, *, amount: int) -> Selection:
    return replace(selection, cpu_millis=amount) if name == "cpu" else replace(selection, memory_bytes=amount)


def _with_step(name: str, *, wanted: Selection, bounds: Bounds, step: int) -> Selection:
    return _with_amount(name, wanted, amount=bounds.min + step * bounds.step)
