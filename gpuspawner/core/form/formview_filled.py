"""What stands in the fields of a form: what was typed, else the saved choice, else the defaults; and its meaning.

Found once for each form: the verdict and the page are about the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from gpuspawner.core.catalog.catalogue import Catalog
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.formview_restore import FORM_FIELDS, format_field_values, restore_fields, try_validate
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.options import parse_form
from gpuspawner.core.request.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledFields:
    """What stands in the fields.

    :param values: field name → text, in form notation.
    :param notices: field name → sentence about what was saved and is gone.
    :param selection: what the values stand for, None where that is no valid choice.
    """

    values: Mapping[str, str]
    notices: Mapping[str, str] = field(default_factory=dict)
    selection: Selection | None = None


def fill_fields(
    catalogue: Catalog,
    *,
    options: Mapping[str, object] | None = None,
    typed: Mapping[str, str] | None = None,
    allowance: Allowance | None = None,
) -> FilledFields:
    """Return what stands in the fields when the form opens.

    :param options: user options saved by an earlier start; hostile input, restored field by field.
    :param typed: the form as it came back, shown as it is; wins over ``options``.
    :param allowance: what the person may have of this catalogue; all if not given.
    """
    # While nothing at all may be started, nothing of what was saved is gone.
    reach = catalogue if allowance is None or allowance.blocked else allowance.catalogue
    values, notices = restore_fields(
        options,
        reach,
        explain_denial=None if allowance is None else partial(_explain_field_denial, allowance=allowance),
    )
    if typed is not None:
        values, notices = _overlay_typed(values, typed, catalogue=catalogue), {}
    selection = None if allowance is not None and allowance.blocked else _find_selection(values, reach)
    return FilledFields(values=values, notices=notices, selection=selection)


def _explain_field_denial(name: str, options: Mapping[str, object], *, allowance: Allowance) -> str:
    """Return why somebody may not have what was saved in a field, a sentence; empty where it is just gone."""
    full = allowance.full_catalog
    # Which image goes with a GPU type is another matter.
    images = ("",) if name.endswith("image") else full.images
    selection = next(filter(None, (try_validate({"image": slug, **options}, full) for slug in images)), None)
    denials = () if selection is None or allowance.blocked else allowance.check_selection(selection)
    return next((each.message for each in denials if each.field == name), "")


def _overlay_typed(values: Mapping[str, str], typed: Mapping[str, str], *, catalogue: Catalog) -> dict[str, str]:
    """Return what was typed, exactly, over what stands in the fields otherwise."""
    if "preset" in typed:  # from a link: it fills in the fields the link does not name
        preset = try_validate({"preset": typed["preset"]}, catalogue)
        values = values if preset is None else format_field_values(preset)
    merged = {name: typed.get(name, values[name]) for name in FORM_FIELDS}
    if catalogue.custom_images is not None and typed.get("custom_image") and "image" not in typed:
        merged["image"] = ""  # from a link: it takes the place of the image that stands there otherwise
    if "gpu_count" not in typed and merged["gpu"] != values["gpu"]:
        merged["gpu_count"] = ""  # that number belonged to another GPU type
    return merged


def _find_selection(values: Mapping[str, str], catalogue: Catalog) -> Selection | None:
    """Return the choice that stands in the fields, None where it is no valid one."""
    offered: dict[str, object] = {
        "cpu": catalogue.cpu,
        "memory": catalogue.memory,
        "custom_image": catalogue.custom_images,
        "run_time": catalogue.run_time,
        "shared_memory": catalogue.shared_memory,
        "priority": catalogue.default_priority,
    }
    hidden = {name for name, offer in offered.items() if offer is None}
    try:
        options = parse_form({name: [text] for name, text in values.items() if name not in hidden})
    except SelectionError:
        return None
    return try_validate(options, catalogue)
