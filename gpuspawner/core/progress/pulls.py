"""Reads how kubelet gets on with images: how long one took and how large it is, or why it cannot be had.

The words of a failure are those of the container runtime and of the registry; containerd and CRI-O pass both on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class PullFailure(StrEnum):
    """Why an image cannot be had."""

    RATE_LIMIT = "rate-limit"
    DISK_FULL = "disk-full"
    PLATFORM = "platform"
    DENIED = "denied"
    NOT_FOUND = "not-found"
    UNREACHABLE = "unreachable"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledImage:
    """An image that is on the node.

    :param was_present: it was there before.
    :param seconds: how long it took, None when not told.
    :param size_bytes: as it was fetched (compressed), None when not told: by kubelets before 1.30.
    """

    was_present: bool
    seconds: float | None = None
    size_bytes: int | None = None


_QUOTED = re.compile(r'"([^"]*)"')
_IMAGE_NAMES = re.compile(r'"[^"]*"|[^\s"]*/[^\s"]*')
"""What may be part of an image's name, which may hold any word."""
_PULL_TIME = re.compile(r" in ((?:[\d.]{1,16}(?:h|ms|m|µs|us|ns|s)){1,5})")
_DURATION_PARTS = re.compile(r"([\d.]+)(h|ms|m|µs|us|ns|s)")
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
_SIZE = re.compile(r"Image size: (\d{1,18}) bytes")
_FAILURES = tuple(
    (failure, re.compile(pattern, re.IGNORECASE))
    for failure, pattern in (
        (PullFailure.RATE_LIMIT, r"toomanyrequests|\b429\b|too many requests|pull rate limit|pull QPS exceeded"),
        (PullFailure.DISK_FULL, r"no space left on device|disk quota exceeded"),
        (PullFailure.PLATFORM, r"no match for platform|no image found in (?:manifest|image index)"),
        (PullFailure.PLATFORM, r"image operating system .* cannot be used"),
        (PullFailure.DENIED, r"pull access denied|access to the resource is denied|authorization failed"),
        (PullFailure.DENIED, r"insufficient_scope|unauthorized|\b401\b|\b403\b|forbidden|no basic auth credentials"),
        (PullFailure.DENIED, r"authentication required|permission[ _]denied"),
        (PullFailure.NOT_FOUND, r"manifest unknown|name unknown|repository name not known|\bnot ?found\b|\b404\b"),
        (PullFailure.UNREACHABLE, r"no such host|server misbehaving|connection re(?:fused|set)|\btimeout\b|timed out"),
        (
            PullFailure.UNREACHABLE,
            r"deadline exceeded|no route to host|network is unreachable|\bEOF\b|x509|\b50[234]\b",
        ),
    )
)


def classify_pull_failure(message: str) -> PullFailure:
    """Return why an image cannot be had, by the message of kubelet's event or of the container's state."""
    said = _IMAGE_NAMES.sub(" ", message)
    return next((failure for failure, pattern in _FAILURES if pattern.search(said)), PullFailure.OTHER)


def parse_pulled(message: str) -> PulledImage:
    """Return what the message of an event Pulled says."""
    if "already present" in message:
        return PulledImage(was_present=True)
    took, size = _PULL_TIME.search(_QUOTED.sub("", message)), _SIZE.search(message)
    return PulledImage(
        was_present=False, seconds=_parse_duration(took[1]) if took else None, size_bytes=int(size[1]) if size else None
    )


def parse_image_name(message: str) -> str:
    """Return the image that a message of kubelet's is about, empty where it names none."""
    found = _QUOTED.search(message)
    return found[1] if found else ""


def _parse_duration(told: str) -> float | None:
    """Return seconds of a duration as Go writes it: ``1m2.5s``."""
    try:
        return sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION_PARTS.findall(told))
    except ValueError:
        return None
