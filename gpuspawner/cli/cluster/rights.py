"""The rights that a hub can be given, as the packaged ``helm-values/rbac.yaml`` grants and explains them.

Admins apply that file, so what is said of a right is read from the comments in it, and written nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import yaml

from gpuspawner._resources import data_dir

_ROLE_PREFIX = "gpuspawner-"
_ROLES = frozenset({"Role", "ClusterRole"})
# A rule that is commented out, with the lines of its own.
_COMMENTED_OUT = re.compile(r"^( *)# (- apiGroups:.*(?:\n\1#  +\S.*)*)", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.:]) (?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRight:
    """What the hub may do with one resource.

    :param part: the part of the file that it is in, each of which can be left out: ``hub``, ``nodes``, ``pods``, …
    :param resource: in the plural; a subresource stands behind a slash.
    :param is_namespaced: it is for the servers' namespace only.
    :param is_granted: the file grants it as it is shipped; what is commented out there it does not.
    :param purpose: what it is for.
    :param lost: what is lost without it.
    """

    part: str
    api_group: str
    resource: str
    verbs: tuple[str, ...]
    is_namespaced: bool
    is_granted: bool
    purpose: str
    lost: str


def read_shipped_rights() -> tuple[ResourceRight, ...]:
    """Return the rights of the packaged file, in its order."""
    return parse_shipped_rights((data_dir("helm-values") / "rbac.yaml").read_text(encoding="utf-8"))


def parse_shipped_rights(manifests: str) -> tuple[ResourceRight, ...]:
    """Return the rights that the roles among these manifests hold, whatever else is there."""
    return tuple(right for manifest in re.split(r"(?m)^---$", manifests) for right in _parse_manifest(manifest))


def _parse_manifest(manifest: str) -> Iterator[ResourceRight]:
    whole = _COMMENTED_OUT.sub(lambda found: found[1] + found[2].replace(f"\n{found[1]}# ", f"\n{found[1]}"), manifest)
    role: Any = yaml.safe_load(whole) or {}
    if role.get("kind") not in _ROLES:
        return
    lines, lines_as_shipped = whole.splitlines(), manifest.splitlines()
    of_part = _split_comment([*takewhile(_is_comment, filter(None, lines))])
    for rule, number in zip(role["rules"], _find_rule_lines(whole), strict=True):
        own = _split_comment([*takewhile(_is_comment, reversed(lines[:number]))][::-1])
        purpose, lost = own if any(own) else of_part
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield ResourceRight(
                    part=role["metadata"]["name"].removeprefix(_ROLE_PREFIX),
                    api_group=group,
                    resource=resource,
                    verbs=tuple(rule["verbs"]),
                    is_namespaced=role["kind"] == "Role",
                    is_granted=lines[number] == lines_as_shipped[number],
                    purpose=purpose,
                    lost=lost,
                )


def _find_rule_lines(manifest: str) -> Sequence[int]:
    """Return the number of the line that each rule of a role begins at."""
    node: Any = yaml.compose(manifest)
    (rules,) = (value for key, value in node.value if key.value == "rules")
    return [rule.start_mark.line for rule in rules.value]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _split_comment(comment: Sequence[str]) -> tuple[str, str]:
    """Return the sentences of a comment up to the first one that says what is lost, and the others."""
    sentences = _SENTENCE_END.split(" ".join(" ".join(line.lstrip(" #") for line in comment).split()))
    begins = next((at for at, sentence in enumerate(sentences) if "ithout it" in sentence), len(sentences))
    return " ".join(sentences[:begins]), " ".join(sentences[begins:])
