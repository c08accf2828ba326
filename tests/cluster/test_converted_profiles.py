"""Converted profile lists on a real hub and cluster: the same node pools as before, and refusals for the same users.

The nodes are simulated, with labels and taints as clouds and operators set them; the scheduler is real.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from gpuspawner.core.units.quantity import parse_millis
from tests.cluster.support.cloud import pool_of
from tests.cluster.support.conversion import Conversion, converted, list_names
from tests.cluster.support.servers import Servers
from tests.cluster.support.trial import api, cluster

__all__ = ["api", "cluster"]


@pytest.fixture(scope="module", params=list_names())
def conversion(
    request: pytest.FixtureRequest, cluster: Cluster, api: ApiClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Conversion]:
    """Run the hubs of one profile list."""
    name = str(request.param)
    with converted(cluster, api, name, tmp_path_factory.mktemp(name)) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a server is, and its limits and requests as the API server holds them."""

    pool: str
    limits: dict[str, int]
    requests: dict[str, int]


def read_amounts(amounts: Mapping[str, str] | None) -> dict[str, int]:
    """Return the name of a resource → its amount in thousandths: the API server keeps 6.938 and 6938m as they came."""
    return {name: parse_millis(amount) for name, amount in (amounts or {}).items()}


def place_all(servers: Servers, choices: Mapping[str, Mapping[str, object]]) -> dict[str, Placed]:
    """Start servers, and return where they are; their pods are gone afterwards, so that others find the nodes empty."""
    pods = servers.pods
    for user, options in choices.items():
        servers.begin(user, options)
    placed = {}
    for user in choices:
        pool = pool_of(pods.wait_bound(user))
        resources = pods.of(user).spec.containers[0].resources
        placed[user] = Placed(pool, read_amounts(resources.limits), read_amounts(resources.requests))
    pods.core.delete_collection_namespaced_pod(pods.namespace, grace_period_seconds=0)
    for user in choices:
        pods.wait_gone(user)
    return placed


def test_each_preset_has_the_resources_of_its_profile_and_goes_to_its_nodes(conversion: Conversion) -> None:
    before = place_all(conversion.old, {each.user: each.old for each in conversion.starts})
    after = place_all(conversion.new, {each.user: each.new for each in conversion.starts})

    pools = {each.user: each.pools for each in conversion.starts}
    found = {user: (before[user].pool, after[user].pool) for user in pools}
    resources = {user: replace(each, pool="") for user, each in after.items()}
    assert {user: both for user, both in found.items() if not set(both) <= set(pools[user])} == {}
    assert resources == {user: replace(each, pool="") for user, each in before.items()}


@pytest.mark.parametrize("conversion", ["groups"], indirect=True)
def test_users_outside_the_groups_are_refused(conversion: Conversion) -> None:
    answers = [conversion.new.ask(each.user, each.new).status for each in conversion.refused]

    assert answers == [403] * len(conversion.refused)
