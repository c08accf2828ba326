"""An image that is being fetched, or cannot be, in words."""

from __future__ import annotations

from gpuspawner.core.progress.pulls import Pulled, PullFailure
from gpuspawner.core.text.language import gettext
from gpuspawner.core.units.words import duration, memory

_IN_SECONDS = 90
_PER_MINUTE = 60


def pulling_sentence(image: str) -> str:
    """Return that an image is being fetched.

    :param image: empty where it is not the server's own.
    """
    if not image:
        return gettext("An image that the server needs is being fetched.")
    return gettext("The image {image} is being fetched.", image=image)


def so_far(seconds: float) -> str:
    """Return how long it has been going on, empty for the first half minute."""
    if seconds < _IN_SECONDS / 3:
        return ""
    return gettext("That has taken {duration} so far.", duration=_time(seconds))


def pulled_sentence(known: Pulled) -> str:
    """Return that an image is on the node, with its size and how long it took where those are known."""
    if known.was_there:
        return gettext("The image was on the node already.")
    if known.seconds is None:
        return gettext("The image has been fetched.")
    time = _time(known.seconds)
    if not known.size_bytes:
        return gettext("The image was fetched in {duration}.", duration=time)
    return gettext("The image was fetched in {duration} ({size}).", duration=time, size=memory(known.size_bytes))


def failure_sentence(failure: PullFailure, image: str) -> str:
    """Return why an image cannot be had."""
    match failure:
        case PullFailure.NOT_FOUND:
            return gettext("The image {image} does not exist, or not under this tag.", image=image)
        case PullFailure.DENIED:
            return gettext("The image {image} does not exist, or the cluster may not fetch it.", image=image)
        case PullFailure.PLATFORM:
            return gettext("The image {image} was not made for the processors of the node.", image=image)
        case PullFailure.RATE_LIMIT:
            return gettext(
                "Too many images are being fetched right now; the image {image} is tried again.", image=image
            )
        case PullFailure.DISK_FULL:
            return gettext("The node has no disk space left for the image {image}; it is tried again.", image=image)
        case PullFailure.UNREACHABLE:
            return gettext("The registry of the image {image} does not answer; it is tried again.", image=image)
        case PullFailure.OTHER:
            return gettext("The image {image} could not be fetched; it is tried again.", image=image)


def _time(seconds: float) -> str:
    if seconds < _IN_SECONDS:
        return gettext("{seconds} s", seconds=max(1, round(seconds)))
    return duration(seconds / _PER_MINUTE)
