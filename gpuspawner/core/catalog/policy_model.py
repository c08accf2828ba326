"""What an admin says of who may have what, as values; :mod:`gpuspawner.core.policy.rules` puts rules together."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

UNLIMITED = sys.maxsize
"""A limit that is none, for a rule that says so."""
ANY = "*"
"""Stands for every slug: of images, and of GPU types that a rule does not name."""


def normalize_group(group: str) -> str:
    """Return the name of a group as it is compared: identity providers disagree on case and on how accents are kept."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", group).casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountRange:
    """The least and the most of an amount, in base units; None = nothing said."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUTypeRule:
    """What a rule says of one GPU type; None = nothing said.

    :param max_gpus: over all servers of a person.
    :param max_gpus_per_server: in one server.
    :param max_runtime_s: seconds after which a server with the type is stopped.
    """

    max_gpus: int | None = None
    max_gpus_per_server: int | None = None
    max_runtime_s: int | None = None


GPUTypeRules = Mapping[str, GPUTypeRule]
"""What is said of GPU types, by slug or :data:`ANY` for all that are not named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is said of one person, of a group's people or of everybody; None = nothing said.

    :param choices: name of a field → slugs that may be picked, or :data:`ANY`; nothing is said of a field left out.
    :param custom_images: whether images may be named by reference, where the catalogue has that at all.
    :param gpus: GPU types that may be had, by slug or :data:`ANY` for all that are not named.
    :param max_gpus: over all servers of a person; :data:`UNLIMITED` for no limit, as for all limits.
    :param max_gpus_per_server: in one server, of whichever type.
    :param max_servers_with_gpu: servers of a person that have a GPU.
    :param cpu: in millicores.
    :param memory: in bytes.
    :param max_runtime_s: seconds after which every server is stopped, with a GPU or without.
    :param deny: caps what other rules give instead of giving anything.
    :param sources: ``gpus`` of the rules that this one is put together of, none where it stands by itself.
    :param caps: ``gpus`` of the rules that cap these.
    """

    choices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    custom_images: bool | None = None
    gpus: GPUTypeRules | None = None
    max_gpus: int | None = None
    max_gpus_per_server: int | None = None
    max_servers_with_gpu: int | None = None
    cpu: AmountRange | None = None
    memory: AmountRange | None = None
    max_runtime_s: int | None = None
    deny: bool = False
    sources: tuple[GPUTypeRules, ...] = field(default=(), compare=False, repr=False)
    caps: tuple[GPUTypeRules, ...] = field(default=(), compare=False, repr=False)

    def allows_choice(self, name: str, slug: str) -> bool:
        """Return whether a slug may be picked.

        :param name: of the field.
        """
        slugs = self.choices.get(name)
        return slugs is None or slug in slugs or ANY in slugs

    def find_type_rule(self, slug: str) -> GPUTypeRule | None:
        """Return what is said of a GPU type, None where it may not be had."""
        if self.gpus is None:
            return GPUTypeRule()
        return self.gpus.get(slug, self.gpus.get(ANY))


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUPool:
    """GPUs that the people of some groups share.

    :param groups: casefolded names.
    :param gpus: slugs of GPU types, or :data:`ANY`.
    :param max_gpus: that all servers together may hold which were started by people of these groups.
    """

    slug: str
    display_name: str
    groups: frozenset[str]
    gpus: frozenset[str]
    max_gpus: int

    def covers_any(self, slugs: Collection[str]) -> bool:
        """Tell whether servers with a GPU type count here.

        :param slugs: of the type, and of those it stands for.
        """
        return ANY in self.gpus or not self.gpus.isdisjoint(slugs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All rules of an admin.

    :param groups: casefolded name → rule.
    :param users: name → rule.
    :param hide: what is out of reach is left out of the form instead of being greyed.
    """

    default: Rule = field(default_factory=Rule)
    groups: Mapping[str, Rule] = field(default_factory=dict)
    users: Mapping[str, Rule] = field(default_factory=dict)
    pools: Mapping[str, GPUPool] = field(default_factory=dict)
    hide: bool = False

    @property
    def depends_on_groups(self) -> bool:
        """Whether anything depends on the groups of a person."""
        return bool(self.groups or self.pools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Whom a server is for.

    :param groups: as the hub has them; None = could not be read.
    """

    name: str
    groups: frozenset[str] | None = frozenset()

    @property
    def normalized_groups(self) -> frozenset[str]:
        """The groups as they are compared."""
        return frozenset(normalize_group(group) for group in self.groups or ())
