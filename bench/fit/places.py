"""Random rules about nodes: selectors, required node affinity, tolerations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.fit.draw import Draw
from bench.fit.peers import PREFERRED, REQUIRED
from bench.fit.scene import Manifest
from bench.fit.vocabulary import (
    GENERATION,
    NOT_READY,
    NUMBERS_COMPARED,
    PRODUCT,
    TAINTS,
    UNSCHEDULABLE,
    ZONE,
    ZONES,
)

Rule = dict[str, Any]
_NUMBERED = (GENERATION, "nvidia.com/gpu.memory", "nvidia.com/gpu.count")
_STRANGE = {PRODUCT: "NO-SUCH-CARD", ZONE: "zone-x", "example.com/absent": "yes"}


def node_selector(draw: Draw, nodes: Sequence[Manifest]) -> dict[str, str]:
    """Return a node selector, mostly one that some node matches."""
    labels = _labels(draw.one(nodes))
    selector = {key: labels[key] for key in draw.some(list(labels), most=2)}
    if draw.chance(10):
        key = draw.one(list(_STRANGE))
        selector[key] = _STRANGE[key]
    return selector


def node_affinity(draw: Draw, nodes: Sequence[Manifest]) -> Rule:
    """Return a ``nodeAffinity`` with required terms, of which one has to match."""
    rules: Rule = {REQUIRED: {"nodeSelectorTerms": node_terms(draw, nodes)}}
    if draw.chance(10):
        rules[PREFERRED] = [{"weight": 5, "preference": _term(draw, nodes)}]
    return rules


def node_terms(draw: Draw, nodes: Sequence[Manifest]) -> list[Rule]:
    """Return node selector terms; one without anything in it matches nothing."""
    return [{} if draw.chance(3) else _term(draw, nodes) for _ in range(draw.weighted({1: 5, 2: 2, 3: 1}))]


def zone_terms(draw: Draw, nodes: Sequence[Manifest]) -> list[Rule]:
    """Return what the node affinity of a volume says: the zones, or the one node, where it can be mounted."""
    if draw.chance(70):
        return [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": draw.some(ZONES, most=2)}]}]
    return [{"matchExpressions": [_expression(draw, nodes)]} for _ in range(draw.number(1, 2))]


def _term(draw: Draw, nodes: Sequence[Manifest]) -> Rule:
    term: Rule = {}
    if draw.chance(10):
        field: Rule = {"key": "metadata.name", "operator": draw.one(("In", "In", "NotIn"))}
        field["values"] = [draw.one(nodes)["metadata"]["name"]]
        term["matchFields"] = [field]
        if draw.chance(60):
            return term
    term["matchExpressions"] = [_expression(draw, nodes) for _ in range(draw.weighted({1: 4, 2: 2}))]
    return term


def _expression(draw: Draw, nodes: Sequence[Manifest]) -> Rule:
    operator = draw.weighted({"In": 6, "NotIn": 3, "Exists": 2, "DoesNotExist": 2, "Gt": 2, "Lt": 2})
    if operator in {"Gt", "Lt"}:
        return _comparison(draw, nodes, operator=operator)
    labels = {**(_STRANGE if draw.chance(10) else {}), **_labels(draw.one(nodes))}
    key = draw.one(list(labels))
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    others = [_labels(node)[key] for node in nodes if key in _labels(node)]
    values = draw.some(sorted({labels[key], *others}), most=2)
    return {"key": key, "operator": operator, "values": values}


def _comparison(draw: Draw, nodes: Sequence[Manifest], *, operator: str) -> Rule:
    """Return a comparison with a number, often with one next to that of some node."""
    key = draw.one(_NUMBERED)
    numbers = [int(text) for node in nodes if (text := _labels(node).get(key, "")).isdecimal()]
    if numbers and draw.chance(60):
        value = str(max(0, draw.one(numbers) + draw.number(-1, 1)))
    else:
        value = draw.one(NUMBERS_COMPARED)
    return {"key": key, "operator": operator, "values": [value]}


def tolerations(draw: Draw, nodes: Sequence[Manifest]) -> list[Rule]:
    """Return tolerations, mostly of taints that some node has."""
    taints = [taint for node in nodes for taint in node["spec"].get("taints", ())]
    known = taints if taints and draw.chance(80) else [*TAINTS, UNSCHEDULABLE, NOT_READY]
    return [_toleration(draw, draw.one(known)) for _ in range(draw.weighted({1: 3, 2: 2, 4: 1}))]


def _toleration(draw: Draw, taint: Mapping[str, str]) -> Rule:
    """Return a toleration of a taint, or one that just misses it.

    The control plane has the feature gate TaintTolerationComparisonOperators, which is off by default.
    """
    if draw.chance(8):
        everything: Rule = {"operator": "Exists"}
        if draw.chance(50):
            everything["effect"] = taint["effect"]
        return everything
    toleration: Rule = {"key": taint["key"]}
    if taint["key"] == "example.com/failures" and draw.chance(70):
        return {**toleration, "operator": draw.one(("Gt", "Lt")), "value": draw.one(("-1", "3", "5", "7", "9"))}
    if draw.chance(45):
        toleration["operator"] = "Exists"
    else:
        if draw.chance(50):
            toleration["operator"] = "Equal"
        value = taint.get("value", "") if draw.chance(80) else draw.one(("present", "user", ""))
        if value or draw.chance(50):
            toleration["value"] = value
    if draw.chance(70):
        toleration["effect"] = taint["effect"] if draw.chance(85) else "NoExecute"
    if toleration.get("effect") == "NoExecute" and draw.chance(30):
        toleration["tolerationSeconds"] = 300
    return toleration


def _labels(node: Manifest) -> dict[str, str]:
    labels: dict[str, str] = node["metadata"]["labels"]
    return labels
