from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.discovery.discover import find_interconnect, is_spot

PRODUCT, CLIQUE = "nvidia.com/gpu.product", "nvidia.com/gpu.clique"
SXM, PCIE = "A100-SXM4", "A100-PCIE"
TABLE = AcceleratorTable(
    [Accelerator(slug="a100", name="A100", vendor="nvidia", labels={"gfd": (SXM, PCIE)}, nvlink=(SXM,))]
)
KARPENTER = "karpenter.sh/capacity-type"


def gpu(**changes: Any) -> GPUType:
    values = {"vendor": "nvidia", "max_count": 8} | changes
    return GPUType(slug="g", display_name="G", resource="nvidia.com/gpu", **values)


@pytest.mark.parametrize(
    "labels",
    [
        {KARPENTER: "spot"},
        {"eks.amazonaws.com/capacityType": "SPOT"},
        {"cloud.google.com/gke-spot": "true"},
        {"cloud.google.com/gke-preemptible": "true"},
        {"kubernetes.azure.com/scalesetpriority": "spot"},
    ],
)
def test_each_cloud_says_it_in_its_own_way(labels: dict[str, str]):
    assert is_spot(gpu(), [{"zone": "a", **labels}])


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {KARPENTER: "on-demand"},
        {KARPENTER: "SPOT"},
        {"eks.amazonaws.com/capacityType": "ON_DEMAND"},
        {"cloud.google.com/gke-spot": "false"},
        {"kubernetes.azure.com/scalesetpriority": "regular"},
        {"pool": "spot"},
    ],
)
def test_other_labels_do_not_say_it(labels: dict[str, str]):
    assert not is_spot(gpu(), [labels])


def test_one_node_of_another_kind_and_nothing_is_said():
    spot, other = {KARPENTER: "spot"}, {KARPENTER: "on-demand"}
    assert [is_spot(gpu(), nodes) for nodes in ([spot, spot], [spot, other], [other, spot], [spot, {}], [])] == [
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("values", "expected"), [(("spot",), True), (("spot", "on-demand"), False), (("on-demand",), False), ((), False)]
)
def test_what_the_match_asks_for_is_so_while_there_is_no_node(values: tuple[str, ...], expected: bool):
    assert is_spot(gpu(match={KARPENTER: values}), []) is expected


@pytest.mark.parametrize(
    ("nodes", "link"),
    [
        ([{PRODUCT: SXM}], "NVLink"),
        ([{PRODUCT: SXM}, {PRODUCT: SXM}], "NVLink"),
        ([{PRODUCT: PCIE}], None),
        ([{PRODUCT: SXM}, {PRODUCT: PCIE}], None),
        ([{PRODUCT: "X9"}], None),
        ([{PRODUCT: PCIE, CLIQUE: "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"}], "NVLink"),
        ([{CLIQUE: "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"}, {}], None),
        ([], None),
    ],
)
def test_nvlink_is_said_where_each_node_is_known_to_have_it(nodes: list[dict[str, str]], link: str | None):
    assert find_interconnect(gpu(), nodes, table=TABLE) == link


@pytest.mark.parametrize(("values", "link"), [((SXM,), "NVLink"), ((SXM, PCIE), None)])
def test_a_product_that_the_match_names_is_known_while_there_is_no_node(values: tuple[str, ...], link: str | None):
    assert find_interconnect(gpu(match={PRODUCT: values, "pool": ("x",)}), [], table=TABLE) == link


@pytest.mark.parametrize(
    "changes", [{"unit": UnitKind.MIG}, {"unit": UnitKind.SHARED}, {"max_count": 1}, {"vendor": "amd"}]
)
def test_parts_of_gpus_single_ones_and_those_of_others_are_not_linked(changes: dict[str, Any]):
    own = gpu(match={PRODUCT: (SXM,)}, **changes)
    assert find_interconnect(own, [{PRODUCT: SXM, CLIQUE: "a.1"}], table=TABLE) is None
