"""GPU types in reach and out of it, each worked out when it is asked for: a start asks for one of many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import overload

from gpuspawner.core.catalog.catalogue import GPUType


class AllowedTypes(Mapping[str, GPUType]):
    """The types that a person may have, by slug, in the order of those there are.

    :param all_types: all there are.
    :param narrow: returns of a type what may be had, None for nothing.
    """

    def __init__(self, all_types: Mapping[str, GPUType], narrow: Callable[[GPUType], GPUType | None]) -> None:
        self._types = all_types
        self._narrowed = narrow
        self._known: dict[str, GPUType | None] = {}

    def __getitem__(self, slug: str) -> GPUType:
        if slug not in self._known:
            self._known[slug] = self._narrowed(self._types[slug])
        found = self._known[slug]
        if found is None:
            raise KeyError(slug)
        return found

    def __iter__(self) -> Iterator[str]:
        return (slug for slug in self._types if slug in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class DeniedTypes(Sequence[GPUType]):
    """The types out of a person's reach.

    :param find_denied: yields them; called once, when somebody looks.
    """

    def __init__(self, find_denied: Callable[[], Iterable[GPUType]]) -> None:
        self._find = find_denied

    @cached_property
    def _found(self) -> tuple[GPUType, ...]:
        return tuple(self._find())

    @overload
    def __getitem__(self, index: int) -> GPUType: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[GPUType, ...]: ...
    def __getitem__(self, index: int | slice) -> GPUType | tuple[GPUType, ...]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)
