"""Turns what a user asks for into a valid selection, and a selection into what its pod must contain.

Input: a choice as a form, a link or JSON, and the catalog to validate the choice against. Output: :class:`Selection`,
the user options that JupyterHub stores, and :class:`PodRequirements`. A ``SelectionError`` has one problem for each
wrong field. This package does not depend on users, policies or KubeSpawner.

- ``field_definitions`` declares each field with a class from ``fields``.
- ``options`` reads forms and links, ``selection`` validates user options, ``checks`` checks single values and writes
  the error messages that the form shows beside the fields.
- ``pod_requirements`` computes what the pod must contain: image, CPU, memory and GPUs, node selector and affinity,
  tolerations, environment variables, ``/dev/shm``.
- ``candidate`` reads the same from a finished pod, such as that of a profile of KubeSpawner.
"""

from gpuspawner.core.request.field_definitions import CLOSED_CHOICES, FIELDS, FORM_FIELDS
from gpuspawner.core.request.options import parse_form, parse_query
from gpuspawner.core.request.pod_requirements import PodRequirements, place
from gpuspawner.core.request.selection import Selection, build_options, validate

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
    "validate",
]
