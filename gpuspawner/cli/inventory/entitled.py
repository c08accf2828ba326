"""Who may have which GPU type by the rules of the settings, whatever is in use."""

from __future__ import annotations

from dataclasses import dataclass

from gpuspawner.core.catalog.catalogue import Catalog
from gpuspawner.core.catalog.policy_rules import Person
from gpuspawner.core.policy.allowance import resolve_allowance
from gpuspawner.core.policy.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeAccess:
    """Who may have a GPU type.

    :param everybody: all but the groups and users that are named; otherwise nobody but them.
    """

    everybody: bool
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return it in words."""
        named = [f"group {name}" for name in self.groups] + [f"user {name}" for name in self.users]
        if self.everybody:
            return f"everybody but {', '.join(named)}" if named else "everybody"
        return ", ".join(named) or "nobody"


def find_type_access(catalogue: Catalog) -> dict[str, TypeAccess]:
    """Return who may have each GPU type, by slug.

    A group stands for somebody who is in it and in no other, a user for somebody who is in none.
    """
    policy = catalogue.policy
    if policy is None:
        return dict.fromkeys(catalogue.gpus, TypeAccess(everybody=True))
    anybody = _list_allowed_types(catalogue, Person(name=""))
    groups = {name: _list_allowed_types(catalogue, Person(name="", groups=frozenset({name}))) for name in policy.groups}
    users = {name: _list_allowed_types(catalogue, Person(name=name)) for name in policy.users}
    found = {}
    for slug in catalogue.gpus:
        everybody = slug in anybody
        other_groups = tuple(name for name, reach in groups.items() if (slug in reach) is not everybody)
        other_users = tuple(name for name, reach in users.items() if (slug in reach) is not everybody)
        found[slug] = TypeAccess(everybody=everybody, groups=other_groups, users=other_users)
    return found


def _list_allowed_types(catalogue: Catalog, person: Person) -> frozenset[str]:
    return frozenset(resolve_allowance(catalogue, person, usage=Usage()).catalogue.gpus)
