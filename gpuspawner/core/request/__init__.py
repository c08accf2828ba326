"""Turns what a user asks for into a valid selection, and a selection into what its pod must carry.

A form, a link or JSON enters, with the catalog to check it against. :class:`Selection`, the user options that stand for
it and :class:`PodRequirements` leave. A ``SelectionError`` has one problem for each wrong field. The room knows no
users, policies or KubeSpawner.

- ``field_definitions`` declares the fields of the form, ``fields`` what a field can be: start there to add a field.
- ``options`` reads forms and links, ``selection`` validates user options, ``checks`` has the checks of single values.
- ``pod_requirements`` says what the pod must carry.
"""

from gpuspawner.core.request.field_definitions import CLOSED_CHOICES, FIELDS, FORM_FIELDS
from gpuspawner.core.request.options import parse_form, parse_query
from gpuspawner.core.request.pod_requirements import PodRequirements, place
from gpuspawner.core.request.selection import Selection, build_options, summarize_selection, validate

__all__ = [
    "CLOSED_CHOICES",
    "FIELDS",
    "FORM_FIELDS",
    "PodRequirements",
    "Selection",
    "build_options",
    "parse_form",
    "parse_query",
    "place",
    "summarize_selection",
    "validate",
]
