from __future__ import annotations

from pathlib import Path

from gpuspawner.cli.check.type_warnings import ImpliedTaints, is_tolerated
from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.cluster.model import Toleration
from tests.unit.cli_support import written

EXISTS = Toleration(key="a", operator="Exists", effect="NoSchedule")
PRESENT = Toleration(key="nvidia.com/gpu", operator="Equal", value="present", effect="NoSchedule")
POOL = {"pool": ("ml",)}


def gpu(slug: str, **facts: object) -> GPUType:
    return GPUType(**{"slug": slug, "display_name": slug, "resource": "nvidia.com/gpu", "vendor": "nvidia"} | facts)


def test_what_a_toleration_covers():
    equal = Toleration(key="a", operator="Equal", value="x", effect="NoSchedule")
    assert is_tolerated(equal, (EXISTS,))
    assert is_tolerated(EXISTS, (equal,))  # nobody says which value the taint has
    assert is_tolerated(equal, (Toleration(operator="Exists"),))
    assert not is_tolerated(equal, (Toleration(key="a", operator="Equal", value="y"),))
    assert not is_tolerated(equal, (Toleration(key="a", operator="Exists", effect="NoExecute"),))
    assert not is_tolerated(equal, ())


def keys(told: ImpliedTaints, one: GPUType) -> list[str]:
    return [each.taint.key for each in told.list_taints(one)]


def test_clouds_taint_by_rule(tmp_path: Path):
    told = ImpliedTaints(written(tmp_path, "a: 1"), {})
    on_gke = gpu("t4", match={"cloud.google.com/gke-accelerator": ("nvidia-tesla-t4",)})
    on_spot = gpu("t4", match={"kubernetes.azure.com/scalesetpriority": ("spot",)})
    assert keys(told, on_gke) == ["nvidia.com/gpu"]
    assert keys(told, on_spot) == ["kubernetes.azure.com/scalesetpriority"]
    assert keys(told, gpu("t4", match=POOL)) == []


def test_what_another_type_tolerates_is_on_the_same_nodes(tmp_path: Path):
    own = Toleration(key="team", operator="Exists")
    types = {"a": gpu("a", match=POOL, tolerations=(own,)), "b": gpu("b", match=POOL), "c": gpu("c")}
    told = ImpliedTaints(written(tmp_path, "a: 1"), types)
    assert [(each.taint, each.source) for each in told.list_taints(types["b"])] == [
        (own, "'a' tolerates on the same nodes")
    ]
    assert keys(told, types["c"]) == []
    assert all(is_tolerated(each.taint, types["a"].tolerations) for each in told.list_taints(types["a"]))


def test_the_same_nodes_may_be_written_in_another_order(tmp_path: Path):
    one, other = {"a": ("x", "y"), "b": ("z",)}, {"b": ("z",), "a": ("y", "x")}
    types = {"a": gpu("a", match=one, tolerations=(EXISTS,)), "b": gpu("b", match=other)}
    assert keys(ImpliedTaints(written(tmp_path, "a: 1"), types), types["b"]) == ["a"]


def test_what_everybody_tolerates_by_convention_tells_of_no_taint(tmp_path: Path):
    usual = Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")
    types = {"a": gpu("a", match=POOL, tolerations=(usual,)), "b": gpu("b", match=POOL)}
    assert keys(ImpliedTaints(written(tmp_path, "a: 1"), types), types["b"]) == []


def test_what_profiles_tolerate_is_on_nodes_of_their_resource(tmp_path: Path):
    text = """
        singleuser:
          profileList:
            - text
            - display_name: GPU
              kubespawner_override: {extra_resource_limits: {nvidia.com/gpu: 1}, tolerations: [{key: team}]}
            - display_name: the same once more
              kubespawner_override: {extra_resource_limits: {nvidia.com/gpu: 2}, tolerations: [{key: team}]}
    """
    told = ImpliedTaints(written(tmp_path, text), {})
    assert [(each.taint.key, each.source) for each in told.list_taints(gpu("a"))] == [
        ("team", "the profile 'GPU' tolerates")
    ]
    assert keys(told, gpu("a", resource="amd.com/gpu")) == []
