"""Show numbers with the decimal mark of the current language, and read numbers that a user typed in that language.

gpuspawner computes, stores and links numbers in one notation, with a period as the decimal mark: ``0.5``. Here this
notation is called plain. A language with a decimal comma shows ``0,5``; its catalog says so by the translation of the
message ``0.5``.

To show a plain number in such a language, periods and commas are swapped; to read a typed number, they are swapped
back. Nothing is lost, so a text that is no number is shown again as the user typed it. A plain text with a comma is
not a number. So a number that may have thousands gets a comma, and the user has to enter it in another way.
"""

from __future__ import annotations

import re

from gpuspawner.core.text.i18n import LazyText, gettext

_RUN = re.compile(r"(?<![\d.,])[.,]*\d[\d.,]*", re.ASCII)
"""Matches the digits and marks of one number inside a text such as ``1.5 GiB`` or ``2h30m``."""
_GROUPED = re.compile(r".*\..*\.|[1-9]\d{0,2}\.\d{3}$", re.ASCII)
"""Matches a number whose periods separate thousands, or may do so: ``1.000.000``, ``1.000``, but not ``0.125``."""
_PADDED = re.compile(r"(?<![\d.,])([1-9]\d{0,2})\.(\d\d0)(?![\d.,])", re.ASCII)
"""Matches a number that may have thousands, and that gpuspawner itself never writes: ``1.000``, but not ``1.125``."""
_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2},\d{3}(?!\d)", re.ASCII)
_SWAPPED = str.maketrans(".,", ",.")


def uses_decimal_comma() -> bool:
    """Return whether the current language has a decimal comma. Each other language has a decimal point."""
    # The number is a message, so that a translation says how its language writes numbers.
    return "," in gettext("0.5")


def show_decimals(text: str) -> str:
    """Return a text with its numbers as the current language writes them: ``0,5`` for ``0.5`` in German.

    :param text: plain number or amount, such as ``1.5 GiB``; digits and marks that are no number are swapped, too.
    """
    return text if not uses_decimal_comma() else _RUN.sub(lambda run: run[0].translate(_SWAPPED), text)


class LazyDecimals(LazyText):
    """A plain amount in a cached message; it is shown with the decimal mark of the language that shows the message."""

    __slots__ = ()

    def render(self) -> str:
        """Return the amount as :func:`show_decimals` shows it."""
        return show_decimals(str(self))


def read_decimals(text: str) -> str:
    """Return an amount that a user typed in the current language as a plain text; the inverse of :func:`show_decimals`.

    In a language with a decimal comma, a period also counts as a decimal mark (``0.5``), except where it may separate
    thousands (``1.000``): the result then has a comma, so it is not a number.
    """
    if not uses_decimal_comma():
        return text
    return _RUN.sub(lambda run: run[0].translate(_SWAPPED) if "," in run[0] or _GROUPED.match(run[0]) else run[0], text)


def mark_unclear(text: str) -> str:
    """Return a plain amount from a form, with a comma instead of the period in a number that may have thousands.

    ``1.000`` becomes ``1,000``, which is not a number, because it is unknown whether the user means 1 or 1000. Call
    this only for text that a user typed: machines may write ``1.000``.
    """
    return _PADDED.sub(r"\1,\2", text)


def may_have_thousands(text: str) -> bool:
    """Return whether a plain amount has a comma that may separate thousands, such as one from :func:`mark_unclear`."""
    return bool(_THOUSANDS.search(text))


def drop_padding(text: str) -> str:
    """Return a plain amount that a machine wrote, without zeros at the end of its decimals: ``1.5`` for ``1.500``.

    :param text: plain text, such as an amount in a link. The form can then show it without being unclear.
    """
    return _PADDED.sub(lambda found: f"{found[1]}.{found[2]}".rstrip("0").rstrip("."), text)
