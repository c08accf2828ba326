"""Fills in the form's fields: the submitted text, else the saved choice, else the defaults.

Saved user options are untrusted, because the hub stores them unchecked and its REST API accepts any JSON for them. This
module therefore validates them like a new choice. It validates each field on its own, so that an invalid field does not
discard the valid ones. A saved value that is no longer offered is replaced by the default, with a notice at its field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from gpuspawner.core.catalog.model import Catalog, narrow_bounds
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.views import FORM_LEVEL
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.request.field_definitions import (
    AMOUNT_FIELDS,
    CLOSED_CHOICES,
    FORM_FIELDS,
    GPU,
    IMAGE,
    KEPT,
    RUN_TIME,
    SHARED_MEMORY,
)
from gpuspawner.core.request.fields import AmountField, ClosedChoiceField
from gpuspawner.core.request.options import (
    START_PRESET,
    get_max_length,
    parse_form,
    parse_query,
    split_query,
)
from gpuspawner.core.request.selection import (
    OPTIONS_VERSION,
    Selection,
    find_amount,
    find_max_run_time_s,
    is_given,
    validate,
)
from gpuspawner.core.text.decimals import show_decimals
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_sentences
from gpuspawner.core.units.duration import format_duration_option, parse_duration

DenialExplainer = Callable[[str, Mapping[str, object]], str]
"""A function that takes the name of a field, and user options with a value for the field. It returns a sentence that
says why the policy denies this value to the user, or "" if the policy allows the value."""

_MAX_QUOTED_CHARS = 40


def try_validate(options: Mapping[str, object], catalog: Catalog) -> Selection | None:
    """Return the selection that user options describe, or None if they are invalid.

    :param options: user options, untrusted.
    :param catalog: what the user may choose from.
    """
    try:
        return validate(options, catalog)
    except SelectionError:
        return None


def format_field_values(selection: Selection) -> dict[str, str]:
    """Return field name → text in the form's field: CPU in cores, memory in GiB, run times such as ``2h30m``."""
    amounts = {each.name: (each, find_amount(selection, each)) for each in AMOUNT_FIELDS}
    values = {
        "image": selection.image,
        "custom_image": selection.custom_image or "",
        "gpu": selection.gpu or "",
        "gpu_count": str(selection.gpu_count) if selection.gpu else "",
        **{name: "" if amount is None else each.format_input(amount) for name, (each, amount) in amounts.items()},
        **selection.choices,
    }
    return {name: values.get(name, "") for name in FORM_FIELDS}


def restore_fields(
    options: Mapping[str, object] | None, catalog: Catalog, *, explain_denial: DenialExplainer | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return two mappings: field name → text in the field, and field name → notice.

    A notice says that the field's saved value could not be restored. Fields without a notice are missing in the second
    mapping.

    :param options: saved user options, untrusted; None for the defaults.
    :param catalog: what the user may choose from.
    :param explain_denial: explains values that the policy denies; None without a policy.
    """
    form = _FieldRestorer(catalog, format_field_values(validate({}, catalog)), explain_denial=explain_denial)
    if not isinstance(options, Mapping):
        return form.values, form.notices
    if options.get("v", OPTIONS_VERSION) != OPTIONS_VERSION:
        form.notices[FORM_LEVEL] = gettext("Your last choice was saved by another version and could not be read.")
        return form.values, form.notices
    if options.get("preset") is not None:
        preset = try_validate({"preset": options["preset"]}, catalog)
        form.values = form.values if preset is None else format_field_values(preset)
    for name, restore_field in form.list_field_restorers().items():
        if name in options and is_given(name, options[name]):
            restore_field(options[name])
    form.fit_shared_memory()
    form.fit_run_time(is_saved=options.get("run_time") is not None)
    return form.values, form.notices


class _FieldRestorer:
    def __init__(self, catalog: Catalog, values: dict[str, str], *, explain_denial: DenialExplainer | None) -> None:
        self.catalog = catalog
        self.values = values
        self.notices: dict[str, str] = {}
        self._denial_explainer = explain_denial

    def list_field_restorers(self) -> dict[str, Callable[[object], None]]:
        """Return field name → method that restores the field's saved value, in the form's order.

        The GPU type is restored before the GPU count, which depends on the type.
        """
        own: dict[str, Callable[[object], None]] = {
            "image": self._restore_image,
            "custom_image": self._restore_custom_image,
            "gpu": self._restore_gpu,
            "gpu_count": self._restore_count,
            "shared_memory": self._restore_shared_memory,
        }
        restorers: dict[str, Callable[[object], None]] = {
            **{each.name: partial(self._restore_amount, each) for each in AMOUNT_FIELDS},
            **{each.name: partial(self._restore_choice, each) for each in CLOSED_CHOICES},
            **own,
        }
        hidden = _list_hidden_fields(self.catalog) - {"custom_image"}
        return {name: restorers[name] for name in FORM_FIELDS if name not in hidden}

    def fit_shared_memory(self) -> None:
        if self.values["shared_memory"]:
            self._restore_shared_memory(f"{self.values['shared_memory']}G")

    def fit_run_time(self, *, is_saved: bool) -> None:
        """Shorten the run time to the limit of the restored GPU type.

        :param is_saved: whether the run time is from the saved options. If so, the user gets a notice when the method
            shortens the run time.
        """
        gpu = self.values["gpu"] or None
        bounds = narrow_bounds(self.catalog.run_time, most=find_max_run_time_s(gpu, self.catalog))
        if bounds is None or parse_duration(saved := self.values["run_time"]) <= bounds.max:
            return
        self.values["run_time"] = format_duration_option(bounds.max)
        if is_saved and "run_time" not in self.notices:
            self._note_amount(RUN_TIME, saved, options={"gpu": gpu, "run_time": saved})

    def _restore_image(self, saved: object) -> None:
        if isinstance(saved, str) and saved in self.catalog.images:
            self.values["image"] = saved
            return
        self._note_image(saved)

    def _restore_custom_image(self, saved: object) -> None:
        selection = try_validate({"custom_image": saved}, self.catalog)
        if selection is None:
            self._note_image(saved, name="custom_image")
            return
        self.values.update(image="", custom_image=selection.custom_image or "")
        self.notices.pop("image", None)

    def _note_image(self, saved: object, *, name: str = "image") -> None:
        # The notice names the image that the field now shows: the default image, or the image of a saved preset.
        selected = self.catalog.images[self.values["image"]].display_name
        gone = gettext(IMAGE.gone, saved=_quote_saved(saved), name=selected)
        denied = self._explain_denial({name: saved}, name)
        self.notices["image"] = (
            join_sentences(denied, gettext("{name} is selected.", name=selected)) if denied else gone
        )

    def _explain_denial(self, options: Mapping[str, object], name: str) -> str:
        return "" if self._denial_explainer is None else self._denial_explainer(name, options)

    def _restore_amount(self, amount_field: AmountField, saved: object) -> None:
        name = amount_field.name
        selection = try_validate({name: saved}, self.catalog)
        if selection is not None:
            self.values[name] = format_field_values(selection)[name]
            return
        self._note_amount(amount_field, saved, options={name: saved})

    def _note_amount(self, amount_field: AmountField, saved: object, *, options: Mapping[str, object]) -> None:
        name = amount_field.name
        kept = show_decimals(self.values[name])
        denied = self._explain_denial(options, name)
        self.notices[name] = (
            join_sentences(denied, gettext(amount_field.kept, kept=kept))
            if denied
            else gettext(amount_field.gone, saved=show_decimals(_quote_saved(saved)), kept=kept)
        )

    def _restore_shared_memory(self, saved: object) -> None:
        memory = self.values["memory"]
        selection = try_validate({"memory": f"{memory}G" if memory else None, "shared_memory": saved}, self.catalog)
        if selection is not None:
            self.values["shared_memory"] = format_field_values(selection)["shared_memory"]
            return
        self.values["shared_memory"] = ""
        self.notices["shared_memory"] = gettext(SHARED_MEMORY.gone, saved=show_decimals(_quote_saved(saved)))

    def _restore_choice(self, choice_field: ClosedChoiceField, saved: object) -> None:
        name = choice_field.name
        offered = self.catalog.choices[name]
        if isinstance(saved, str) and saved in offered:
            self.values[name] = saved
            return
        selected = offered[self.values[name]].display_name
        denied = self._explain_denial({name: saved}, name)
        self.notices[name] = (
            join_sentences(denied, gettext("{name} is selected.", name=selected))
            if denied
            else gettext(choice_field.gone, saved=_quote_saved(saved), name=selected)
        )

    def _restore_gpu(self, saved: object) -> None:
        if isinstance(saved, str) and saved in self.catalog.gpus:
            if saved != self.values["gpu"]:
                self.values.update(gpu=saved, gpu_count="1")
            return
        self.values.update(gpu="", gpu_count="")
        if saved is None or saved == "":
            return
        gone = gettext(GPU.gone, saved=_quote_saved(saved))
        denied = self._explain_denial({"gpu": saved}, "gpu")
        self.notices["gpu"] = join_sentences(denied, gettext("No GPU is selected.")) if denied else gone

    def _restore_count(self, saved: object) -> None:
        if not self.values["gpu"]:
            return
        problems = Problems()
        number = problems.check_gpu_count(saved, self.catalog.gpus[self.values["gpu"]])
        if "gpu_count" not in problems:
            self.values["gpu_count"] = str(number)
            return
        kept = self.values["gpu_count"]
        gone = gettext(
            "Your last number of GPUs{saved} is no longer offered: {kept} is filled in.",
            saved=_quote_saved(saved),
            kept=kept,
        )
        denied = self._explain_denial({"gpu": self.values["gpu"], "gpu_count": saved}, "gpu_count")
        self.notices["gpu_count"] = join_sentences(denied, gettext(KEPT, kept=kept)) if denied else gone


def _quote_saved(saved: object) -> str:
    if isinstance(saved, bool) or not isinstance(saved, str | int | float):
        return ""
    try:
        text = str(saved)
    except ValueError:  # Python raises this error for an integer with thousands of digits.
        return ""
    shown = text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS]}…"
    return gettext(" ({saved})", saved=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledFields:
    """The contents of the form's fields.

    :param values: field name → text, in the units of the form.
    :param notices: field name → sentence about a saved value that could not be restored.
    :param selection: the selection that the values describe; None if they are invalid, or if the user may start no
        server.
    :param is_fresh: whether the user has no earlier choice and followed no link. The values are then those of the first
        preset that the user may have; without such a preset, the defaults.
    """

    values: Mapping[str, str]
    notices: Mapping[str, str] = field(default_factory=dict)
    selection: Selection | None = None
    is_fresh: bool = False


def fill_fields(
    catalog: Catalog,
    *,
    options: Mapping[str, object] | None = None,
    typed: Mapping[str, str] | None = None,
    is_link: bool = False,
    allowance: Allowance | None = None,
) -> FilledFields:
    """Return the contents of the fields when the form opens.

    :param catalog: what the hub offers, without any user's limits.
    :param options: user options of an earlier start, untrusted; None or empty without one.
    :param typed: field name → text from a submitted form or a link; None without a form or link. The form shows these
        texts unchanged.
    :param is_link: whether ``typed`` is from a link. What a link leaves out then does not depend on ``options``: it is
        what a start with the link's options gets. For a submitted form, other fields show the values of ``options``.
    :param allowance: what the user may have of the catalog; None for all of it.
    """
    options = None if is_link else options
    # Use the full catalog for a user who may start no server at all: the form then still shows the saved options of the
    # user, without notices of denied values.
    allowed = catalog if allowance is None or allowance.blocked else allowance.catalog
    values, notices = restore_fields(
        options,
        allowed,
        explain_denial=None if allowance is None else partial(_explain_field_denial, allowance=allowance),
    )
    is_fresh = not is_link and not options and not typed
    if is_fresh:
        values = _find_first_preset_values(allowed) or values
    if typed is not None:
        full = catalog if allowance is None else allowance.complete_catalog
        if is_link:
            values = _find_linked_values(typed, full, allowed=allowed) or values
            # An empty image asks for a custom image in a form, and for the default in a link.
            typed = {name: text for name, text in typed.items() if name != IMAGE.name or text.strip()}
        values, notices = _overlay_typed(values, typed, catalog=full), {}
    is_blocked = allowance is not None and allowance.blocked is not None
    selection = None if is_blocked else _find_selection(values, allowed)
    return FilledFields(values=values, notices=notices, selection=selection, is_fresh=is_fresh)


def _find_first_preset_values(catalog: Catalog) -> dict[str, str] | None:
    """Return the fields of the first valid preset; None without such a preset."""
    found = next(filter(None, (try_validate({"preset": slug}, catalog) for slug in catalog.presets)), None)
    return None if found is None else format_field_values(found)


def _explain_field_denial(name: str, options: Mapping[str, object], *, allowance: Allowance) -> str:
    full = allowance.complete_catalog
    # The default image may not work with the GPU type in the options. Therefore try each image.
    images = ("",) if name.endswith("image") else full.images
    selection = next(filter(None, (try_validate({"image": slug, **options}, full) for slug in images)), None)
    denials = () if selection is None or allowance.blocked else allowance.check_selection(selection)
    return next((each.message for each in denials if each.field == name), "")


def _find_linked_values(typed: Mapping[str, str], catalog: Catalog, *, allowed: Catalog) -> dict[str, str] | None:
    """Return the fields of the choice that a link starts, as if the link did not have its wrong fields.

    The result is None if what is wrong is in no field of the link.

    :param typed: field name → text in the link.
    :param catalog: what the link may choose from, without any user's limits.
    :param allowed: the part of ``catalog`` that the user may choose from.
    """
    known = {name: text for name, text in typed.items() if len(text) <= get_max_length(name)}
    options = parse_query({name: [text] for name, text in split_query(known)[0].items()})
    found = try_validate(options, allowed)
    while found is None:
        try:
            found = validate(options, catalog)
        except SelectionError as error:
            wrong = {problem.field for problem in error.problems}
            if wrong.isdisjoint(options):
                return None
            options = {name: value for name, value in options.items() if name not in wrong}
    return format_field_values(found)


def _overlay_typed(values: Mapping[str, str], typed: Mapping[str, str], *, catalog: Catalog) -> dict[str, str]:
    merged = {name: typed.get(name, values[name]) for name in FORM_FIELDS}
    if catalog.custom_images is not None and typed.get("custom_image") and "image" not in typed:
        merged["image"] = ""  # A link can name a custom image, which replaces the default or the preset's image.
    if "gpu_count" not in typed and merged["gpu"] != values["gpu"]:
        merged["gpu_count"] = ""  # The link or form changes the GPU type, so clear the saved type's number of GPUs.
    return merged


def list_form_fields(catalog: Catalog) -> set[str]:
    """Return the names of the fields that the form has; presets count as the field ``preset``.

    :param catalog: what the user may choose from.
    """
    presets = {"preset", START_PRESET} if catalog.presets else set()
    return presets | (set(FORM_FIELDS) - _list_hidden_fields(catalog))


def _list_hidden_fields(catalog: Catalog) -> set[str]:
    hidden = {each.name for each in AMOUNT_FIELDS if getattr(catalog, each.name) is None}
    hidden |= {each.name for each in CLOSED_CHOICES if each.name not in catalog.choices}
    return hidden if catalog.custom_images is not None else {*hidden, "custom_image"}


def _find_selection(values: Mapping[str, str], catalog: Catalog) -> Selection | None:
    hidden = _list_hidden_fields(catalog)
    try:
        options = parse_form({name: [text] for name, text in values.items() if name not in hidden})
    except SelectionError:
        return None
    return try_validate(options, catalog)
