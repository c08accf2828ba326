"""The text about each right is the comment beside it in the file that admins apply."""

from __future__ import annotations

import copy
import re
import subprocess
from collections.abc import Iterable
from typing import Any

import yaml

from gpuspawner._resources import data_dir
from gpuspawner.cli.cluster.shipped_roles import ResourceRight, parse_shipped_rights, read_shipped_rights

ROLE = """\
# Reading things. It does no
# harm. Without it there are none: the form says "none". Nothing else is lost.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: gpuspawner-things-jupyterhub
rules:
  - apiGroups: ["", example.org]
    resources: [things]
    verbs: [list]
  # For others, without it not.
  - apiGroups: [""]
    resources: [others/log]
    verbs: [get]
  # Seldom needed. Without it something is lost.
  #
  # - apiGroups: [""]
  #   resources: [rest]
  #   verbs: [get, create]
---
kind: RoleBinding
metadata:
  name: gpuspawner-things
"""


def right(resource: str, **more: object) -> ResourceRight:
    usual: dict[str, object] = {
        "part": "things",
        "api_group": "",
        "is_namespaced": True,
        "is_granted": True,
        "purpose": "Reading things. It does no harm.",
        "lost": 'Without it there are none: the form says "none". Nothing else is lost.',
    }
    return ResourceRight(resource=resource, **{**usual, **more})  # type: ignore[arg-type]


def test_each_resource_of_a_rule_is_a_right_with_the_comment_of_the_rule_or_else_of_its_part():
    assert parse_shipped_rights(ROLE) == (
        right("things", verbs=("list",)),
        right("things", api_group="example.org", verbs=("list",)),
        right("others/log", verbs=("get",), purpose="", lost="For others, without it not."),
        right(
            "rest",
            verbs=("get", "create"),
            is_granted=False,
            purpose="Seldom needed.",
            lost="Without it something is lost.",
        ),
    )


def test_the_command_of_the_packaged_file_changes_nothing_but_names_and_namespaces():
    text = (data_dir("helm-values") / "rbac.yaml").read_text(encoding="utf-8")
    (script,) = re.findall(r"^#     sed '(.+)' rbac\.yaml \| kubectl apply -f -$", text, re.MULTILINE)
    renamed = subprocess.run(["sed", script], input=text, capture_output=True, text=True, check=True).stdout

    shipped, found = (list(yaml.safe_load_all(each)) for each in (text, renamed))

    assert [place_in(each, "lab") for each in shipped] == found
    assert not identities(shipped) & identities(found)
    assert len(identities(shipped)) == len(shipped)


def place_in(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return an object of the file as it is for the hub of another namespace."""
    placed = copy.deepcopy(manifest)
    named = [placed["metadata"], *filter(None, [placed.get("roleRef")])]
    for reference in named:
        reference["name"] = f"{reference['name'].removesuffix('-jupyterhub')}-{namespace}"
    for reference in [placed["metadata"], *placed.get("subjects", ())]:
        if reference.get("namespace") == "jupyterhub":
            reference["namespace"] = namespace
    return placed


def identities(manifests: Iterable[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in manifests}


def test_hubs_of_any_two_namespaces_share_no_name():
    # Otherwise the namespace a-b and the part x would make the name of the namespace b and the part x-a.
    parts = {each.part for each in read_shipped_rights()}
    assert [(one, other) for one in parts for other in parts if other.startswith(f"{one}-")] == []


def test_a_right_for_the_whole_cluster_is_distinguished():
    (first, *_) = parse_shipped_rights(ROLE.replace("kind: Role\n", "kind: ClusterRole\n"))
    assert not first.is_namespaced


def test_the_packaged_file_says_of_every_right_what_it_is_for_and_what_is_lost():
    assert [each for each in read_shipped_rights() if not (each.purpose and each.lost)] == []


def test_the_packaged_file_is_read_to_its_last_rule():
    text = (data_dir("helm-values") / "rbac.yaml").read_text(encoding="utf-8")
    roles = [each for each in yaml.safe_load_all(text) if each and each["kind"] in {"Role", "ClusterRole"}]
    granted = [
        (role["metadata"]["name"].removesuffix("-jupyterhub"), resource, tuple(rule["verbs"]))
        for role in roles
        for rule in role["rules"]
        for resource in rule["resources"]
    ]

    found = [
        (f"gpuspawner-{each.part}", each.resource, each.verbs) for each in read_shipped_rights() if each.is_granted
    ]

    assert found == granted
    assert [each.resource for each in read_shipped_rights() if not each.is_granted] == ["secrets", "services"]
