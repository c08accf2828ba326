"""Compare two values files: which choices of users give other pods.

The files may have a profile_list or settings of gpuspawner. The program lists the choices that users have with each
file: the profiles with their options, the presets, and the form's images and GPU types. It finds the same choice in the
other file by its keys, builds both pods with the spawners' own code, and names each field that differs. It needs no
cluster. It compares neither who may have a choice nor what gpuspawner notes in labels and annotations.

The files of -f are below both sides. If a file has more than 200 choices, those nearest to the defaults are tried.

examples:
  gpuspawner diff values.yaml new-values.yaml
  gpuspawner diff -f values.yaml old.yaml new.yaml
  gpuspawner diff old.yaml new.yaml --output json

exit codes: 0 no choice differs; 4 some differ, or only one file has them; 1 the values are invalid.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TextIO

from gpuspawner.cli.common.output import OK, Paint, add_output_argument, format_columns, sanitize, write_result
from gpuspawner.cli.diff.comparison import ChoiceOutcome, ChoiceResult, ComparisonReport, compare_values
from gpuspawner.cli.values.helm_values import add_values_argument, load_values

DIFFERENT = 4
"""Exit code: there are differences, and the program names them."""
_DEFAULT_LIMIT = 200


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner diff``."""
    parser.add_argument("old", metavar="OLD", help="Helm values before; - is standard input")
    parser.add_argument("new", metavar="NEW", help="Helm values after; - is standard input")
    add_values_argument(parser)
    parser.add_argument(
        "--limit",
        metavar="N",
        type=_parse_number,
        default=_DEFAULT_LIMIT,
        help="choices of each file to try at most (%(default)s)",
    )
    parser.add_argument("--all", action="store_true", help="list the choices that are the same, too")
    add_output_argument(parser)
    parser.set_defaults(usage_error=parser.error)


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Compare the two files, write the result and return the exit code.

    :raises SettingsError: the values of a file are wrong.
    :raises OSError: a file cannot be read.
    """
    if [arguments.old, arguments.new, *arguments.values].count("-") > 1:
        arguments.usage_error("only one file can be standard input")
    old, new = (load_values([*arguments.values, file]) for file in (arguments.old, arguments.new))
    report = compare_values(old, new, limit=arguments.limit)
    write_result(
        report.serialize(),
        output=arguments.output,
        out=out,
        table=lambda paint: _format_report(report, paint, shows_all=arguments.all),
    )
    return OK if report.is_same else DIFFERENT


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000):  # noqa: PLR2004
        message = f"{text!r} is no number from 1 to 1000000"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _format_report(report: ComparisonReport, paint: Paint, *, shows_all: bool) -> Iterator[str]:
    unchanged = () if shows_all else (ChoiceOutcome.SAME, ChoiceOutcome.REFUSED)
    shown = [cells for result in report.results if result.outcome not in unchanged for cells in _format_rows(result)]
    if shown:
        yield from format_columns(shown, titles=("OUTCOME", "CHOICE", "WHAT"), paint=paint)
        yield ""
    for sentence in report.left_out:
        yield paint.style_dim(f"Note: {sanitize(sentence)}")
    for name, total in zip(("OLD", "NEW"), report.totals, strict=True):
        if total > report.limit:
            yield f"Tried: {report.limit:,} of {total:,} choices of {name}, those nearest to the defaults (--limit)."
    style = Paint.style_success if report.is_same else Paint.style_warning
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in report.counts.items())
    yield style(paint, f"{len(report.results):,} {'choice' if len(report.results) == 1 else 'choices'}: {counts}.")


def _format_rows(result: ChoiceResult) -> Iterator[tuple[str, ...]]:
    """Yield a row for each difference; only the first one names the choice."""
    whats = [f"{field} {old} → {new}" for field, old, new in result.differences] or ["-"]
    yield result.outcome.value, result.choice, whats[0]
    yield from (("", "", what) for what in whats[1:])
