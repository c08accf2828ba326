"""Decides whether a user may start a server, from the policy, the user's groups, running servers and quotas.

A server is subject to the policy rules of its user, even if an admin starts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeVar

from jupyterhub import orm
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from gpuspawner.core.catalog.policy_model import Person, Policy, Rule, normalize_group
from gpuspawner.core.errors import PolicyError
from gpuspawner.core.policy import denials
from gpuspawner.core.policy.admission import Admission, PodAdmission, UnreadClusterError, admit, admit_pod
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.rules import resolve_rule
from gpuspawner.core.policy.usage import RemainingQuota, ServerUsage, Usage, sum_usage
from gpuspawner.core.request.candidate import Candidate
from gpuspawner.core.request.options import check_size, is_too_large, split_options
from gpuspawner.core.text.wording import sanitize_name
from gpuspawner.hub.admission.reservations import Reservations
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.kubespawner.hub_pods import ensure_pods_watched
from gpuspawner.hub.request import context
from gpuspawner.hub.spawner_protocol import HubSpawner
from gpuspawner.kube.resources.resource_quotas import QUOTA_CACHE_S

AdmissionT = TypeVar("AdmissionT", Admission, PodAdmission)


class UserGroups:
    """Reads users' groups from JupyterHub's database; the hub's process has one object of this class.

    If the hub repeatedly fails to read groups, it logs only the first failure. After :meth:`read_person` has read
    groups successfully, the hub logs the next failure again.
    """

    def __init__(self) -> None:
        self._has_logged_failure = False
        self._policy: Policy | None = None
        self._logged_names: set[str] = set()
        self._spellings: dict[str, str] = {}
        """Normalized name of a group → the name as the hub first read it. The hub logs other spellings of the name."""
        self._logged_groups: set[str] = set()
        self._written: dict[str, set[str]] = {}
        """Normalized name of a group → the names of this group in the settings."""

    def read_person(self, spawner: HubSpawner, policy: Policy) -> Person:
        """Return the user of a spawner, with the user's groups if the policy depends on groups.

        If the settings name a group of the hub exactly, groups whose names differ from it only in case or in Unicode
        form are left out. If the database is not readable, the ``groups`` of the result are None.

        :param policy: all policy rules of the admin.
        """
        if policy is not self._policy:
            self._policy, self._written = policy, {}
            for name in policy.group_names:
                self._written.setdefault(normalize_group(name), set()).add(name)
            self._check_names(policy, spawner)
        if not policy.depends_on_groups:
            return Person(name=spawner.user.name)
        try:
            groups = frozenset(group.name for group in spawner.user.groups)
            groups -= self._find_lookalikes(groups, spawner)
        except SQLAlchemyError as error:
            self._log_unreadable(spawner, error)
            return Person(name=spawner.user.name, groups=None)
        self._has_logged_failure = False
        self._check_spellings(groups, spawner)
        return Person(name=spawner.user.name, groups=groups)

    def read_groups(self, names: Collection[str], spawner: HubSpawner) -> Mapping[str, frozenset[str]] | None:
        """Return a mapping from user names to normalized group names, or None if the database is not readable.

        Users without groups are missing from the mapping.

        :param spawner: any spawner of the hub, for its database session.
        """
        if spawner.db is None:
            return None
        found: dict[str, set[str]] = {}
        try:
            query = spawner.db.query(orm.User.name, orm.Group.name).join(orm.User.groups)
            rows = [(name, group) for name, group in query.filter(orm.User.name.in_(names))]
            groups = frozenset(group for _, group in rows)
            groups -= self._find_lookalikes(groups, spawner)
        except SQLAlchemyError as error:
            self._log_unreadable(spawner, error)
            return None
        self._check_spellings(groups, spawner)
        for name, group in rows:
            if group in groups:
                found.setdefault(name, set()).add(normalize_group(group))
        return {name: frozenset(normalized) for name, normalized in found.items()}

    def _find_lookalikes(self, groups: Iterable[str], spawner: HubSpawner) -> frozenset[str]:
        """Return the groups that the settings do not mean, because the hub has a group of exactly the written name."""
        written = {group: self._written.get(normalize_group(group), set()) for group in groups}
        written = {group: names for group, names in written.items() if names and group not in names}
        if not written or spawner.db is None:
            return frozenset()
        query = spawner.db.query(orm.Group.name).filter(orm.Group.name.in_(set().union(*written.values())))
        existing = {name for (name,) in query}  # Some databases ignore case, so compare the names again.
        return frozenset(group for group, names in written.items() if not existing.isdisjoint(names))

    def _check_names(self, policy: Policy, spawner: HubSpawner) -> None:
        authenticator = getattr(spawner, "authenticator", None)
        if authenticator is None:
            return
        allowed = {user for access in policy.access.values() for user in access.users}
        for name in sorted({*policy.users, *allowed} - self._logged_names):
            if (normalized := authenticator.normalize_username(name)) != name:
                self._logged_names.add(name)
                setting = "policy.users" if name in policy.users else "allowed_users"
                text = "%s.%s applies to no user: this hub writes the name %s"
                spawner.log.warning(text, setting, sanitize_name(name), sanitize_name(normalized))

    def _check_spellings(self, groups: Iterable[str], spawner: HubSpawner) -> None:
        for group in sorted(groups):
            first = self._spellings.setdefault(normalize_group(group), group)
            if group != first and group not in self._logged_groups:
                self._logged_groups.add(group)
                text = "The groups %s and %s are one group to the policy, which ignores letter case"
                spawner.log.warning(text, sanitize_name(first), sanitize_name(group))

    def _log_unreadable(self, spawner: HubSpawner, error: Exception) -> None:
        if not self._has_logged_failure:
            self._has_logged_failure = True
            text = "Groups cannot be read from the hub's database, so nothing is let through that depends on them: %s"
            spawner.log.error(text, error)


_guards_options: ContextVar[bool] = ContextVar("gpuspawner_guards_options", default=False)


def guard_stored_options() -> None:
    """During the current HTTP request, keep JupyterHub from storing user options that are too large.

    JupyterHub stores the options of a start before a spawner sees them. If the options are too large for the database,
    JupyterHub answers with status 500, counts a failed start and shows the server as running. Call this function in the
    request's own asyncio task, because this function sets a context variable.
    """
    _guards_options.set(True)


@event.listens_for(orm.Spawner.user_options, "set", retval=True, active_history=True)
def _keep_stored_options(_row: orm.Spawner, options: object, *before: object) -> object:
    return before[0] if _guards_options.get() and is_too_large(options) else options


_NO_SERVER_NAME = "/"
"""A name that no server has, because JupyterHub allows no slash in it. GPU limits that leave out the server of this
name count the GPUs of all servers."""
_MAX_RULES = 4096


class AdmissionService:
    """Admits or refuses users' choices; the hub's process has one object of this class.

    :ivar reservations: counts running servers and starts without a pod, for GPU limits.
    """

    def __init__(self) -> None:
        self.reservations = Reservations()
        self._user_groups = UserGroups()
        self._policy: Policy | None = None
        self._rules: dict[Person, Rule] = {}

    async def find_allowance(self, spawner: HubSpawner, offer: Offer, *, is_start: bool = False) -> Allowance:
        """Return what the spawner's user may choose now, by policy, GPU limits and quotas.

        :param offer: the catalog of choices and the cluster's state.
        :param is_start: True for a start of the spawner's server, False for the spawn form. At a start, the GPU limits
            do not count the GPUs of the spawner's server. For the form, they do not count the GPUs of the server that
            :func:`_find_excluded_server` returns.
        """
        excluding = spawner.name if is_start else _find_excluded_server(spawner)
        quota = await self._read_quota(spawner, offer, waits_again=False)
        return self._build_allowance(spawner, offer, quota=quota, excluding=excluding)

    async def admit(self, spawner: HubSpawner, options: object, *, offer: Offer, is_start: bool) -> Admission:
        """Check user options against what the spawner's user may choose now, and return the admission.

        The hub caches namespace quotas for a few seconds. If a cached quota is too small for the choice, the hub reads
        the quota again and repeats the check.

        :param options: the user options, any JSON value. Options that the admin lists in the trait ``extra_options``
            are returned unchanged.
        :param offer: the catalog of choices and the cluster's state.
        :param is_start: whether the spawner is starting its server; if so, and if the admin has set a policy, the
            chosen GPUs are reserved from now on.
        :raises SelectionError: the choice is invalid or not allowed.
        """
        check_size(options)
        own, extra = split_options(options, spawner.extra_options)
        unread_types = offer.uncounted if offer.unread_reason else None

        def decide(allowance: Allowance) -> tuple[Admission, ServerUsage]:
            admission = admit(own, allowance, unread_types=unread_types)
            chosen = admission.selection
            return admission, _make_usage(spawner, gpu=chosen.gpu, count=chosen.gpu_count, pools=admission.pools)

        admission = await self._decide(spawner, decide, offer=offer, is_start=is_start)
        return replace(admission, options={**extra, **admission.options}) if extra else admission

    async def admit_pod(
        self, spawner: HubSpawner, candidate: Candidate, *, offer: Offer, is_start: bool
    ) -> PodAdmission:
        """Check a finished pod, such as a profile's, against what the spawner's user may have now.

        :param spawner: the user's spawner.
        :param candidate: what the pod asks for.
        :param offer: the catalog of choices and the cluster's state.
        :param is_start: as for :meth:`admit`.
        :raises SelectionError: the user may not have the pod.
        """
        gpus = candidate.gpus

        def decide(allowance: Allowance) -> tuple[PodAdmission, ServerUsage]:
            try:
                admission = admit_pod(candidate, allowance)
            except PolicyError as error:
                # The nodes would say of which type the GPUs are, and so which limits hold.
                if offer.unread_reason and gpus.gpu == "" and any(problem.field == "gpu" for problem in error.problems):
                    raise UnreadClusterError(*error.problems) from error
                raise
            return admission, _make_usage(spawner, gpu=gpus.gpu, count=gpus.count, pools=admission.pools)

        return await self._decide(spawner, decide, offer=offer, is_start=is_start)

    async def _decide(
        self,
        spawner: HubSpawner,
        decide: Callable[[Allowance], tuple[AdmissionT, ServerUsage]],
        *,
        offer: Offer,
        is_start: bool,
    ) -> AdmissionT:
        max_age_s = QUOTA_CACHE_S
        while True:
            quota = await self._read_quota(spawner, offer, max_age_s=max_age_s)
            # Do not await from here to reserve(): of two concurrent starts, the second must count the first one's GPUs.
            excluding = spawner.name if is_start else _find_excluded_server(spawner)
            try:
                admission, server = decide(self._build_allowance(spawner, offer, quota=quota, excluding=excluding))
            except PolicyError as error:
                if not max_age_s or all(problem.code != denials.NAMESPACE_QUOTA for problem in error.problems):
                    raise
                max_age_s = 0.0
                continue
            if is_start and offer.catalog.policy is not None:
                context.raise_if_cancelled()
                self.reservations.reserve(spawner, server)
            return admission

    async def _read_quota(
        self, spawner: HubSpawner, offer: Offer, *, max_age_s: float = QUOTA_CACHE_S, waits_again: bool = True
    ) -> RemainingQuota | None:
        """Return the resources that the namespace's ResourceQuotas still allow.

        The result is None if the namespace has no ResourceQuotas, or if the hub cannot read them in time. If the admin
        has set a policy, wait for KubeSpawner's list of pods, too, because the policy's limits count these pods.
        """
        if offer.catalog.policy is None:
            return await offer.read_quota(spawner.namespace, max_age_s=max_age_s)
        quota, _ = await asyncio.gather(
            offer.read_quota(spawner.namespace, max_age_s=max_age_s),
            ensure_pods_watched(spawner, timeout_s=offer.wait_s, waits_again=waits_again),
        )
        return quota

    def _build_allowance(
        self, spawner: HubSpawner, offer: Offer, *, quota: RemainingQuota | None, excluding: str
    ) -> Allowance:
        policy = offer.catalog.policy
        if policy is None:
            return Allowance(
                full_catalog=offer.catalog, person=Person(name=spawner.user.name), usage=Usage(quota=quota)
            )
        person = self._user_groups.read_person(spawner, policy)
        servers = self.reservations.list_servers(
            spawner,
            offer.catalog,
            inventory=offer.inventory,
            read_groups=lambda names: self._user_groups.read_groups(names, spawner),
        )
        usage = sum_usage(person.name, servers or (), excluding=excluding, quota=quota, known=servers is not None)
        return Allowance(full_catalog=offer.catalog, person=person, rule=self._find_rule(policy, person), usage=usage)

    def _find_rule(self, policy: Policy, person: Person) -> Rule:
        if policy is not self._policy or len(self._rules) >= _MAX_RULES:
            self._policy, self._rules = policy, {}
        if person not in self._rules:
            self._rules[person] = resolve_rule(policy, person)
        return self._rules[person]


def _make_usage(spawner: HubSpawner, *, gpu: str | None, count: int, pools: tuple[str, ...]) -> ServerUsage:
    return ServerUsage(owner=spawner.user.name, name=spawner.name, gpu=gpu, count=count, pools=pools)


def _find_excluded_server(spawner: HubSpawner) -> str:
    """Return the name of the server that a spawn form is for, or ``/`` if unknown.

    GPU limits do not count the GPUs of the returned server. After an error in the form of a named server, JupyterHub
    asks the default server's spawner for the form. If the spawner's own server is active, the form is for another
    server.
    """
    return _NO_SERVER_NAME if spawner.active else str(spawner.name)
