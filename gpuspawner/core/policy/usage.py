"""What is in use: the servers that exist or are being started, and what namespaces' quotas leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUsage:
    """One server whose pod exists, or that is being started.

    :param owner: name of the user it belongs to.
    :param name: of a named server, empty for a user's default one.
    :param gpu: slug of the GPU type it was started with, None without a GPU; empty where its pod does not say.
    :param count: GPUs it holds or waits for.
    :param pools: slugs of the pools that it counts towards, as they were when it was started.
    """

    owner: str
    name: str
    gpu: str | None = None
    count: int = 0
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingQuota:
    """What the ResourceQuotas of a namespace leave for one more server, the least of them.

    :param left: by resource as a ResourceQuota writes it: ``requests.nvidia.com/gpu`` and other extended resources,
        ``limits.cpu`` and ``requests.cpu`` in millicores, ``limits.memory`` and ``requests.memory`` in bytes, ``pods``.
        A quota's ``cpu`` and ``memory`` are the same as its requests of them. What is missing has no limit.
    """

    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What is in use besides the one server that is asked about.

    :param own: servers of the person it is for.
    :param pools: slug → GPUs that all servers together hold which count towards the pool; a missing one holds none.
    :param quota: None where there is none, or none that may be read.
    :param known: False while nobody can tell which servers there are.
    """

    own: tuple[ServerUsage, ...] = ()
    pools: Mapping[str, int] = field(default_factory=dict)
    quota: RemainingQuota | None = None
    known: bool = True


def sum_usage(
    person: str,
    servers: Iterable[ServerUsage],
    *,
    excluding: str,
    quota: RemainingQuota | None = None,
    known: bool = True,
) -> Usage:
    """Return what is in use besides one server of a person.

    :param person: name of the user whose server it is.
    :param servers: of everybody.
    :param excluding: name of the server that is asked about: what it holds from before, it need not get again.
    """
    others = [server for server in servers if (server.owner, server.name) != (person, excluding)]
    pools: Counter[str] = Counter()
    for server in others:
        for pool in server.pools:
            pools[pool] += server.count
    return Usage(
        own=tuple(server for server in others if server.owner == person), pools=dict(pools), quota=quota, known=known
    )
