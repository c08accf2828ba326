"""Parses kubelet's messages about image pulls, and formats messages about them for the user.

The texts of pull errors come from the container runtime (containerd, CRI-O) or from the registry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.units.duration import format_rough_duration
from gpuspawner.core.units.quantity import format_rounded_memory


class PullFailure(StrEnum):
    """The reasons why an image cannot be pulled."""

    RATE_LIMIT = "rate-limit"
    DISK_FULL = "disk-full"
    PLATFORM = "platform"
    DENIED = "denied"
    UNTRUSTED = "untrusted"
    """The node and the registry do not agree on TLS: a certificate, or HTTP instead of HTTPS."""
    DAMAGED_STORE = "damaged-store"
    """The node has lost or damaged what it had fetched; another try may fetch it anew."""
    NOT_FOUND = "not-found"
    UNREACHABLE = "unreachable"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledImage:
    """An image that is on the node.

    :param was_present: whether kubelet found the image on the node and did not pull it.
    :param seconds: duration of the pull; None if kubelet's message does not contain it.
    :param size_bytes: compressed size; None if kubelet's message does not contain it (before Kubernetes 1.30).
    """

    was_present: bool
    seconds: float | None = None
    size_bytes: int | None = None


_QUOTED = re.compile(r'"([^"]*)"')
_PULL_TIME = re.compile(r" in ((?:[\d.]{1,16}(?:h|ms|m|µs|us|ns|s)){1,5})")
_DURATION_PARTS = re.compile(r"([\d.]{1,16})(h|ms|m|µs|us|ns|s)")
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
_SIZE = re.compile(r"Image size: (\d{1,18}) bytes")
STORE_DAMAGE = (
    r"content digest|content store|(?:parent )?snapshot \S{1,200} does not exist|failed to stat parent"
    r"|layer not known|unexpected commit digest|failed size validation|read-only file system|input/output error"
)
"""Pattern (letters in any case) of what containerd (``content digest … not found``) and CRI-O write if the node's own
store of images is damaged."""
_FAILURES = tuple(
    (failure, re.compile(pattern, re.IGNORECASE))
    for failure, pattern in (
        (PullFailure.RATE_LIMIT, r"toomanyrequests|\b429\b|too many requests|pull rate limit|pull QPS exceeded"),
        (PullFailure.DISK_FULL, r"no space left on device|disk quota exceeded"),
        (PullFailure.DAMAGED_STORE, STORE_DAMAGE),
        # Kubelet's plugin for credentials is missing on the node, which says nothing about the image.
        (PullFailure.OTHER, r"executable file not found"),
        (PullFailure.PLATFORM, r"no match for platform|no image found in (?:manifest|image index)"),
        (PullFailure.PLATFORM, r"image operating system .{1,100} cannot be used"),
        (PullFailure.DENIED, r"pull access denied|access to the resource is denied|authorization failed"),
        (PullFailure.DENIED, r"insufficient_scope|unauthorized|\b401\b|\b403\b|forbidden|no basic auth credentials"),
        (PullFailure.DENIED, r"authentication required|permission[ _]denied"),
        # The clock of a new node may be slow until it is synchronized.
        (PullFailure.UNREACHABLE, r"not yet valid: current time \S+ is before"),
        (PullFailure.UNTRUSTED, r"x509|server gave HTTP response to HTTPS client|does not look like a TLS handshake"),
        (PullFailure.NOT_FOUND, r"manifest unknown|name unknown|repository name not known|\bnot ?found\b|\b404\b"),
        (PullFailure.UNREACHABLE, r"no such host|server misbehaving|connection re(?:fused|set)|\btimeout\b|timed out"),
        (
            PullFailure.UNREACHABLE,
            r"deadline exceeded|no route to host|network is unreachable|\bEOF\b|\b50[234]\b",
        ),
    )
)


def classify_pull_failure(message: str) -> PullFailure:
    """Return why an image cannot be pulled; OTHER if the message contains no known cause.

    :param message: message of kubelet's event, or of the waiting state in the container's status.
    """
    # Ignore names of images, which can contain words such as "timeout": texts in quotes, and words with a slash.
    words = " ".join(word for word in _QUOTED.sub(" ", message).split() if "/" not in word)
    return next((failure for failure, pattern in _FAILURES if pattern.search(words)), PullFailure.OTHER)


def is_store_damaged(message: str) -> bool:
    """Return whether a message of kubelet says that the node's own store of images is damaged."""
    return re.search(STORE_DAMAGE, message, re.IGNORECASE) is not None


def parse_pulled(message: str) -> PulledImage:
    """Return the duration and size in the message of kubelet's event ``Pulled``."""
    if "already present" in message:
        return PulledImage(was_present=True)
    pull_time, size = _PULL_TIME.search(_QUOTED.sub("", message)), _SIZE.search(message)
    return PulledImage(
        was_present=False,
        seconds=_parse_duration(pull_time[1]) if pull_time else None,
        size_bytes=int(size[1]) if size else None,
    )


def parse_image_name(message: str) -> str:
    """Return the image that a message of kubelet names, or "" if it names none."""
    found = _QUOTED.search(message)
    return found[1] if found else ""


def _parse_duration(text: str) -> float | None:
    try:
        return sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION_PARTS.findall(text))
    except ValueError:
        return None


_MAX_IN_SECONDS = 90
_PER_MINUTE = 60


def format_pulling(image: str) -> str:
    """Return a sentence that says that an image is being pulled.

    :param image: image reference; empty if the pod's spec does not contain the image that kubelet pulls.
    """
    if not image:
        return gettext("An image that the server needs is being fetched.")
    return gettext("The image {image} is being fetched.", image=image)


def format_elapsed(seconds: float) -> str:
    """Return a sentence that says how long the pull has lasted, or "" in its first 30 seconds."""
    if seconds < _MAX_IN_SECONDS / 3:
        return ""
    return gettext("That has taken {duration} so far.", duration=_format_time(seconds))


def format_pulled(image: PulledImage) -> str:
    """Return a sentence that says that an image is on the node, with the size and duration of the pull if known."""
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
    """Return a sentence that says why an image cannot be pulled."""
    match failure:
        case PullFailure.NOT_FOUND:
            return gettext("The image {image} does not exist, or not under this tag.", image=image)
        case PullFailure.DENIED:
            return gettext("The image {image} does not exist, or the cluster may not fetch it.", image=image)
        case PullFailure.UNTRUSTED:
            return gettext(
                "The node can't connect securely to the registry of the image {image}. Ask an admin.", image=image
            )
        case PullFailure.DAMAGED_STORE:
            return gettext("The node's copy of the image {image} is damaged. The node tries again.", image=image)
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
