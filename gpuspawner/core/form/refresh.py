"""Encodes the part of the form's data that may change while a form is open.

A form that refreshes itself gets this part, in the shape of the JSON island (``templates/island.schema.json``,
``$defs/refresh``). It does not depend on the age of the counts, so that it stays equal while nothing has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from gpuspawner.core.form.build import GPU_COLUMNS, encode_gpu_row, encode_view_without_gpus
from gpuspawner.core.form.views import FormView, GPUTypeView, ProfileView

_SHOWN_COLUMNS = ("healthy", "capacity_text", "details_text")
REFRESHED_GPU_COLUMNS = (*GPU_COLUMNS, *_SHOWN_COLUMNS)
"""Attributes of :class:`GPUTypeView` that a refresh sends. The page shows those after :data:`GPU_COLUMNS` in its HTML,
so its island leaves them out."""

_REFRESHED_PRESET_COLUMNS = ("slug", "outlook")
_PROFILE_COLUMNS = ("slug", "is_denied", "outlook", "summary", "fields")
_LEFT_OUT = ("images", "presets", "age_s", "link_prefix", "choices", "shared_memory", "tag")
"""Members of the island that a refresh sends as tables or in a header, or that an open form never changes."""

_get_shown_values = attrgetter(*_SHOWN_COLUMNS)

Rows = Mapping[str, tuple[object, ...]]
"""Slug → the row of a table, with one value for each column."""


def encode_refreshed_gpu(gpu: GPUTypeView) -> tuple[object, ...]:
    """Return a GPU type's row, with one value for each of :data:`REFRESHED_GPU_COLUMNS`.

    :param gpu: view of the GPU type.
    """
    return *encode_gpu_row(gpu), *_get_shown_values(gpu)


def encode_refresh(view: FormView) -> tuple[dict[str, object], dict[str, tuple[tuple[str, ...], Rows]]]:
    """Return what may change of a view, without its GPU types: members, and tables as (column names, rows).

    :param view: the form's view.
    """
    island = encode_view_without_gpus(view)
    members = {name: value for name, value in island.items() if name not in _LEFT_OUT}
    tables = {
        "images": _read_table(island["images"]),
        "presets": _shorten(_read_table(island["presets"]), len(_REFRESHED_PRESET_COLUMNS)),
        "profiles": (_PROFILE_COLUMNS, {profile.slug: _encode_profile(profile) for profile in view.profiles}),
    }
    return members, tables


def _read_table(table: object) -> tuple[tuple[str, ...], Rows]:
    assert isinstance(table, dict)  # noqa: S101 - built by encode_view_without_gpus
    return tuple(table["names"]), {row[0]: row for row in table["rows"]}


def _shorten(table: tuple[tuple[str, ...], Rows], columns: int) -> tuple[tuple[str, ...], Rows]:
    names, rows = table
    return names[:columns], {slug: row[:columns] for slug, row in rows.items()}


def _encode_profile(profile: ProfileView) -> tuple[object, ...]:
    fields: dict[str, str] = {}
    for option in profile.options:
        if option.choices:
            fields[option.field] = option.picked
        if option.text_field:
            fields[option.text_field] = option.text
    outlook = profile.outlook and {"outcome": profile.outlook.outcome, "sentence": profile.outlook.sentence}
    return profile.slug, profile.is_denied, outlook, profile.summary, fields
