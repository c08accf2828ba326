"""Which devices a DeviceClass means, where its CEL selectors are of a form that can be decided for sure.

That form is what drivers ship: comparisons of the driver and of text attributes with fixed texts, joined by ``&&``, as
in ``device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'``. Whatever else a selector
says is not decided here. https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

_CEL_TEXT = r"""(?:'[^'"\\\n\r]*'|"[^'"\\\n\r]*")"""
_CEL_TERM = re.compile(
    rf"\s*device\.(?:driver|attributes\[\s*(?P<domain>{_CEL_TEXT})\s*\]\.(?P<name>[A-Za-z_]\w*))\s*==\s*(?P<value>{_CEL_TEXT})\s*",
    re.ASCII,
)


class AttributeTerm(NamedTuple):
    """One comparison.

    :param attribute: name with its domain (``gpu.nvidia.com/type``), empty for the driver.
    :param value: the text it must be.
    """

    attribute: str
    value: str


DeviceSelector: TypeAlias = tuple[AttributeTerm, ...] | None
"""Terms that must all hold; None for a selector that is not understood."""


def parse_cel_selector(expression: str) -> DeviceSelector:
    """Return the terms of a CEL expression, None where it is of another form."""
    terms: list[AttributeTerm] = []
    at = 0
    while found := _CEL_TERM.match(expression, at):
        domain = found["domain"]
        terms.append(AttributeTerm(f"{domain[1:-1]}/{found['name']}" if domain else "", found["value"][1:-1]))
        if found.end() == len(expression):
            return tuple(terms)
        if not expression.startswith("&&", found.end()):
            return None
        at = found.end() + 2
    return None


def selects_device(selectors: Iterable[DeviceSelector], attributes: Mapping[str, str], *, driver: str) -> bool | None:
    """Tell whether a device is meant by all selectors, None where that is not sure.

    As kube-scheduler's allocator does, selectors are looked at one after the other up to the first that is not true.

    :param attributes: name with domain → text; what is missing or no text is not decided (in CEL an error).
    """
    for selector in selectors:
        is_meant = None if selector is None else _matches_all_terms(selector, attributes, driver=driver)
        if is_meant is not True:
            return is_meant
    return True


def _matches_all_terms(terms: tuple[AttributeTerm, ...], attributes: Mapping[str, str], *, driver: str) -> bool | None:
    """Tell whether all terms hold: in CEL one that is false outweighs errors in others, wherever they stand."""
    found = [attributes.get(term.attribute) if term.attribute else driver for term in terms]
    answers = [None if text is None else text == term.value for text, term in zip(found, terms, strict=True)]
    if False in answers:
        return False
    return None if None in answers else True
