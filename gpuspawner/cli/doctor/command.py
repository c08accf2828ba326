"""Find the reasons why notebooks with GPUs don't work on a cluster.

With the admin's own rights the program checks nodes, device plugins, labels, drivers, the hub's rights and namespace,
autoscalers, and all objects that the settings name. Each finding names the consequence and a fix, as a command or YAML
to copy. The program changes nothing. With --probe it starts a pod without a GPU for some seconds on one node of each
kind, to test whether the pod sees GPUs that it did not request.

examples:
  gpuspawner doctor -n jupyterhub -f values.yaml
  gpuspawner doctor -n jupyterhub -f values.yaml --probe --probe-image quay.io/jupyter/pytorch-notebook:cuda12-latest
  gpuspawner doctor --hub-account hubs:hub --output json | jq -r '.findings[].code'

The exit code is 1 if there is a fault or the values are invalid, 0 if there are at most warnings and notes, and 3 if
the program cannot read the cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TextIO

from gpuspawner.cli.cluster.cluster_view import open_cluster_viewer
from gpuspawner.cli.cluster.connection import add_cluster_arguments
from gpuspawner.cli.cluster.shipped_roles import ServiceAccount
from gpuspawner.cli.common.output import BAD, FAILED, OK, Paint, add_output_argument, sanitize, write_result
from gpuspawner.cli.doctor import (
    choices,
    gpu_sharing,
    hub_health,
    namespace,
    node_health,
    referenced_objects,
)
from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity, rank_diagnosis
from gpuspawner.cli.doctor.fact_reader import read_facts
from gpuspawner.cli.doctor.facts import ClusterFacts, ObjectKind
from gpuspawner.cli.doctor.isolation_probe import choose_probe_nodes, run_probe_pods
from gpuspawner.cli.values.helm_values import add_values_argument

RULES: tuple[Callable[[ClusterFacts], Iterable[Diagnosis]], ...] = tuple(
    rule
    for module in (choices, gpu_sharing, hub_health, namespace, node_health, referenced_objects)
    for name, rule in vars(module).items()
    if name.startswith("check_")
)
"""All functions of the rules' modules whose names begin with ``check_``."""


def diagnose(facts: ClusterFacts) -> tuple[Diagnosis, ...]:
    """Return the findings of all rules, the worst first."""
    return tuple(sorted((finding for rule in RULES for finding in rule(facts)), key=rank_diagnosis))


NO_DIAGNOSIS = "No problems found."
NO_DIAGNOSIS_IN_READ_PART = "No problems found in what could be read."


def format_diagnoses(findings: Sequence[Diagnosis], paint: Paint, *, unread: Mapping[ObjectKind, str]) -> Iterator[str]:
    """Yield the lines of all findings, each with its consequence and fix.

    :param unread: kind of object → why ``doctor`` could not read such objects.
    """
    if not findings:
        yield paint.style_warning(NO_DIAGNOSIS_IN_READ_PART) if unread else paint.style_success(NO_DIAGNOSIS)
        return
    paints = {
        DiagnosisSeverity.FAULT: paint.style_error,
        DiagnosisSeverity.WARNING: paint.style_warning,
        DiagnosisSeverity.NOTE: paint.style_dim,
    }
    for finding in findings:
        yield f"{paints[finding.severity](finding.severity.upper())}  {paint.style_title(finding.code)}"
        yield f"  {sanitize(finding.what)}"
        yield f"  {sanitize(finding.why)}"
        for line in finding.fix.splitlines():
            yield f"    {sanitize(line)}"
        yield ""
    yield summarize_diagnoses(findings)


def summarize_diagnoses(findings: Sequence[Diagnosis]) -> str:
    """Return the number of findings of each severity in words: ``1 fault, 2 warnings``."""
    counted = Counter(finding.severity for finding in findings)
    return ", ".join(
        f"{number} {severity.value}{'' if number == 1 else 's'}"
        for severity in DiagnosisSeverity
        if (number := counted[severity])
    )


def serialize_diagnoses(findings: Sequence[Diagnosis], unread: Mapping[ObjectKind, str]) -> dict[str, object]:
    """Return the findings, and the kinds of objects that ``doctor`` could not read, as a JSON object."""
    return {
        "findings": [finding.serialize() for finding in findings],
        "unread": [{"kind": kind.value, "reason": reason} for kind, reason in unread.items()],
    }


USAGE_ERROR = 2
"""Exit code for wrong arguments, the same as argparse's."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner doctor``."""
    add_values_argument(parser)
    add_cluster_arguments(parser)
    add_output_argument(parser)
    parser.add_argument(
        "--hub-account",
        metavar="NAMESPACE:NAME",
        type=_parse_account,
        help="the hub's ServiceAccount (that of the hub's pod in the namespace)",
    )
    parser.add_argument("--probe", action="store_true", help="start a pod on one node of each kind to look for leaks")
    parser.add_argument("--probe-image", metavar="IMAGE", help="of that pod; it needs /bin/sh")
    parser.add_argument(
        "--probe-pull-policy", metavar="POLICY", choices=("Always", "IfNotPresent", "Never"), default="", help="of it"
    )


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Read the cluster, write the findings and return the exit code.

    :raises SettingsError: the settings are wrong.
    :raises ClusterError: the cluster cannot be read.
    """
    if arguments.probe and not arguments.probe_image:
        notes.write("gpuspawner doctor: --probe needs --probe-image\n")
        return USAGE_ERROR
    leftover: list[str] = []
    try:
        found, unread = asyncio.run(_examine_cluster(arguments, notes=notes, leftover=leftover))
    except (KeyboardInterrupt, asyncio.CancelledError):
        notes.write("gpuspawner doctor: interrupted\n")
        return FAILED
    finally:
        for name in leftover:
            notes.write(f"left behind, as it could not be deleted, or not yet: pod {sanitize(name)}\n")
    for kind, reason in unread.items():
        notes.write(f"not checked: {kind.value} ({sanitize(reason)})\n")
    write_result(
        serialize_diagnoses(found, unread),
        output=arguments.output,
        out=out,
        table=lambda paint: format_diagnoses(found, paint, unread=unread),
    )
    return BAD if any(finding.severity is DiagnosisSeverity.FAULT for finding in found) else OK


async def _examine_cluster(
    arguments: argparse.Namespace, *, notes: TextIO, leftover: list[str]
) -> tuple[tuple[Diagnosis, ...], Mapping[ObjectKind, str]]:
    _cancel_on_sigterm()
    async with open_cluster_viewer(arguments) as viewer:
        facts, unread = await read_facts(viewer, account=arguments.hub_account)
        if arguments.probe:
            nodes = choose_probe_nodes(facts.nodes)
            notes.write(f"probing {', '.join(nodes) or 'nothing: no node with GPUs of NVIDIA runs pods'}\n")
            results = await run_probe_pods(
                viewer.cluster,
                nodes,
                image=arguments.probe_image,
                leftover=leftover,
                pull_policy=arguments.probe_pull_policy,
            )
            facts = replace(facts, probe_results=results)
    return diagnose(facts), unread


def _cancel_on_sigterm() -> None:
    """Make SIGTERM cancel the current task as Ctrl-C does, so that ``doctor`` still deletes its probe pods."""
    task = asyncio.current_task()
    if task is not None:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _parse_account(text: str) -> ServiceAccount:
    namespace, _, name = text.partition(":")
    if not namespace or not name or ":" in name:
        message = f"{text!r} is not NAMESPACE:NAME"
        raise argparse.ArgumentTypeError(message)
    return ServiceAccount(namespace, name)
