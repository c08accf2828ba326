"""References of container images: what is one, and which registry it leads to.

The grammar is that of https://github.com/distribution/reference, by which kubelet and container runtimes read them, as
is the rule for a name without a registry. What it lets through by mistake, or no kubelet takes, is none here: a first
folder with capital letters, or with both a dot and an underscore; digests of algorithms that nobody knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EXAMPLE_REFERENCE = "quay.io/jupyter/scipy-notebook:2026-10-01"
"""What a reference looks like, for messages."""

_MAX_NAME_LENGTH = 255
"""Characters of registry and repository together; many clients take no more (OCI distribution specification)."""
_MAX_TAG_LENGTH = 128
_DIGESTS = {"sha256": 64, "sha384": 96, "sha512": 128}
"""Algorithm → hexadecimal digits, as github.com/opencontainers/go-digest knows them."""
MAX_REFERENCE_LENGTH = _MAX_NAME_LENGTH + len(":") + _MAX_TAG_LENGTH + len("@sha512:") + _DIGESTS["sha512"]
"""Characters of the longest text that can be one."""

_HUB, _HUB_FORMERLY = "docker.io", "index.docker.io"
_OFFICIAL = "library/"
"""Where Docker Hub keeps repositories that are named without a folder."""

# None of these can match the same text in two ways, so a text that is nearly one costs no more than one that is.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})+|\[[A-Fa-f0-9]*:[A-Fa-f0-9:]*\]"
_REGISTRY = rf"(?:{_HOST})(?::[0-9]+)?|{_LABEL}:[0-9]+|(?i:localhost)"
"""A repository's folder looks like none of these."""
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_TAG = rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{_MAX_TAG_LENGTH - 1}}}"
_DIGEST = "|".join(rf"{algorithm}:[a-f0-9]{{{digits}}}" for algorithm, digits in _DIGESTS.items())

_REFERENCE = re.compile(
    rf"(?:(?P<host>{_REGISTRY})/)?(?P<path>{_PATH})(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?", re.ASCII
)
_ORIGIN = re.compile(rf"(?P<host>{_REGISTRY})(?P<path>/{_PATH})?", re.ASCII)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
"""What programs take for the number of an image, and not for a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """Where an image is, with nothing left to be guessed but the tag.

    :param registry: host, with a port where one was named, in small letters.
    :param repository: the name in it; of Docker Hub always with a folder.
    :param tag: empty where none was named.
    :param digest: empty where none was named.
    """

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def full(self) -> str:
        """The whole of it, as a text that nobody reads differently."""
        tag, digest = (f"{sign}{part}" if part else "" for sign, part in ((":", self.tag), ("@", self.digest)))
        return f"{self.name}{tag}{digest}"

    def is_from(self, origin: str) -> bool:
        """Tell whether it comes from a place, as :func:`parse_origin` returns it: the place itself, or inside of it."""
        return f"{self.name}/".startswith(f"{origin}/")


def parse_reference(text: str) -> ImageReference | None:
    """Return what a text refers to, None where it is no reference of an image."""
    found = _REFERENCE.fullmatch(text) if len(text) <= MAX_REFERENCE_LENGTH else None
    if found is None or _IDENTIFIER.fullmatch(text):
        return None
    host, path = found["host"], found["path"]
    folder, slash, _ = path.partition("/")
    if host is None and slash and "." in folder:
        return None  # what has a dot there is taken for a registry, and this one cannot be one
    registry = _HUB if host is None else _normalize_registry(host)
    repository = f"{_OFFICIAL}{path}" if registry == _HUB and not slash else path
    if len(f"{registry}/{repository}") > _MAX_NAME_LENGTH:
        return None
    return ImageReference(
        registry=registry, repository=repository, tag=found["tag"] or "", digest=found["digest"] or ""
    )


def parse_origin(text: str) -> str | None:
    """Return a registry, or the beginning of names in one, as it is compared; None where a text is neither.

    A beginning consists of whole parts: ``ghcr.io/acme`` is none of ``ghcr.io/acme-labs/x``.
    """
    found = _ORIGIN.fullmatch(text) if len(text) <= _MAX_NAME_LENGTH else None
    return None if found is None else f"{_normalize_registry(found['host'])}{found['path'] or ''}"


def _normalize_registry(host: str) -> str:
    registry = host.lower()
    return _HUB if registry == _HUB_FORMERLY else registry
