"""Model the admin's policy: rules for users and groups, and pools of GPUs that groups share.

:mod:`gpuspawner.core.policy.rules` merges the rules that apply to a user.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

UNLIMITED = sys.maxsize
"""Value of a limit in a rule: the rule explicitly allows any amount."""
ANY = "*"
"""Wildcard in a rule: every image (or priority), or every GPU type that the rule does not name."""


def normalize_group(group: str) -> str:
    """Return a group name normalized for comparison: identity providers differ in letter case and Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", group).casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountRange:
    """Smallest and largest allowed amount in base units (millicores or bytes); None = no limit given."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUTypeRule:
    """Limits that a rule sets for one GPU type; None = no limit set. A unit is a whole GPU, a MIG slice or a share.

    :param max_gpus: largest number of units in all servers of the user together.
    :param max_gpus_per_server: largest number of units in one server.
    :param max_runtime_s: seconds after which the pod of a server with the type ends (``activeDeadlineSeconds``).
    """

    max_gpus: int | None = None
    max_gpus_per_server: int | None = None
    max_runtime_s: int | None = None


GPUTypeRules = Mapping[str, GPUTypeRule]
"""Limits that a policy rule sets for GPU types: slug of a type → limits.

The key :data:`ANY` stands for all types that the mapping does not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The limits for a user, a group or every user. A unit is a whole GPU, a MIG slice or a share.

    None = the rule does not set this limit. :data:`UNLIMITED` = the rule allows any amount.

    :param choices: field name → the allowed slugs, or :data:`ANY`; a missing field is not restricted.
    :param custom_images: whether users may name images by reference, if the catalog allows custom images.
    :param gpus: slug of an allowed GPU type, or :data:`ANY` → limits for the type; types that are missing are denied.
    :param max_gpus: largest number of units in all servers of a user together.
    :param max_gpus_per_server: largest number of units, of any type, in one server.
    :param max_servers_with_gpu: largest number of a user's servers that have a GPU.
    :param cpu: allowed amounts in millicores.
    :param memory: allowed amounts in bytes.
    :param max_runtime_s: seconds after which the pod of any server ends (``activeDeadlineSeconds``).
    :param deny: True = the rule only restricts what other rules allow.
    :param sources: in a merged rule, the ``gpus`` of each rule without ``deny``; may be empty if there is only one.
        :func:`gpuspawner.core.policy.rules.find_member_rule` reads ``sources`` and ``caps``.
    :param caps: in a merged rule, the ``gpus`` of each rule with ``deny``.
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
        """Return whether the rule allows a choice in a form field, for example one image.

        :param name: name of the field.
        :param slug: slug of the choice.
        """
        slugs = self.choices.get(name)
        return slugs is None or slug in slugs or ANY in slugs

    def find_type_rule(self, slug: str) -> GPUTypeRule | None:
        """Return the limits for a GPU type, or None if the type is not allowed.

        If the rule does not set ``gpus``, each type is allowed without limits.
        """
        if self.gpus is None:
            return GPUTypeRule()
        return self.gpus.get(slug, self.gpus.get(ANY))


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUPool:
    """A pool of GPUs: a limit on the GPUs that the members of some groups use together.

    :param groups: normalized group names.
    :param gpus: slugs of the GPU types that count against the pool, or :data:`ANY`.
    :param max_gpus: largest number of units (whole GPUs, MIG slices or shares) in all servers of the groups' members
        together.
    """

    slug: str
    display_name: str
    groups: frozenset[str]
    gpus: frozenset[str]
    max_gpus: int

    def covers_any(self, slugs: Collection[str]) -> bool:
        """Return whether servers with a GPU type count against the pool.

        :param slugs: the slug of the GPU type; for a combined type also the slugs of the types that it combines.
        """
        return ANY in self.gpus or not self.gpus.isdisjoint(slugs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The user that a server is for.

    :param name: the JupyterHub user name.
    :param groups: group names as the hub has them; None = they could not be read.
    """

    name: str
    groups: frozenset[str] | None = frozenset()

    @property
    def normalized_groups(self) -> frozenset[str]:
        """The user's group names, normalized for comparison."""
        return frozenset(normalize_group(group) for group in self.groups or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The users who may choose one image, GPU type or preset: members of groups, and single users.

    :param groups: normalized group names.
    :param users: user names.
    """

    groups: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()

    def admits(self, person: Person) -> bool:
        """Return whether a user is among ``users`` or a member of one of ``groups``; unknown groups count as none."""
        return person.name in self.users or not self.groups.isdisjoint(person.normalized_groups)


AccessKey = tuple[str, ...]
"""Names one choice in the form, for example ``("image", "pytorch")`` or ``("gpu", "a100")``.

``("preset", "small", "memory", "mem-16")`` names the choice ``mem-16`` in the list ``memory`` of the preset ``small``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All rules of the admin.

    :param default: the rule for every user.
    :param groups: normalized group name → rule.
    :param users: user name → rule.
    :param pools: slug → pool of GPUs that groups share.
    :param hide: whether the form leaves out choices that the user may never have. False = the form shows and disables
        them.
    :param access: choice → the users who may choose it; a missing choice is open to all. Rules may still deny it.
    :param group_names: names of all groups in ``groups``, ``pools`` and ``access``, as the admin wrote them.
    """

    default: Rule = field(default_factory=Rule)
    groups: Mapping[str, Rule] = field(default_factory=dict)
    users: Mapping[str, Rule] = field(default_factory=dict)
    pools: Mapping[str, GPUPool] = field(default_factory=dict)
    hide: bool = False
    access: Mapping[AccessKey, Access] = field(default_factory=dict)
    group_names: frozenset[str] = frozenset()

    @property
    def depends_on_groups(self) -> bool:
        """Whether any limit depends on a user's groups."""
        return bool(self.groups or self.pools) or any(each.groups for each in self.access.values())

    def admits(self, person: Person, *key: str) -> bool:
        """Return whether ``allowed_groups`` and ``allowed_users`` of an image, GPU type or preset let a user choose it.

        :param person: the server's user.
        :param key: the :data:`AccessKey` of the choice.
        """
        access = self.access.get(key)
        return access is None or access.admits(person)
