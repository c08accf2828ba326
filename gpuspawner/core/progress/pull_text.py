"""An image that is being fetched, or cannot be, in words."""

from __future__ import annotations

from gpuspawner.core.progress.pulls import PulledImage, PullFailure
from gpuspawner.core.text.language import gettext
from gpuspawner.core.units.words import format_rough_duration, format_rounded_memory

_MAX_IN_SECONDS = 90
_PER_MINUTE = 60


def format_pulling(image: str) -> str:
    """Return that an image is being fetched.

    :param image: empty where it is not the server's own.
    """
    if not image:
        return gettext("An image that the server needs is being fetched.")
    return gettext("The image {image} is being fetched.", image=image)


def format_elapsed(seconds: float) -> str:
    """Return how long it has been going on, empty for the first half minute."""
    if seconds < _MAX_IN_SECONDS / 3:
        return ""
    return gettext("That has taken {duration} so far.", duration=_format_time(seconds))


def format_pulled(image: PulledImage) -> str:
    """Return that an image is on the node, with its size and how long it took where those are known."""
    if image.was_present:
        return gettext("The image was on the node already.")
    if image.seconds is None:
        return gettext("The image has been fetched.")
    time = _format_time(image.seconds)
    if not image.size_bytes:
        return gettext("The image was fetched in {duration}.", duration=time)
    return gettext(
        "The image was fetched in {duration} ({size}).", duration=time, size=format_rounded_memory(image.size_bytes)
    )


def format_pull_failure(failure: PullFailure, image: str) -> str:
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


def _format_time(seconds: float) -> str:
    if seconds < _MAX_IN_SECONDS:
        return gettext("{seconds} s", seconds=max(1, round(seconds)))
    return format_rough_duration(seconds / _PER_MINUTE)
