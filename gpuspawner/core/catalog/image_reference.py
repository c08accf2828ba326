"""Parse references of container images.

The grammar and the default registry are those of https://github.com/distribution/reference, which kubelet and container
runtimes use. This parser also rejects references that the grammar allows but no kubelet accepts:

- The text before the first ``/`` is not a registry, and has capital letters, or both a dot and an underscore.
- The digest has an unknown algorithm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

EXAMPLE_REFERENCE = "quay.io/jupyter/scipy-notebook:2026-10-01"
"""Image reference that messages show as an example."""

_MAX_NAME_LENGTH = 255
"""Largest length of registry and repository together; many clients accept no more (OCI distribution specification)."""
_MAX_TAG_LENGTH = 128
_DIGESTS = {"sha256": 64, "sha384": 96, "sha512": 128}
"""Digest algorithm → number of hexadecimal digits, as in github.com/opencontainers/go-digest."""
MAX_REFERENCE_LENGTH = _MAX_NAME_LENGTH + len(":") + _MAX_TAG_LENGTH + len("@sha512:") + _DIGESTS["sha512"]
"""Number of characters of the longest valid reference."""

_HUB, _HUB_FORMERLY = "docker.io", "index.docker.io"
_DEFAULT_TAG = "latest"
_OFFICIAL = "library/"
"""Namespace of Docker Hub's repositories that are written without a namespace: ``busybox`` is ``library/busybox``."""

# Each regular expression below can match a text in one way only. A hostile text therefore cannot make a match slow by
# backtracking.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})+|\[[A-Fa-f0-9]*:[A-Fa-f0-9:]*\]"
_REGISTRY = rf"(?:{_HOST})(?::[0-9]+)?|{_LABEL}:[0-9]+|(?i:localhost)"
"""Pattern of an image registry, such as ``ghcr.io``. If the text before the first ``/`` matches, it is the registry."""
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_TAG = rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{_MAX_TAG_LENGTH - 1}}}"
_DIGEST = "|".join(rf"{algorithm}:[a-f0-9]{{{digits}}}" for algorithm, digits in _DIGESTS.items())

_REFERENCE = re.compile(
    rf"(?:(?P<host>{_REGISTRY})/)?(?P<path>{_PATH})(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?", re.ASCII
)
_ORIGIN = re.compile(rf"(?P<host>{_REGISTRY})(?P<path>/{_PATH})?", re.ASCII)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
"""Pattern of an image ID, which container runtimes do not read as a reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """A normalized image reference. A missing tag stays empty; only :attr:`pulled` adds ``latest``.

    :param registry: lower-case host, with the port if one was given.
    :param repository: path in the registry; on Docker Hub always with a namespace.
    :param tag: empty if none was given.
    :param digest: empty if none was given.
    """

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """Registry and repository of the image (``docker.io/library/busybox``)."""
        return f"{self.registry}/{self.repository}"

    @property
    def full(self) -> str:
        """The complete reference with registry and namespace, which every container runtime reads the same way."""
        tag, digest = (f"{sign}{part}" if part else "" for sign, part in ((":", self.tag), ("@", self.digest)))
        return f"{self.name}{tag}{digest}"

    @property
    def pulled(self) -> str:
        """Reference by which a runtime pulls the image: with the digest, or else the tag, or else ``latest``."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag or _DEFAULT_TAG}"

    def is_from(self, origin: str) -> bool:
        """Return whether the image comes from a registry, or from a path in a registry.

        :param origin: the registry or path, as :func:`parse_origin` returns it.
        """
        return f"{self.name}/".startswith(f"{origin}/")


def parse_reference(text: str) -> ImageReference | None:
    """Return the normalized reference, or None if the text is not a valid image reference."""
    found = _REFERENCE.fullmatch(text) if len(text) <= MAX_REFERENCE_LENGTH else None
    if found is None or _IDENTIFIER.fullmatch(text):
        return None
    host, path = found["host"], found["path"]
    folder, slash, _ = path.partition("/")
    if host is None and slash and "." in folder:
        return None  # Container runtimes read `folder` as a registry because of the dot, but it is no valid registry.
    registry = _HUB if host is None else _normalize_registry(host)
    repository = f"{_OFFICIAL}{path}" if registry == _HUB and not slash else path
    if len(f"{registry}/{repository}") > _MAX_NAME_LENGTH:
        return None
    return ImageReference(
        registry=registry, repository=repository, tag=found["tag"] or "", digest=found["digest"] or ""
    )


def parse_origin(text: str) -> str | None:
    """Return the normalized form of a text that names a registry or a path in a registry; None for any other text.

    :meth:`ImageReference.is_from` compares only whole path components with the result: the image
    ``ghcr.io/acme-labs/x`` is not from ``ghcr.io/acme``.
    """
    found = _ORIGIN.fullmatch(text) if len(text) <= _MAX_NAME_LENGTH else None
    return None if found is None else f"{_normalize_registry(found['host'])}{found['path'] or ''}"


def _parse_image_origin(value: str) -> str:
    origin = parse_origin(value)
    if origin is None:
        raise ValueError("must be a registry or the beginning of names in one, such as ghcr.io or quay.io/jupyter")
    return origin


Origin = Annotated[str, AfterValidator(_parse_image_origin)]
"""A registry or a prefix of image names in the settings, normalized by :func:`parse_origin`."""


def _normalize_registry(host: str) -> str:
    registry = host.lower()
    return _HUB if registry == _HUB_FORMERLY else registry
