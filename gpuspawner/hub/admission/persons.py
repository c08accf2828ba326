"""Whom a server is for, and which groups that person is in, from JupyterHub's database.

It is always the spawner's user, whoever asked: an admin who starts a server for somebody starts it by that person's
rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from jupyterhub import orm
from sqlalchemy.exc import SQLAlchemyError

from gpuspawner.core.catalog.policy_rules import Person, Policy, normalize_group
from gpuspawner.core.text.quoting import sanitize_name


class UserGroups:
    """Reads people's groups; one for the hub's process, which says once that they cannot be read."""

    def __init__(self) -> None:
        self._is_told = False
        self._policy: Policy | None = None
        self._told_names: set[str] = set()

    def read_person(self, spawner: Any, policy: Policy) -> Person:
        """Return whom a spawner's server is for; groups are only read where a policy asks for them."""
        if policy is not self._policy:
            self._policy = policy
            self._check_names(policy, spawner)
        if not policy.depends_on_groups:
            return Person(name=spawner.user.name)
        try:
            groups = frozenset(group.name for group in spawner.user.groups)
        except SQLAlchemyError as error:
            self._log_unreadable(spawner, error)
            return Person(name=spawner.user.name, groups=None)
        self._is_told = False
        return Person(name=spawner.user.name, groups=groups)

    def read_groups(self, names: Collection[str], spawner: Any) -> Mapping[str, frozenset[str]] | None:
        """Return people's groups, casefolded, by name of each who is in one; None where they cannot be read.

        :param spawner: anybody's, for its connection to the database.
        """
        if spawner.db is None:
            return None
        found: dict[str, set[str]] = {}
        try:
            query = spawner.db.query(orm.User.name, orm.Group.name).join(orm.User.groups)
            for name, group in query.filter(orm.User.name.in_(names)):
                found.setdefault(name, set()).add(normalize_group(group))
        except SQLAlchemyError as error:
            self._log_unreadable(spawner, error)
            return None
        return {name: frozenset(groups) for name, groups in found.items()}

    def _check_names(self, policy: Policy, spawner: Any) -> None:
        """Say which names of people are none as the hub writes them: their rules hold for nobody."""
        authenticator = getattr(spawner, "authenticator", None)
        if authenticator is None:
            return
        for name in sorted(policy.users.keys() - self._told_names):
            if (written := authenticator.normalize_username(name)) != name:
                self._told_names.add(name)
                text = "policy.users.%s holds for nobody: this hub writes the name %s"
                spawner.log.warning(text, sanitize_name(name), sanitize_name(written))

    def _log_unreadable(self, spawner: Any, error: Exception) -> None:
        if not self._is_told:
            self._is_told = True
            text = "Groups cannot be read from the hub's database, so nothing is let through that depends on them: %s"
            spawner.log.error(text, error)
