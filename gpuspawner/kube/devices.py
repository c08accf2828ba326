"""What DRA drivers offer, followed only in clusters that have extended resources which stand for devices.

Of all other clusters, nothing but their device classes is watched, which hardly ever change. What cannot be read is no
error: there are no such devices then, as far as anybody here knows.
https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from typing_extensions import override

from gpuspawner.core import decode_devices
from gpuspawner.core.device_counts import NOTHING, offered
from gpuspawner.core.devices import DeviceClaim, DeviceClass, DeviceSlice
from gpuspawner.core.occupancy import Occupancy
from gpuspawner.kube.follower import Follower
from gpuspawner.kube.targets import Key, Target

GROUP = "resource.k8s.io"
CLASSES, SLICES, CLAIMS = "deviceclasses", "resourceslices", "resourceclaims"


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


class Kept(Target[T]):
    """Keeps objects as they are read.

    :ivar version: grows with each change.
    """

    def __init__(self, read: Callable[[object], T]) -> None:
        self.version = 0
        self._read = read
        self._values: dict[Key, T] = {}

    @override
    def read(self, raw: object) -> T | None:
        return self._read(raw)

    @override
    def put(self, value: T) -> None:
        key = self.key(value)
        if self._values.get(key) != value:
            self._values[key] = value
            self.version += 1

    @override
    def drop(self, key: Key) -> None:
        if self._values.pop(key, None) is not None:
            self.version += 1

    @override
    def held(self) -> Sequence[T]:
        return tuple(self._values.values())

    @override
    def key(self, value: T) -> Key:
        return (getattr(value, "namespace", ""), value.name)


class _Classes(Kept[DeviceClass]):
    """Keeps device classes.

    :param found: called with the first one that an extended resource stands for.
    """

    def __init__(self, found: Callable[[], None]) -> None:
        super().__init__(decode_devices.device_class)
        self._found = found

    @override
    def put(self, value: DeviceClass) -> None:
        super().put(value)
        if value.resource:
            self._found()


class Devices:
    """Follows classes, and slices and claims once they matter, and keeps an occupancy's devices up to date.

    :param follow: begins to follow a resource of :data:`GROUP` by its plural.
    """

    def __init__(self, follow: Callable[[str, Target[Any]], Follower], *, occupancy: Occupancy) -> None:
        self._follow = follow
        self._occupancy = occupancy
        self._classes = _Classes(self._begin)
        self._slices: Kept[DeviceSlice] = Kept(decode_devices.device_slice)
        self._claims: Kept[DeviceClaim] = Kept(decode_devices.device_claim)
        self._followers: list[Follower] = []
        self._offered = NOTHING
        self._seen: tuple[object, ...] = ()

    @property
    def known(self) -> Sequence[Follower]:
        """Those that what is said of nodes depends on: none where no extended resource stands for devices."""
        return [each for each in self._followers if each.is_known] if self._matters else ()

    @property
    def _matters(self) -> bool:
        return len(self._followers) > 1

    def start(self) -> None:
        """Begin with the classes."""
        self._followers.append(self._follow(CLASSES, self._classes))

    async def tried(self) -> None:
        """Wait until there is something to say of all that matters."""
        # The first list of classes tells whether there is more.
        for follower in self._followers:
            await follower.tried.wait()

    def update(self) -> None:
        """Bring the occupancy's devices to what is known now."""
        slices_known, claims_known = (
            (each.is_known for each in self._followers[1:]) if self._matters else (False, False)
        )
        offer = (self._classes.version, self._slices.version, slices_known)
        seen = (*offer, self._claims.version, claims_known)
        if seen == self._seen:
            return
        if offer != self._seen[: len(offer)]:
            self._offered = offered(self._classes.held(), self._slices.held() if slices_known else None)
        self._occupancy.put_devices(self._offered.held_by(self._claims.held() if claims_known else None))
        self._seen = seen

    def _begin(self) -> None:
        if not self._matters:
            self._followers += [self._follow(SLICES, self._slices), self._follow(CLAIMS, self._claims)]
