"""Whether a trait takes a value that a file says, and in words what it takes."""

from __future__ import annotations

from typing import Any

from jupyterhub.traitlets import ByteSpecification
from traitlets import Bool, Float, HasTraits, Int, TraitError, Type

_BYTE_TRAITS = "a number of bytes, or a text such as 4G (K, M, G or T, without an i)"


class _TraitHolder(HasTraits):
    """Whose value is checked: a trait asks for an object that it is a trait of."""


def describe_expected_type(trait: Any, value: Any) -> str:
    """Return what a trait takes where it does not take a value, else nothing."""
    if isinstance(trait, Type):
        # Validating it would import whatever module the file names.
        return "" if isinstance(value, str) and value else "the name of a class"
    if _accepts(trait, value):
        return ""
    # Of which traitlets only knows that an int comes of it.
    return _BYTE_TRAITS if isinstance(trait, ByteSpecification) else str(trait.info()).replace("dict", "mapping")


def is_number_or_bool(trait: Any) -> bool:
    """Tell whether a trait is a number or a yes or no, in whose place hardly anybody writes a secret."""
    return isinstance(trait, Int | Float | Bool)


def _accepts(trait: Any, value: Any) -> bool:
    try:
        trait._validate(_TraitHolder(), value)  # what setting it on an object calls
    except (TraitError, TypeError, ValueError, LookupError, ArithmeticError):
        return False
    return True
