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
        (replace(PRESENT, value="5"), Toleration(key=GPU, value="9", operator="Lt"), False),
        (replace(PRESENT, value="5"), Toleration(key=GPU, value="1", operator="Gt"), False),
    ],
)
def test_taints_are_tolerated_as_kube_scheduler_decides(taint: Taint, toleration: Toleration | None, expected: bool):
    assert tolerates_taints(Node(name="a", taints=(taint,)), (toleration,) if toleration else ()) is expected


def test_every_taint_needs_a_toleration():
    other = replace(PRESENT, key="other")
    node = Node(name="a", taints=(PRESENT, other))
    assert list(find_untolerated_taints(node, (Toleration(key=GPU, operator="Exists"),))) == [other]


def test_a_cordon_is_tolerated_like_its_taint():
    assert not tolerates_cordon(())
    assert tolerates_cordon((Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),))
