"""Check Helm values before you deploy them: list every problem with file, line, path, reason and the nearest valid key.

The program merges the files in their order as Helm does, and checks the result. An error is a value at which the hub
refuses to start, at which KubeSpawner fails to show or start a profile, or which nothing reads; a warning is a valid
value that is probably a mistake. The program needs no cluster: `gpuspawner doctor` compares values with one.

examples:
  gpuspawner check values.yaml
  gpuspawner check gpuspawner.yaml gke.yaml my-values.yaml --strict
  gpuspawner check values.yaml --output json | jq '.problems[] | select(.severity == "error")'
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from gpuspawner.cli.check.chart_warnings import (
    find_chart_warnings,
    find_dropped_gpus,
    find_unpulled_images,
)
from gpuspawner.cli.check.misplaced_values import find_misplaced_values, find_unread_keys
from gpuspawner.cli.check.profile_errors import find_profile_mistakes
from gpuspawner.cli.check.settings_errors import find_broken_sections, find_redundant_nulls, find_setting_errors
from gpuspawner.cli.check.settings_warnings import find_settings_warnings
from gpuspawner.cli.common.findings import Finding, Severity, format_findings, sort_findings
from gpuspawner.cli.common.output import BAD, OK, Paint, add_output_argument, write_result
from gpuspawner.cli.values.helm_values import HelmValues, merge_settings, read_values
from gpuspawner.cli.values.trait_sources import locate_problems
from gpuspawner.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner check``."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="Helm values, as for helm upgrade; - is standard input"
    )
    parser.add_argument("--strict", action="store_true", help="let warnings count as errors")
    parser.add_argument("-v", "--verbose", action="store_true", help="give hints as well")
    add_output_argument(parser)


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Check the files, write the findings and return the exit code.

    :raises OSError: a file cannot be read.
    """
    found = collect_findings(read_values(arguments.files))
    is_bad = _has_severity(found, Severity.ERROR) or (arguments.strict and _has_severity(found, Severity.WARNING))
    shown = [finding for finding in found if arguments.verbose or finding.severity is not Severity.HINT]
    write_result(
        _build_report(shown, arguments.files, is_bad=is_bad),
        output=arguments.output,
        out=out,
        table=lambda paint: _format_table(shown, len(arguments.files), paint=paint),
    )
    return BAD if is_bad else OK


def collect_findings(values: HelmValues) -> list[Finding]:
    """Return all findings, sorted by file name and line."""
    found = list(values.flaws)
    if values.is_read:
        found += find_misplaced_values(values)
        found += find_broken_sections(values)
        found += find_unread_keys(values)
        found += find_setting_errors(values)
        found += find_profile_mistakes(values)
        found += find_redundant_nulls(values)
        found += find_chart_warnings(values)
        if not _has_severity(found, Severity.ERROR):
            found += _collect_warnings(values)
    return sort_findings(found)


def _collect_warnings(values: HelmValues) -> Iterator[Finding]:
    settings = Settings.parse(merge_settings(values))
    configured = settings.configured
    yield from locate_problems(find_settings_warnings(values, settings), values, severity=Severity.WARNING)
    yield from find_dropped_gpus(values, configured)
    yield from find_unpulled_images(values, configured.images)


def _has_severity(found: Iterable[Finding], severity: Severity) -> bool:
    return any(finding.severity is severity for finding in found)


def _build_report(found: list[Finding], files: list[str], *, is_bad: bool) -> dict[str, Any]:
    counts = {f"{severity}s": sum(finding.severity is severity for finding in found) for severity in Severity}
    return {"ok": not is_bad, "files": files, **counts, "problems": [finding.serialize() for finding in found]}


def _format_table(found: list[Finding], files: int, *, paint: Paint) -> Iterator[str]:
    yield from format_findings(found, paint)
    errors, warnings = (
        sum(finding.severity is kind for finding in found) for kind in (Severity.ERROR, Severity.WARNING)
    )
    of_files = "1 file" if files == 1 else f"{files} files"
    if not errors and not warnings:
        yield paint.style_success(f"{of_files}: no problems")
    else:
        counts = [f"{number} {name}{'' if number == 1 else 's'}" for number, name in
                  ((errors, "error"), (warnings, "warning")) if number]  # fmt: skip
        style = paint.style_error if errors else paint.style_warning
        yield style(f"{of_files}: {', '.join(counts)}")
