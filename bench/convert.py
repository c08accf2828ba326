"""How many choices of real profile lists give the same server after ``gpuspawner convert``; how long the proof takes.

The command converts each file with ``--verify``, as an admin runs it. Then the choices of the file are compared once
more in this process, for the table, and loaded in plain KubeSpawner alone, with a spawner for each as a hub has it.
"""

from __future__ import annotations

import asyncio
import io
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api
from kubespawner import KubeSpawner

from bench.result import Result
from gpuspawner.cli.cluster.offline_spawner import make_offline_spawner, share_connection
from gpuspawner.cli.compare.comparison import ChoiceOutcome, ComparisonReport, Scope
from gpuspawner.cli.convert import build_values, convert_source, read_profile_source, verify
from gpuspawner.cli.values.chart_config import build_spawner_config
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.hub.pod.preview import serialize_pod

FILES = Path(__file__).parents[2] / "shared" / "profiles"
"""Where real values files lie beside the project, if there are any."""
BUDGETS = {"file_max_processor_s": 5.0, "widened": 0, "different_percent": 5.0}
"""A file takes five seconds at most: of the processor, because other programs on the machine cannot lengthen these."""


def measure(folder: Path = FILES) -> Result:
    """Convert the values files of a folder, and return what was the same and how long it took.

    :param folder: holds values files with profile lists.
    :raises SystemExit: the folder has no values files.
    """
    files = sorted(folder.glob("*.yaml"))
    if not files:
        sys.exit(f"bench: there are no values files in {folder}: name their folder with --files")
    rows = [_measure_file(file) for file in files]
    choices = sum(row["choices"] for row in rows)
    same, not_compared = (sum(row[key] for row in rows) for key in ("same", "not_compared"))
    return Result(
        name="convert",
        values={
            "files": len(rows),
            "choices": choices,
            "same": same,
            "not_compared": not_compared,
            "different_percent": 100 * (choices - same - not_compared) / choices,
            "widened": sum(row["widened"] for row in rows),
            "file_max_s": max(row["seconds"] for row in rows),
            "file_median_s": statistics.median(row["seconds"] for row in rows),
            "file_max_processor_s": max(row["processor_s"] for row in rows),
            "verify_choice_ms": 1000 * sum(row["verify_s"] for row in rows) / choices,
            "kubespawner_choice_ms": 1000 * sum(row["kubespawner_s"] for row in rows) / choices,
        },
        budgets=BUDGETS,
        details={"table": rows},
    )


def _measure_file(file: Path) -> dict[str, Any]:
    command = [str(Path(sys.executable).with_name("gpuspawner")), "convert", "--verify", str(file)]
    began, began_cpu = time.monotonic(), _measure_children()
    status = subprocess.run(command, capture_output=True, check=False).returncode
    seconds, processor_s = time.monotonic() - began, _measure_children() - began_cpu
    began = time.process_time()
    report = _verify(file)
    verify_s = time.process_time() - began
    began = time.process_time()
    options = [each.pair.old_options for each in report.results if each.pair.old_options is not None]
    asyncio.run(_load_plainly(file, options))
    counts = report.counts
    return {
        "file": file.name,
        "choices": len(report.results),
        "same": counts.get(ChoiceOutcome.SAME, 0),
        "differ": counts.get(ChoiceOutcome.DIFFERS, 0),
        "no_equivalent": counts.get(ChoiceOutcome.NO_EQUIVALENT, 0),
        "not_compared": counts.get(ChoiceOutcome.UNKNOWN, 0),
        "widened": sum(each.widens for each in report.results),
        "exit_status": status,
        "seconds": round(seconds, 2),
        "processor_s": round(processor_s, 2),
        "verify_s": round(verify_s, 3),
        "kubespawner_s": round(time.process_time() - began, 3),
        "what": sorted({each.details for each in report.results if each.outcome is not ChoiceOutcome.SAME}),
    }


def _measure_children() -> float:
    """Return the processor seconds of all programs that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _verify(file: Path) -> ComparisonReport:
    source = read_profile_source([str(file)], io.StringIO())
    converted = convert_source(source)
    return verify(source, converted, values=build_values(source, converted), scope=Scope())


async def _load_plainly(file: Path, options: Iterable[Mapping[str, object]]) -> None:
    """Build the pod of each choice with KubeSpawner alone."""
    source = read_profile_source([str(file)], io.StringIO())
    config = build_spawner_config(source.values.chart, namespace="jhub")
    kind: type[KubeSpawner] = type("KubeSpawner", (KubeSpawner,), {"reflectors": {}})
    async with ApiClient(Configuration(host="http://127.0.0.1:9")) as client:
        with share_connection(CoreV1Api(client)):
            for each in options:
                spawner: Any = make_offline_spawner(kind, config=config, person=Person(name="user"))
                spawner.user_options = dict(each)
                await spawner.load_user_options()
                serialize_pod(spawner, await spawner.get_pod_manifest())
