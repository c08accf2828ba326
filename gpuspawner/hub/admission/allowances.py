"""What the person a spawner is for may have now, and who is let through: the policy, at work in the hub's process."""

from __future__ import annotations

from typing import Any

from gpuspawner.core.catalog.policy_rules import Person, Policy, Rule
from gpuspawner.core.errors import PolicyError
from gpuspawner.core.policy import denials
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.policy import resolve_rule
from gpuspawner.core.policy.usage import RemainingQuota, ServerUsage, Usage, sum_usage
from gpuspawner.hub.admission.gate import Admission, admit_choice
from gpuspawner.hub.admission.ledger import Reservations
from gpuspawner.hub.admission.persons import UserGroups
from gpuspawner.hub.config.offers import Offer
from gpuspawner.hub.kubespawner.own_servers import ensure_pods_watched
from gpuspawner.kube.resources.quotas import QUOTA_CACHE_S

_NO_SERVER_NAME = "/"
"""What no server is called."""
_MAX_RULES = 4096
"""People of whom is known what all rules come to."""


class AdmissionService:
    """One for the hub's process.

    :ivar reservations: the servers that limits are counted from.
    """

    def __init__(self) -> None:
        self.reservations = Reservations()
        self._user_groups = UserGroups()
        self._policy: Policy | None = None
        self._rules: dict[Person, Rule] = {}

    async def find_allowance(self, spawner: Any, offer: Offer, *, is_start: bool = False) -> Allowance:
        """Return what a spawner's person may have now.

        :param is_start: instead of what the spawner is starting, which does not count then.
        """
        but = spawner.name if is_start else _find_excluded_server(spawner)
        return self._build_allowance(spawner, offer, quota=await self._read_quota(spawner, offer), but=but)

    async def admit(self, spawner: Any, options: object, *, offer: Offer, is_start: bool) -> Admission:
        """Let user options through, by what the person may have in this very moment.

        :param options: any JSON value.
        :param is_start: the server is being started now, and counts from here on.
        :raises SelectionError: see :func:`gpuspawner.hub.admission.gate.admit_choice`.
        """
        try:
            return await self._admit_once(spawner, options, offer=offer, is_start=is_start)
        except PolicyError as error:
            if all(problem.code != denials.NAMESPACE_QUOTA for problem in error.problems):
                raise
        # What a quota leaves was read a moment ago; somebody may have stopped a server since then.
        return await self._admit_once(spawner, options, offer=offer, is_start=is_start, max_age_s=0.0)

    async def _admit_once(
        self, spawner: Any, options: object, *, offer: Offer, is_start: bool, max_age_s: float = QUOTA_CACHE_S
    ) -> Admission:
        quota = await self._read_quota(spawner, offer, max_age_s=max_age_s)
        # Nothing is waited for from here to the end: two starts at once must not both count without the other.
        but = spawner.name if is_start else _find_excluded_server(spawner)
        allowed = self._build_allowance(spawner, offer, quota=quota, but=but)
        admission = admit_choice(options, offer, base=spawner._trait_overrides, allowance=allowed)
        if is_start and offer.catalogue.policy is not None:
            self.reservations.reserve(spawner, _build_server(spawner, admission))
        return admission

    async def _read_quota(
        self, spawner: Any, offer: Offer, *, max_age_s: float = QUOTA_CACHE_S
    ) -> RemainingQuota | None:
        """Wait until all can be told that the cluster has to be asked for; return what quotas leave."""
        if offer.catalogue.policy is not None:
            await ensure_pods_watched(spawner, timeout_s=spawner.capacity_timeout)
        return (
            await offer.quotas.read_remaining(spawner.namespace, max_age_s=max_age_s)
            if offer.quotas is not None
            else None
        )

    def _build_allowance(self, spawner: Any, offer: Offer, *, quota: RemainingQuota | None, but: str) -> Allowance:
        policy = offer.catalogue.policy
        if policy is None:
            return Allowance(
                full_catalog=offer.catalogue, person=Person(name=spawner.user.name), usage=Usage(quota=quota)
            )
        person = self._user_groups.read_person(spawner, policy)
        servers = self.reservations.list_servers(
            spawner,
            offer.catalogue,
            inventory=offer.inventory,
            read_groups=lambda names: self._user_groups.read_groups(names, spawner),
        )
        usage = sum_usage(person.name, servers or (), excluding=but, quota=quota, known=servers is not None)
        return Allowance(full_catalog=offer.catalogue, person=person, rule=self._find_rule(policy, person), usage=usage)

    def _find_rule(self, policy: Policy, person: Person) -> Rule:
        """Return what all rules come to for a person, put together once while nothing of it changes."""
        if policy is not self._policy or len(self._rules) >= _MAX_RULES:
            self._policy, self._rules = policy, {}
        if person not in self._rules:
            self._rules[person] = resolve_rule(policy, person)
        return self._rules[person]


def _find_excluded_server(spawner: Any) -> str:
    """Return the name of the server that a form is about.

    After a form for a named server that was not right, JupyterHub shows that of the default server, which may be
    running and has to be counted then.
    """
    return _NO_SERVER_NAME if spawner.active else str(spawner.name)


def _build_server(spawner: Any, admission: Admission) -> ServerUsage:
    gpu = None if admission.gpu is None else admission.gpu.slug
    return ServerUsage(
        owner=spawner.user.name, name=spawner.name, gpu=gpu, count=admission.gpu_count, pools=admission.pools
    )
