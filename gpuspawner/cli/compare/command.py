"""Compare two values files: which choices of users give other pods, and who may have what.

The files may have a profile_list or settings of gpuspawner. The program lists every choice that users have with the old
file, finds the same choice in the new one by its key or name, builds both pods with the spawners' own code, and names
each difference: image, CPU, memory, GPUs, nodes, tolerations, environment, volumes, containers and all other fields. It
also says which users may have more or less: those of no group, of each group that a file names, and named users. It
needs no cluster.

The files of -f are below both sides: so the second example compares values.yaml with converted.yaml laid over it. If
there are more than 200 choices, a random part is compared that has each profile and each entry at least once.

examples:
  gpuspawner diff values.yaml new-values.yaml
  gpuspawner diff -f values.yaml values.yaml converted.yaml
  gpuspawner diff old.yaml new.yaml --output json

exit codes: 0 all choices are the same; 4 some differ, or only one file has them; 1 the values are invalid.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

from gpuspawner.cli.common.output import OK, Paint, add_output_argument, format_columns, sanitize, write_result
from gpuspawner.cli.compare.comparison import (
    DEFAULT_LIMIT,
    ChoiceOutcome,
    ChoiceResult,
    ComparisonReport,
    Scope,
    compare_values,
)
from gpuspawner.cli.values.helm_values import add_values_argument, load_values

DIFFERENT = 4
"""Exit code: there are differences, and the program names them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner diff``.

    :param parser: the parser of the sub-command.
    """
    parser.add_argument("old", metavar="OLD", help="Helm values before; - is standard input")
    parser.add_argument("new", metavar="NEW", help="Helm values after; - is standard input")
    add_values_argument(parser)
    add_sample_arguments(parser)
    parser.add_argument("--all", action="store_true", help="list the choices that are the same, too")
    add_output_argument(parser)
    parser.set_defaults(usage_error=parser.error)


def add_sample_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--limit`` and ``--seed``: the command compares at most so many of the users' choices, a random sample.

    :param parser: the parser of a command that compares two values files.
    """
    parser.add_argument(
        "--limit",
        metavar="N",
        type=_parse_number,
        default=DEFAULT_LIMIT,
        help="choices to compare; if there are more, a random part (%(default)s)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="number that picks the part (%(default)s)")


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Compare the two files, write the result and return the exit code.

    :param arguments: arguments of the command line.
    :param out: stream for the result.
    :param notes: unused; ``main`` passes it to every command.
    :raises SettingsError: the values of a file are wrong.
    :raises OSError: a file cannot be read.
    """
    if [arguments.old, arguments.new, *arguments.values].count("-") > 1:
        arguments.usage_error("only one file can be standard input")
    old, new = (load_values([*arguments.values, file]) for file in (arguments.old, arguments.new))
    report = compare_values(old, new, scope=Scope(limit=arguments.limit, seed=arguments.seed))
    write_result(
        report.serialize(),
        output=arguments.output,
        out=out,
        table=lambda paint: format_report(report, paint, shows_same=arguments.all),
    )
    return OK if report.is_same else DIFFERENT


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000):  # noqa: PLR2004
        message = f"{text!r} is no number from 1 to 1000000"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def format_report(report: ComparisonReport, paint: Paint, *, shows_same: bool = True) -> Iterator[str]:
    """Yield the lines of a report.

    :param report: the comparison.
    :param paint: the colors of the output.
    :param shows_same: whether the table includes the choices that are the same with both files.
    """
    shown = [each for each in report.results if shows_same or each.outcome is not ChoiceOutcome.SAME or each.reason]
    if shown:
        yield from format_columns(map(_format_cells, shown), titles=("OUTCOME", "CHOICE", "WHAT"), paint=paint)
        yield ""
    for sentence in report.left_out:
        yield paint.style_dim(f"Note: {sanitize(sentence)}")
    if report.is_sampled:
        yield f"Compared: a sample of {report.tried:,} of {report.total:,} choices (--seed {report.seed})."
    counts = report.counts
    paints = [outcome for outcome in _PAINTS if outcome in counts]
    style = _PAINTS[paints[0]] if paints else Paint.style_success
    yield style(paint, format_counts(report))


def format_counts(report: ComparisonReport) -> str:
    """Return a sentence with the number of all choices, and of choices with each outcome: ``12 choices: 12 same.``.

    :param report: the comparison.
    """
    number = len(report.results)
    counts = ", ".join(f"{count:,} {_NAMES.get(outcome, outcome.value)}" for outcome, count in report.counts.items())
    return f"{number:,} {'choice' if number == 1 else 'choices'}: {counts}."


def _format_cells(result: ChoiceResult) -> tuple[str, ...]:
    return result.outcome.value, result.pair.label, result.details or "-"


_NAMES: Mapping[ChoiceOutcome, str] = {ChoiceOutcome.DIFFERS: "different", ChoiceOutcome.WIDER: "with wider access"}
_PAINTS: Mapping[ChoiceOutcome, Callable[[Paint, str], str]] = {
    ChoiceOutcome.WIDER: Paint.style_error,
    ChoiceOutcome.NO_EQUIVALENT: Paint.style_error,
    ChoiceOutcome.ADDED: Paint.style_warning,
    ChoiceOutcome.DIFFERS: Paint.style_warning,
    ChoiceOutcome.REMOVED: Paint.style_warning,
    ChoiceOutcome.UNKNOWN: Paint.style_warning,
}
"""Outcome of a choice → function that colors the last line of the report; the most serious outcome is first.

The most serious outcome in the report decides the color of that line.
"""
