"""Random labels of pods, and selectors that find them."""

from __future__ import annotations

from typing import Any

from bench.fit.draw import Draw
from bench.fit.vocabulary import POD_LABELS, ZONE, ZONES

Selector = dict[str, Any]


def pod_labels(draw: Draw, *, least: int = 0) -> dict[str, str]:
    """Return labels of a pod."""
    return {key: draw.one(POD_LABELS[key]) for key in draw.some(list(POD_LABELS), least=least, most=4)}


def label_selector(draw: Draw, own: dict[str, str]) -> Selector | None:
    """Return a label selector: often one that finds the pod itself (``own`` labels), also all pods or, None, no pod."""
    choice = draw.weighted({"own": 8, "any": 6, "expressions": 5, "all": 2, "nothing": 1})
    if choice == "nothing":
        return None
    if choice == "all":
        return {}
    if choice == "own" and own:
        keys = draw.some(list(own), most=2)
        return {"matchLabels": {key: own[key] for key in keys}}
    if choice == "expressions":
        selector: Selector = {"matchExpressions": [_expression(draw) for _ in range(draw.number(1, 2))]}
        if draw.chance(20):
            selector["matchLabels"] = _equal(draw)
        return selector
    return {"matchLabels": _equal(draw)}


def _equal(draw: Draw) -> dict[str, str]:
    if draw.chance(3):
        # The API server copies the node's topology labels to pods that are bound there.
        return {ZONE: draw.one(ZONES)}
    key = draw.one(list(POD_LABELS))
    return {key: draw.one(POD_LABELS[key])}


def _expression(draw: Draw) -> dict[str, Any]:
    key = draw.one(list(POD_LABELS))
    operator = draw.one(("In", "NotIn", "Exists", "DoesNotExist"))
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": draw.some(POD_LABELS[key], most=2)}
