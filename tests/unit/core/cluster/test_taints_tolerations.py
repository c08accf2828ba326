from __future__ import annotations

from dataclasses import replace

import pytest

from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.taints import find_untolerated_taints, tolerates_cordon, tolerates_taints

GPU = "nvidia.com/gpu"
PRESENT = Taint(key=GPU, value="present", effect="NoSchedule")


@pytest.mark.parametrize(
    ("taint", "toleration", "expected"),
    [
        (PRESENT, None, False),
        (replace(PRESENT, effect="PreferNoSchedule"), None, True),
        (replace(PRESENT, effect="NoExecute"), None, False),
        (PRESENT, Toleration(operator="Exists"), True),
        (PRESENT, Toleration(key=GPU, operator="Exists"), True),
        (PRESENT, Toleration(key=GPU, operator="Exists", effect="NoExecute"), False),
        (PRESENT, Toleration(key=GPU, value="present", effect="NoSchedule"), True),
        (PRESENT, Toleration(key=GPU, value="present", operator=""), True),
        (PRESENT, Toleration(key=GPU, value="other"), False),
        (PRESENT, Toleration(key="other", operator="Exists"), False),
        (PRESENT, Toleration(key=GPU, value="present", operator="Equals"), False),
    ],
)
def test_taints_are_tolerated_as_kube_scheduler_decides(taint: Taint, toleration: Toleration | None, expected: bool):
    assert tolerates_taints(Node(name="a", taints=(taint,)), (toleration,) if toleration else ()) is expected


@pytest.mark.parametrize(
    ("taint", "operator", "toleration", "expected"),
    [
        pytest.param("5", "Lt", "9", True, id="smaller"),
        pytest.param("9", "Lt", "9", False, id="not smaller"),
        pytest.param("5", "Gt", "1", True, id="larger"),
        pytest.param("1", "Gt", "1", False, id="not larger"),
        pytest.param("0", "Gt", "-1", True, id="below zero"),
        pytest.param("5", "Lt", "010", False, id="toleration with a leading zero"),
        pytest.param("05", "Lt", "9", False, id="taint with a leading zero"),
        pytest.param("5", "Gt", "-0", False, id="minus zero"),
        pytest.param("5", "Lt", "9223372036854775808", False, id="more than 64 bits"),
        pytest.param("\u0665", "Lt", "9", False, id="a digit of another script"),
        pytest.param("", "Lt", "9", False, id="no value"),
        pytest.param("a100", "Gt", "1", False, id="a word"),
    ],
)
def test_numbers_of_taints_are_compared_as_kubernetes_does(taint: str, operator: str, toleration: str, expected: bool):
    """As in core/v1/toleration.go, ``compareNumericValues``: the taint's number stands on the left."""
    tolerated = Toleration(key=GPU, value=toleration, operator=operator)
    assert tolerates_taints(Node(name="a", taints=(replace(PRESENT, value=taint),)), (tolerated,)) is expected


def test_every_taint_needs_a_toleration():
    other = replace(PRESENT, key="other")
    node = Node(name="a", taints=(PRESENT, other))
    assert list(find_untolerated_taints(node, (Toleration(key=GPU, operator="Exists"),))) == [other]


def test_a_cordon_is_tolerated_like_its_taint():
    assert not tolerates_cordon(())
    assert tolerates_cordon((Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),))
