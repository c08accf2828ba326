"""Formats a comparison as a table, with notes below it and the counts in its last line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpuspawner.cli.common.output import Paint, format_columns, sanitize
from gpuspawner.cli.compare.comparison import ChoiceOutcome, ChoiceResult, ComparisonReport


def format_report(report: ComparisonReport, paint: Paint, *, shows_same: bool = True) -> Iterator[str]:
    """Yield the lines of a report.

    :param report: the comparison.
    :param paint: the colors of the output.
    :param shows_same: whether the table has the choices that are the same on both sides.
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
    """Return a sentence with the number of choices and of each outcome, such as ``12 choices: 12 same.``.

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
"""Outcomes from the gravest, with the color of a report that has them."""
