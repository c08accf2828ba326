from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.gpu_sharing import check_mig_states, check_mig_strategies, check_shared_counts
from tests.unit.cli.doctor.cases import GPU, PRODUCT, T4, codes, facts, gpu_type, node

STATE = "nvidia.com/mig.config.state"
SLICE = "nvidia.com/mig-1g.5gb"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("failed", [("fault", "mig-config-failed", ("n",))]),
        ("pending", [("warning", "mig-config-pending", ("n",))]),
        ("rebooting", [("warning", "mig-config-pending", ("n",))]),
        ("success", []),
    ],
)
def test_a_layout_that_is_not_there_is_reported(state: str, expected: list[Any]):
    labels = {**T4, STATE: state, "nvidia.com/mig.config": "all-1g.5gb"}
    assert codes(check_mig_states, facts(node(labels=labels))) == expected


def test_the_layout_is_asked_for_again():
    (found,) = check_mig_states(facts(node(labels={STATE: "failed", "nvidia.com/mig.config": "all-1g.5gb"})))
    assert "kubectl label node n nvidia.com/mig.config=all-1g.5gb --overwrite" in found.fix
    assert "all-1g.5gb could not be made" in found.what


@pytest.mark.parametrize(
    ("strategy", "slices", "is_found"), [("single", 7, True), ("single", 0, False), ("mixed", 7, False)]
)
def test_slices_by_name_under_the_strategy_single_are_a_warning(strategy: str, slices: int, is_found: bool):
    found = node(labels={**T4, "nvidia.com/mig.strategy": strategy}, capacity={GPU: 4, SLICE: slices})
    expected = [("warning", "mig-strategy-mismatch", ("n",))] if is_found else []
    assert codes(check_mig_strategies, facts(found)) == expected


SHARED = {PRODUCT: "Tesla-T4", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "1"}


@pytest.mark.parametrize(
    ("labels", "most", "expected"),
    [
        (SHARED, 4, "warning"),
        (SHARED, 1, None),
        ({**SHARED, "nvidia.com/gpu.sharing-strategy": "mps"}, 2, "fault"),
        ({PRODUCT: "Tesla-T4", "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}, 2, "fault"),
        (T4, 4, None),
    ],
)
def test_several_shares_for_one_server_are_reported(labels: dict[str, str], most: int, expected: str | None):
    found = facts(node(labels=labels), settings={"gpus": {"t4": gpu_type(max_count=most)}})
    assert codes(check_shared_counts, found) == ([] if expected is None else [(expected, "shared-count", ("t4", "n"))])


def test_a_type_without_unit_and_number_is_shared_as_its_nodes_are():
    found = facts(node(labels=SHARED), settings={"gpus": {"t4": gpu_type()}})
    assert codes(check_shared_counts, found) == []


def test_a_type_with_a_unit_that_its_nodes_contradict_is_reported():
    found = facts(node(labels=SHARED), settings={"gpus": {"t4": gpu_type(unit="card")}})
    assert codes(check_shared_counts, found) == [("warning", "shared-count", ("t4", "n"))]


def test_shares_that_only_the_machine_tells_are_reported():
    machine = {f"karpenter.k8s.aws/instance-gpu-{key}": text for key, text in (("name", "t4"), ("count", "1"))}
    labels = {**machine, "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia", PRODUCT: "Tesla-T4"}
    found = facts(node(labels=labels), settings={"gpus": {"t4": gpu_type(max_count=4)}})
    assert codes(check_shared_counts, found) == [("warning", "shared-count", ("t4", "n"))]
