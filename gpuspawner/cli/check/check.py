"""Check Helm values before they are shipped: every problem, with file, line, path, reason and the nearest valid key.

The files are looked at together, merged in their order as Helm merges them. Errors are what the hub refuses to start
with, or reads nowhere; warnings are what is legal and most likely not meant. No cluster is asked for anything, unless
--cluster is given: then types, tolerations and limits are compared with the nodes that are there.

examples:
  gpuspawner check values.yaml
  gpuspawner check gpuspawner.yaml gke.yaml my-values.yaml --strict
  gpuspawner check values.yaml --cluster --context production
  gpuspawner check values.yaml --output json | jq '.problems[] | select(.severity == "error")'
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from gpuspawner.cli.check.broken_sections import broken_sections
from gpuspawner.cli.check.chart_advice import chart_advice
from gpuspawner.cli.check.cluster_advice import cluster_advice
from gpuspawner.cli.check.limit_advice import limit_advice
from gpuspawner.cli.check.other_roots import other_roots
from gpuspawner.cli.check.pre_pulling import unpulled_images
from gpuspawner.cli.check.section_findings import section_findings
from gpuspawner.cli.check.setting_findings import idle_null_findings, located, setting_findings
from gpuspawner.cli.check.slug_advice import unknown_slugs
from gpuspawner.cli.check.spelling import doubtful_names
from gpuspawner.cli.check.type_advice import type_advice
from gpuspawner.cli.cluster.cluster import add_cluster
from gpuspawner.cli.common.exits import BAD, OK
from gpuspawner.cli.common.findings import Finding, Severity, in_order, lines
from gpuspawner.cli.common.output import Paint, add_output, write
from gpuspawner.cli.values.values import Values, merged_settings, read
from gpuspawner.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="Helm values, as for helm upgrade; - is standard input"
    )
    parser.add_argument("--strict", action="store_true", help="let warnings count as errors")
    parser.add_argument("-v", "--verbose", action="store_true", help="give hints as well")
    add_output(parser)
    parser.add_argument("--cluster", action="store_true", help="compare the settings with the nodes of a cluster")
    add_cluster(parser)
    parser.set_defaults(usage_error=parser.error)


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Check the files and write what is found.

    :raises OSError: a file cannot be read.
    :raises ClusterError: there is no cluster to look at.
    """
    if not arguments.cluster and (arguments.kubeconfig or arguments.context or arguments.namespace):
        arguments.usage_error("--kubeconfig, --context and --namespace are for --cluster")
    values = read(arguments.files)
    found = list(findings(values))
    if arguments.cluster and values.is_read and not _has(found, Severity.ERROR):
        found += asyncio.run(cluster_advice(values, arguments))
    found = in_order(found)
    is_bad = _has(found, Severity.ERROR) or (arguments.strict and _has(found, Severity.WARNING))
    shown = [each for each in found if arguments.verbose or each.severity is not Severity.HINT]
    write(
        _report(shown, arguments.files, is_bad=is_bad),
        output=arguments.output,
        out=out,
        table=lambda paint: _table(shown, len(arguments.files), paint=paint),
    )
    if arguments.cluster and _has(found, Severity.ERROR):
        notes.write("The cluster was not looked at: there are errors to correct first.\n")
    return BAD if is_bad else OK


def findings(values: Values) -> list[Finding]:
    """Return everything that is to be said of values without a look at a cluster, in the order of the files."""
    found = list(values.flaws)
    if values.is_read:
        found += other_roots(values)
        found += broken_sections(values)
        found += section_findings(values)
        found += setting_findings(values)
        found += idle_null_findings(values)
        found += chart_advice(values)
        if not _has(found, Severity.ERROR):
            found += _advice(values)
    return in_order(found)


def _advice(values: Values) -> Iterator[Finding]:
    """Yield what can only be said of settings that are right."""
    settings = Settings.parse(merged_settings(values))
    configured = settings.configured()
    # Settings that are right have a mapping there, or nothing.
    taken_out = {slug for slug, entry in (values.settings.get("gpus") or {}).items() if entry is None}
    problems = (
        *type_advice(values, configured),
        *limit_advice(settings.model, configured),
        *unknown_slugs(settings.model, taken_out=taken_out),
        *doubtful_names(settings.model),
    )
    yield from located(problems, values, severity=Severity.WARNING)
    yield from unpulled_images(values, configured.images)


def _has(found: Iterable[Finding], severity: Severity) -> bool:
    return any(each.severity is severity for each in found)


def _report(found: list[Finding], files: list[str], *, is_bad: bool) -> dict[str, Any]:
    counts = {f"{severity}s": sum(each.severity is severity for each in found) for severity in Severity}
    return {"ok": not is_bad, "files": files, **counts, "problems": [each.as_json() for each in found]}


def _table(found: list[Finding], files: int, *, paint: Paint) -> Iterator[str]:
    yield from lines(found, paint)
    errors, warnings = (sum(each.severity is kind for each in found) for kind in (Severity.ERROR, Severity.WARNING))
    of_files = "1 file" if files == 1 else f"{files} files"
    if not errors and not warnings:
        yield paint.good(f"{of_files}: no problems")
    else:
        told = [f"{number} {name}{'' if number == 1 else 's'}" for number, name in
                ((errors, "error"), (warnings, "warning")) if number]  # fmt: skip
        yield paint.bad(f"{of_files}: {', '.join(told)}") if errors else paint.doubtful(f"{of_files}: {told[0]}")
