"""Checks each user option by itself and collects the problems, so that the user sees all of them at once."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from itertools import islice

from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE, parse_reference
from gpuspawner.core.catalog.model import Bounds, CustomImages, GPUType
from gpuspawner.core.errors import Problem, SelectionError
from gpuspawner.core.request.field_definitions import FIELDS_BY_NAME, IMAGE, SHARED_MEMORY
from gpuspawner.core.request.fields import MAX_TEXT_LENGTH, AmountField, AmountNotation
from gpuspawner.core.text.decimals import may_have_thousands, show_decimals
from gpuspawner.core.text.i18n import gettext, gettext_lazy, ngettext
from gpuspawner.core.text.wording import (
    describe_unknown_field,
    format_list,
    join_sentences,
    join_with_or,
    quote,
    sanitize_name,
    suggest_name,
)
from gpuspawner.core.units.quantity import QuantityError, TooPreciseError, format_memory

_THE_IMAGE = gettext_lazy("The image")
_NUMBER_OF_GPUS = gettext_lazy("The number of GPUs")

_NOT_A_TEXT = gettext_lazy("The {choice} must be a text, not {value}.")
_UNKNOWN_CHOICE = gettext_lazy("There is no {choice} {value}.")
_NOT_A_REFERENCE = gettext_lazy("The image must be written as registry/name:tag, such as {example}, not {value}.")
_FOREIGN_ORIGIN = gettext_lazy("The image must come from {origins}, not {value}.")
_NOT_AN_AMOUNT = gettext_lazy("{subject} must be a number or a text, not {value}.")
_NOT_WHOLE = gettext_lazy("{subject} must be a whole number, not {value}.")
_UNREADABLE_AMOUNT = gettext_lazy("{subject} {must}, not {value}.")
_UNCLEAR_AMOUNT = gettext_lazy("{subject} {must}, without a mark between thousands.")
_OFF_STEP = gettext_lazy("{subject} must be {least} to {most} in steps of {step}, not {value}.")
_NOT_ONE_GPU = gettext_lazy("The number of GPUs ({gpu}) in one server must be 1, not {value}.")
_WRONG_GPU_COUNT = gettext_lazy("The number of GPUs ({gpu}) in one server must be 1 to {most}, not {value}.")

_MAX_PROBLEMS = 20
"""Maximum number of problems in one error. Further problems are dropped, so that a hostile request cannot fill logs."""


def find_max_length(field: str) -> int:
    """Return how many characters the text of a field may have.

    :param field: name of the field; an unknown name gets the limit that most fields have.
    """
    declared = FIELDS_BY_NAME.get(field)
    return MAX_TEXT_LENGTH if declared is None else declared.max_length


class Problems:
    """Collects the first problem of each field.

    The methods ``check_…`` return a checked value, and add a problem if the value is wrong.
    """

    def __init__(self) -> None:
        self._by_field: dict[str, Problem] = {}

    def add(self, field: str, code: str, *, message: str) -> None:
        """Add a problem, unless its field already has a problem or :data:`_MAX_PROBLEMS` have been added.

        :param code: code of the problem, by which REST clients identify it.
        :param message: translated sentence for the user.
        """
        if len(self._by_field) < _MAX_PROBLEMS:
            self._by_field.setdefault(field, Problem(field=field, code=code, message=message))

    def refuse(
        self,
        field: str,
        code: str,
        *,
        value: object,
        message: str,
        offered: Collection[str] | None = None,
        **values: str,
    ) -> None:
        """Add a problem about a wrong value.

        :param code: code of the problem, by which REST clients identify it.
        :param value: any JSON value.
        :param message: English message to translate; ``{value}`` is replaced by the quoted value.
        :param offered: slugs to choose from, which are listed after the message. If empty, a sentence after the message
            says that none is offered. None = nothing follows the message.
        :param values: values of the other placeholders in the message, by name.
        """
        translated = gettext(message, value=quote(value), **values)
        if offered:
            choices = gettext("Offered: {choices}.", choices=format_list(offered))
            translated = join_sentences(translated, suggest_name(value, offered).strip(), choices)
        elif offered is not None:
            translated = join_sentences(translated, gettext("None is offered."))
        self.add(field, code, message=translated)

    def refuse_unknown(self, names: Iterable[object], known: Collection[str]) -> None:
        """Add a problem for each of the first unknown fields, as many as one error may have.

        :param names: the names of unknown fields; untrusted.
        """
        # Count the names, not the problems, of which several names may share one: the search for a similar name takes
        # nearly 0.1 ms, and untrusted input may have 100,000 names.
        for name in islice(names, _MAX_PROBLEMS):
            self.add(sanitize_name(name), "unknown_field", message=describe_unknown_field(name, known))

    def __contains__(self, field: str) -> bool:
        return field in self._by_field

    def raise_any(self) -> None:
        """Raise one error with all collected problems; do nothing if there is no problem.

        :raises SelectionError: at least one problem was collected.
        """
        if self._by_field:
            raise SelectionError(*self._by_field.values())

    def check_choice(self, field: str, value: object, *, title: str, offered: Collection[str]) -> str | None:
        """Return the slug that a value names, or None if the value is null, "" or wrong.

        :param value: any JSON value.
        :param title: what users call the field, in the middle of a sentence (``"GPU type"``, ``"image"``).
        :param offered: slugs to choose from.
        """
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            self.refuse(field, "wrong_type", value=value, message=_NOT_A_TEXT, choice=title)
        elif len(value) > (longest := find_max_length(field)):
            message = ngettext(
                "The name of the {choice} is longer than {number} character.",
                "The name of the {choice} is longer than {number} characters.",
                number=longest,
                choice=title,
            )
            self.add(field, "too_long", message=message)
        elif value not in offered:
            self.refuse(field, "unknown_choice", value=value, message=_UNKNOWN_CHOICE, offered=offered, choice=title)
        else:
            return value
        return None

    def check_reference(self, field: str, value: object, *, custom_images: CustomImages | None) -> str | None:
        """Return the full reference of a custom image, or None if the value is null, "" or wrong.

        :param value: any JSON value.
        :param custom_images: which custom images the admin allows; None if the admin allows none.
        """
        if value is None or value == "":
            return None
        if custom_images is None:
            self.add(field, "unknown_field", message=gettext("You can't use a custom image here."))
        elif not isinstance(value, str):
            self.refuse(field, "wrong_type", value=value, message=_NOT_A_TEXT, choice=IMAGE.title)
        elif len(value) > (longest := find_max_length(field)):
            self.add(field, "too_long", message=_explain_too_long(_THE_IMAGE, longest))
        elif (found := parse_reference(value)) is None:
            self.refuse(field, "not_a_reference", value=value, message=_NOT_A_REFERENCE, example=EXAMPLE_REFERENCE)
        elif not custom_images.allows(found):
            origins = join_with_or(custom_images.registries)
            self.refuse(field, "unknown_choice", value=found.name, message=_FOREIGN_ORIGIN, origins=origins)
        else:
            return found.full
        return None

    def check_amount(self, field: AmountField, value: object, *, bounds: Bounds | None) -> int | None:
        """Return an amount in millicores, bytes or seconds; None if the value is unreadable or means no amount.

        An amount outside the bounds adds a problem, but is returned.

        :param value: any JSON value; null means no amount if the amount is optional, else the default.
        :param bounds: allowed amounts, in the same unit; None if the form does not offer the amount.
        """
        name, title = field.name, field.notation.title
        if bounds is None:
            if value is not None:
                self.add(name, "unknown_field", message=_explain_not_offered(field.notation))
            return None
        if value is None or (value == "" and bounds.is_optional):
            return bounds.usual
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.refuse(name, "wrong_type", value=value, message=_NOT_AN_AMOUNT, subject=title)
        elif isinstance(value, str) and len(value) > field.max_length:
            self.add(name, "too_long", message=_explain_too_long(title, field.max_length))
        else:
            return self._check_bounds(field, value, bounds=bounds)
        return None

    def check_gpu_count(self, value: object, gpu: GPUType | None) -> int:
        """Return the number of GPUs, or 0 if the value is not a whole number.

        If a GPU type is chosen, null means 1; otherwise, null means 0. 1.0 is accepted as 1, because JSON has one
        number type. A number that is wrong for the GPU type adds a problem, but is returned.

        :param value: any JSON value.
        :param gpu: the chosen GPU type; None for no GPU, or if the choice of the type is wrong.
        """
        if value is None:
            return 0 if gpu is None else 1
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            code = "not_a_number" if isinstance(value, str | float) else "wrong_type"
            self.refuse("gpu_count", code, value=value, message=_NOT_WHOLE, subject=_NUMBER_OF_GPUS)
            return 0
        if gpu is not None and not 1 <= value <= gpu.max_count:
            self.refuse(
                "gpu_count",
                "out_of_range",
                value=value,
                message=_NOT_ONE_GPU if gpu.max_count == 1 else _WRONG_GPU_COUNT,
                gpu=gpu.display_name,
                most=str(gpu.max_count),
            )
        if gpu is None and value != 0 and "gpu" not in self:
            message = gettext("Without a GPU type the number of GPUs must be 0 or left out.")
            self.add("gpu_count", "conflict", message=message)
        return value

    def check_shared_memory(self, value: object, memory_bytes: int | None, *, bounds: Bounds | None) -> int | None:
        """Return the size of /dev/shm in bytes.

        The result is None if the value is null or unreadable, or if the form does not offer the size. Files in /dev/shm
        count towards the container's memory limit, so a size above this limit adds a problem, but is returned.

        :param value: any JSON value; null means that the GPU type sets the size.
        :param memory_bytes: the server's memory limit; None if the server has no limit, or if the limit is unreadable.
        :param bounds: allowed sizes in bytes; None if the form does not offer the size.
        """
        if value is None:
            return None
        size = self.check_amount(SHARED_MEMORY, value, bounds=bounds)
        if (
            bounds is not None
            and size is not None
            and memory_bytes is not None
            and size > memory_bytes
            and "memory" not in self
        ):
            message = gettext(
                "Shared memory is a part of the memory: it must be at most {most}, not {value}.",
                most=format_memory(memory_bytes),
                value=format_memory(size),
            )
            self.add("shared_memory", "out_of_range", message=message)
        return size

    def _check_bounds(self, field: AmountField, value: object, *, bounds: Bounds) -> int | None:
        name, notation = field.name, field.notation
        limits = _format_bounds(bounds, notation)
        typed = show_decimals(value) if isinstance(value, str) else value
        try:
            number = notation.parse(value)
        except QuantityError as error:
            if isinstance(error, TooPreciseError):
                self.refuse(name, "off_step", value=typed, message=_OFF_STEP, **limits)
            else:
                has_thousands = isinstance(value, str) and may_have_thousands(value)
                sentence = _UNCLEAR_AMOUNT if has_thousands else _UNREADABLE_AMOUNT
                required = {"subject": notation.title, "must": error.args[0]}
                self.refuse(name, "not_a_number", value=typed, message=sentence, **required)
            return None
        if bounds.contains(number):
            return number
        shown = notation.show(number)
        if isinstance(value, str) and shown.endswith(" B"):  # 1.3 GiB are no whole number of any larger unit
            shown = quote(typed)
        if not bounds.min <= number <= bounds.max:
            message = gettext("{subject} must be {least} to {most}, not {value}.", value=shown, **limits)
            self.add(name, "out_of_range", message=message)
        else:
            self.add(name, "off_step", message=gettext(_OFF_STEP, value=shown, **limits))
        return number


def _format_bounds(bounds: Bounds, notation: AmountNotation) -> dict[str, str]:
    return {
        "subject": notation.title,
        "least": notation.format_minimum(bounds),
        "most": notation.show(bounds.max),
        "step": notation.show(bounds.step),
    }


def _explain_too_long(subject: str, longest: int) -> str:
    return ngettext(
        "{subject} is longer than {number} character.",
        "{subject} is longer than {number} characters.",
        number=longest,
        subject=subject,
    )


def _explain_not_offered(notation: AmountNotation) -> str:
    if not notation.unbounded:
        return gettext("{subject} cannot be chosen here.", subject=notation.title)
    return gettext("{subject} cannot be chosen here: {reason}.", subject=notation.title, reason=notation.unbounded)
