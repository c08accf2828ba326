"""Builds the view of the form: everything that the hub's templates and form.js show to a user.

Input: the catalog, the user's limits, the cluster's state, the user options of an earlier start, and the verdict, which
says whether the selection (the user's choice) can start. Output: :class:`FormView`, plain values and texts in the
language of the current request. This package contains no HTML and makes no decisions: `core.policy` decides what a user
may have, and `core.verdict` whether a selection can start.

- ``views`` declares the view, and the cache that keeps parts of it for all users: start reading here.
- ``fields`` fills in the form's fields from saved user options or a submitted form with errors. This includes the
  lists and text fields of fixed presets (presets in which users can change nothing else).
- ``build`` builds the view, and encodes the part of it that form.js reads.
- ``policy`` applies one user's limits and denials to images, GPU types and presets, and builds the cards of presets.
- ``wording`` writes capacities, selections and differences as text.
"""

from gpuspawner.core.form.build import LiveState, build_view
from gpuspawner.core.form.fields import fill_fields, format_field_values, try_validate
from gpuspawner.core.form.views import FormCache, FormView, GPUTypeView, ImageView
from gpuspawner.core.form.wording import describe_difference

__all__ = [
    "FormCache",
    "FormView",
    "GPUTypeView",
    "ImageView",
    "LiveState",
    "build_view",
    "describe_difference",
    "fill_fields",
    "format_field_values",
    "try_validate",
]
