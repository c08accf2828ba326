"""Builds the view of the form: everything that the hub's templates and the form's script show to a user.

The catalog, what the user may have, the cluster's state, the verdict, and the user options of an earlier start enter.
:class:`FormView` leaves: plain values, texts in the language of the current request. The room knows no HTML and decides
nothing: `core.policy` decides what a user may have, `core.verdict` whether a choice can start.

- ``views`` declares the view, and the cache that keeps parts of it for all users: start there.
- ``fields`` fills in the fields from saved user options, or from a submitted form with errors.
- ``build`` builds the view, and encodes the part of it that the script reads.
- ``policy`` builds images, limits and denials as one user sees them.
- ``wording`` writes capacities, selections and differences as text.
"""

from gpuspawner.core.form.build import LiveState, build_view, encode_view
from gpuspawner.core.form.fields import FilledFields, fill_fields, format_field_values, try_validate
from gpuspawner.core.form.views import FormCache, FormView, GPUTypeView, ImageView
from gpuspawner.core.form.wording import describe_difference

__all__ = [
    "FilledFields",
    "FormCache",
    "FormView",
    "GPUTypeView",
    "ImageView",
    "LiveState",
    "build_view",
    "describe_difference",
    "encode_view",
    "fill_fields",
    "format_field_values",
    "try_validate",
]
