"""Run the measurements, print ``name: value`` lines and write them to bench/results.

    python -m bench [render] [spawn] [--rounds 16] [--servers 20]
    python -m bench fit [--decisions 10000] [--seed N]
    python -m bench page
    python -m bench actions
    python -m bench form
    python -m bench freshness
    python -m bench progress
    python -m bench scale [--nodes 5000] [--pods 100000]
    python -m bench truth [--spawns 2000] [--seed N]

``spawn``, ``progress`` and ``truth`` need what the cluster tests need, ``page``, ``actions`` and ``freshness`` what the
browser tests need, ``fit``, ``form`` and ``scale`` the binaries of Kubernetes, ``render`` only Python. Exit
status 1 where a budget is exceeded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from bench import page, policy, render, spawn
from bench.actions import suite as actions
from bench.fit import suite as fit
from bench.form import suite as form
from bench.freshness import suite as freshness
from bench.progress import suite as progress
from bench.result import Result, save
from bench.scale import suite as scale
from bench.truth import suite as truth
from devcluster.errors import DevclusterError

SUITES = (
    *("render", "policy", "spawn"),
    *("page", "actions", "form", "fit", "freshness", "progress", "scale", "truth"),
)
BY_DEFAULT = ("render", "policy", "spawn")


def main(arguments: Sequence[str]) -> int:
    """Run the suites named in ``arguments``, those against plain KubeSpawner without any."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure gpuspawner against its budgets.")
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"{', '.join(SUITES)} (default: the first three)")
    parser.add_argument("--rounds", type=int, default=16, help="rounds of spawns with each spawner (default 16)")
    parser.add_argument("--servers", type=int, default=20, help="servers that are started at once (default 20)")
    parser.add_argument("--decisions", type=int, default=10_000, help="cases for kube-scheduler (default 10000)")
    parser.add_argument("--seed", type=int, help="of the first case or fleet (default: a random one, which is printed)")
    parser.add_argument("--nodes", type=int, default=scale.NODES, help=f"largest cluster (default {scale.NODES})")
    parser.add_argument("--pods", type=int, default=scale.PODS, help=f"pods on it (default {scale.PODS})")
    parser.add_argument("--spawns", type=int, default=truth.SPAWNS, help=f"spawns (default {truth.SPAWNS})")
    options = parser.parse_args(arguments)
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    runs: dict[str, Callable[[], Result]] = {
        "render": render.measure,
        "policy": policy.measure,
        "spawn": lambda: spawn.measure(rounds=options.rounds, servers=options.servers),
        "page": page.measure,
        "actions": actions.measure,
        "form": form.measure,
        "fit": lambda: fit.measure(decisions=options.decisions, seed=options.seed),
        "freshness": freshness.measure,
        "progress": progress.measure,
        "scale": lambda: scale.measure(nodes=options.nodes, pods=options.pods),
        "truth": lambda: truth.measure(spawns=options.spawns, seed=options.seed),
    }
    try:
        results = [run() for name, run in runs.items() if name in (options.suites or BY_DEFAULT)]
    except DevclusterError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print()
    for result in results:
        save(result)
        print("\n".join(result.lines()))
    return 0 if all(result.holds() for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
