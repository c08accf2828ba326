"""The output of `status`."""

from __future__ import annotations

from devcluster.cluster import Cluster
from devcluster.processes import Process
from devcluster.run_dir import RunDir


def show(name: str | None) -> int:
    """Print each cluster and its programs; 0 where there are clusters and all of them run, else 1."""
    names = (name,) if name is not None else Cluster.names()
    if not names:
        print("there are no clusters")
    running = [_show_one(RunDir.named(each)) for each in names]
    return 0 if running and all(running) else 1


def _show_one(run_dir: RunDir) -> bool:
    cluster = Cluster.find(run_dir.name)
    if cluster is None:
        print(f"{run_dir.name}: {'broken; `up` replaces it' if run_dir.path.exists() else 'does not exist'}")
        return False
    print(f"{run_dir.name}: {cluster.server}, pods reach this machine at {cluster.gateway}, state in {run_dir.path}")
    good = True
    for path in sorted(run_dir.pids.iterdir()):
        process = Process.load(path)
        alive = process is not None and process.alive()
        good = good and alive
        print(f"  {path.name:<25} {f'runs, pid {process.pid}' if process is not None and alive else 'does not run'}")
    return good
