"""The cost of the policy and the gate in a spawn, in a busy hub: 200 servers run, and each user is in ten groups.

A choice passes the gate when its options are applied. Servers are counted, the user's allowance is computed, and
the start is written down; one pod has changed since the spawn before. The start checks the choice a second time only if
a hook has changed it, or if the catalog has changed. Groups come from a database (SQLite in memory), where JupyterHub
itself reads them at each start. Nothing is sent to a cluster, which a spawn does a dozen times anyway.

The measure is processor time of the hub's thread: other programs on the machine cannot lengthen it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from jupyterhub import orm
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from bench.render import busy_inventory, rich_catalog
from bench.result import Result
from gpuspawner.core.catalog.policy_model import ANY, UNLIMITED, AmountRange, GPUPool, GPUTypeRule, Policy, Rule
from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.config.offer import Offer

SPAWNS = 1000
WARM_UP = 20
SERVERS = 200
GROUPS = 10
POOLS = 4
USERS = 100
BUDGET_MS = 2.0
GIB = 1024**3
OPTIONS = {"v": 1, "image": "image-3", "cpu": 4, "memory": "16G", "gpu": "gpu-4", "gpu_count": 1}


def measure() -> Result:
    """Send many choices through the gate, with rules and without, and return what each took."""
    return asyncio.run(_measure())


async def _measure() -> Result:
    catalog, inventory = rich_catalog(), busy_inventory()
    free = Offer(catalog=catalog, inventory=inventory)
    ruled = Offer(catalog=replace(catalog, policy=_policy()), inventory=inventory)
    with Session(_database()) as db:
        # In turns, so that a machine that is slow for a while is so for both.
        hubs = {"gate_ms": (free, _Hub(db)), "ms": (ruled, _Hub(db))}
        times_ms: dict[str, list[float]] = {name: [] for name in hubs}
        for number in range(SPAWNS + WARM_UP):
            for name, (offer, hub) in hubs.items():
                times_ms[name].append(await hub.spawn(offer, number))
    percentiles = {name: statistics.quantiles(each[WARM_UP:], n=100) for name, each in times_ms.items()}
    return Result(
        name="policy",
        values={
            "gate_alone_ms": percentiles["gate_ms"][49],
            "p99_ms": percentiles["ms"][98],
            "gate_ms": percentiles["ms"][49],
        },
        budgets={"gate_ms": BUDGET_MS},
        details={
            "spawns": SPAWNS,
            "servers": SERVERS,
            "groups": GROUPS,
            "pools": POOLS,
            "images": len(catalog.images),
            "gpu_types": len(catalog.gpus),
            "nodes": len(inventory.nodes or ()),
        },
    )


class _Hub:
    """A hub's process as far as the gate sees it, with servers that run."""

    def __init__(self, db: Session) -> None:
        loaded = asyncio.get_running_loop().create_future()
        loaded.set_result(None)
        watch = SimpleNamespace(done=lambda: False)
        self._pods = {f"hub/pod-{number}": _pod(number, version=0) for number in range(SERVERS)}
        self._reflector = SimpleNamespace(first_load_future=loaded, watch_task=watch, pods=self._pods)
        self._kind: Any = type("Spawner", (SimpleNamespace,), {"reflectors": {("pods", "hub"): self._reflector}})
        self._db = db
        self._admission = AdmissionService()

    async def spawn(self, offer: Offer, number: int) -> float:
        """Let one choice through, and return the milliseconds that took."""
        spawner = self._spawner(number)
        changed = number % SERVERS
        self._pods[f"hub/pod-{changed}"] = _pod(changed, version=number)
        began = time.thread_time()
        await self._admission.admit(spawner, OPTIONS, offer=offer, is_start=True)
        took_ms = (time.thread_time() - began) * 1000
        spawner._start_pending = False  # its pod is one of those that run
        return took_ms

    def _spawner(self, number: int) -> Any:
        user = self._db.query(orm.User).filter_by(name=f"user-{number % USERS}").one()
        return self._kind(
            user=user,
            name=f"server-{number}",
            db=self._db,
            namespace="hub",
            active=True,
            pod_reflector=self._reflector,
            has_open_start=False,
            _spawn_future=None,
            _spawn_pending=False,
            _start_pending=True,
            _start_future=None,
            extra_options=(),
        )


def _database() -> Any:
    engine = create_engine("sqlite://")
    orm.Base.metadata.create_all(engine)
    with Session(engine) as db:
        groups = [orm.Group(name=f"Group-{number}") for number in range(GROUPS)]
        db.add_all(orm.User(name=f"user-{number}", groups=groups) for number in range(USERS))
        db.commit()
    return engine


def _policy() -> Policy:
    """Return rules that use every kind of limit."""
    default = Rule(
        images=(ANY,),
        custom_images=False,
        gpus={ANY: GPUTypeRule()},
        max_gpus=4,
        max_gpus_per_server=2,
        cpu=AmountRange(max=16_000),
        memory=AmountRange(max=64 * GIB),
        max_runtime_s=8 * 3600,
    )
    groups = {
        f"group-{number}": Rule(
            gpus={
                f"gpu-{number}": GPUTypeRule(max_gpus=8, max_gpus_per_server=2, max_runtime_s=4 * 3600),
                ANY: GPUTypeRule(),
            },
            max_gpus=8 + number,
        )
        for number in range(GROUPS)
    }
    pools = {
        f"pool-{number}": GPUPool(
            slug=f"pool-{number}",
            display_name=f"Pool {number}",
            groups=frozenset({f"group-{number}"}),
            gpus=frozenset({ANY}),
            max_gpus=UNLIMITED - 1,
        )
        for number in range(POOLS)
    }
    return Policy(default=default, groups=groups, pools=pools, users={"user-1": Rule(max_gpus=9)})


def _pod(number: int, *, version: int) -> Mapping[str, Any]:
    """Return a server's pod as the API server sends it, with only the keys that are read here."""
    amounts = {"cpu": "4", "memory": str(16 * GIB), "nvidia.com/gpu": "1"}
    notes = {"gpu": f"gpu-{number % 16}", "gpu-count": "1", "pools": "pool-1,pool-2"}
    annotations = {f"gpuspawner.jupyter.org/{name}": value for name, value in notes.items()}
    annotations |= {"hub.jupyter.org/username": f"user-{number % USERS}", "hub.jupyter.org/servername": str(number)}
    return {
        "metadata": {
            "name": f"pod-{number}",
            "uid": f"{number}",
            "resourceVersion": f"{version}",
            "annotations": annotations,
        },
        "spec": {
            "nodeName": f"node-{number % 100}",
            "containers": [{"name": "notebook", "resources": {"limits": amounts, "requests": amounts}}],
        },
        "status": {"phase": "Running"},
    }
