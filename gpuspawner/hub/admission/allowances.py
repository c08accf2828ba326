"""What the person a spawner is for may have now, and who is let through: the policy, at work in the hub's process."""

from __future__ import annotations

from typing import Any

from gpuspawner.core.catalog.policy_rules import Person, Policy, Rule
from gpuspawner.core.errors import PolicyError
from gpuspawner.core.policy import denials
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.policy import limits_of
from gpuspawner.core.policy.usage import Quota, Server, Usage, usage_of
from gpuspawner.hub.admission.gate import Admission, admit
from gpuspawner.hub.admission.ledger import Ledger
from gpuspawner.hub.admission.persons import Persons
from gpuspawner.hub.config.offers import Offer
from gpuspawner.hub.kubespawner.own_servers import watch
from gpuspawner.kube.resources.quotas import KEPT_S

_NO_SERVER = "/"
"""What no server is called."""
_MOST_RULES = 4096
"""People of whom is known what all rules come to."""


class Allowances:
    """One for the hub's process.

    :ivar ledger: the servers that limits are counted from.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._persons = Persons()
        self._policy: Policy | None = None
        self._rules: dict[Person, Rule] = {}

    async def look(self, spawner: Any, offer: Offer, *, is_start: bool = False) -> Allowance:
        """Return what a spawner's person may have now.

        :param is_start: instead of what the spawner is starting, which does not count then.
        """
        but = spawner.name if is_start else _asked_about(spawner)
        return self._now(spawner, offer, quota=await self._ready(spawner, offer), but=but)

    async def admit(self, spawner: Any, options: object, *, offer: Offer, is_start: bool) -> Admission:
        """Let user options through, by what the person may have in this very moment.

        :param options: any JSON value.
        :param is_start: the server is being started now, and counts from here on.
        :raises SelectionError: see :func:`gpuspawner.hub.admission.gate.admit`.
        """
        try:
            return await self._decide(spawner, options, offer=offer, is_start=is_start)
        except PolicyError as error:
            if all(problem.code != denials.NAMESPACE_QUOTA for problem in error.problems):
                raise
        # What a quota leaves was read a moment ago; somebody may have stopped a server since then.
        return await self._decide(spawner, options, offer=offer, is_start=is_start, within_s=0.0)

    async def _decide(
        self, spawner: Any, options: object, *, offer: Offer, is_start: bool, within_s: float = KEPT_S
    ) -> Admission:
        quota = await self._ready(spawner, offer, within_s=within_s)
        # Nothing is waited for from here to the end: two starts at once must not both count without the other.
        but = spawner.name if is_start else _asked_about(spawner)
        allowed = self._now(spawner, offer, quota=quota, but=but)
        admission = admit(options, offer, base=spawner._base, allowance=allowed)
        if is_start and offer.catalogue.policy is not None:
            self.ledger.reserve(spawner, _server(spawner, admission))
        return admission

    async def _ready(self, spawner: Any, offer: Offer, *, within_s: float = KEPT_S) -> Quota | None:
        """Wait until all can be told that the cluster has to be asked for; return what quotas leave."""
        if offer.catalogue.policy is not None:
            await watch(spawner, timeout_s=spawner.capacity_timeout)
        return await offer.quotas.left(spawner.namespace, within_s=within_s) if offer.quotas is not None else None

    def _now(self, spawner: Any, offer: Offer, *, quota: Quota | None, but: str) -> Allowance:
        policy = offer.catalogue.policy
        if policy is None:
            return Allowance(
                everything=offer.catalogue, person=Person(name=spawner.user.name), usage=Usage(quota=quota)
            )
        person = self._persons.of(spawner, policy)
        servers = self.ledger.servers(
            spawner,
            offer.catalogue,
            inventory=offer.inventory,
            groups_of=lambda names: self._persons.groups(names, spawner),
        )
        usage = usage_of(person.name, servers or (), but=but, quota=quota, known=servers is not None)
        return Allowance(everything=offer.catalogue, person=person, rule=self._rule(policy, person), usage=usage)

    def _rule(self, policy: Policy, person: Person) -> Rule:
        """Return what all rules come to for a person, put together once while nothing of it changes."""
        if policy is not self._policy or len(self._rules) >= _MOST_RULES:
            self._policy, self._rules = policy, {}
        if person not in self._rules:
            self._rules[person] = limits_of(policy, person)
        return self._rules[person]


def _asked_about(spawner: Any) -> str:
    """Return the name of the server that a form is about.

    After a form for a named server that was not right, JupyterHub shows that of the default server, which may be
    running and has to be counted then.
    """
    return _NO_SERVER if spawner.active else str(spawner.name)


def _server(spawner: Any, admission: Admission) -> Server:
    gpu = None if admission.gpu is None else admission.gpu.slug
    return Server(owner=spawner.user.name, name=spawner.name, gpu=gpu, count=admission.gpu_count, pools=admission.pools)
