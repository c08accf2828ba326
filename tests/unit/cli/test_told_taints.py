from __future__ import annotations

from pathlib import Path

from gpuspawner.cli.told_taints import is_tolerated, told_taints
from gpuspawner.core.catalogue import GPUType, Toleration
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


def test_clouds_taint_by_rule(tmp_path: Path):
    told = tuple(told_taints(written(tmp_path, "a: 1"), {}))
    on_gke = gpu("t4", match={"cloud.google.com/gke-accelerator": ("nvidia-tesla-t4",)})
    on_spot = gpu("t4", match={"kubernetes.azure.com/scalesetpriority": ("spot",)})
    assert [each.taint.key for each in told if each.concerns(on_gke)] == ["nvidia.com/gpu"]
    assert [each.taint.key for each in told if each.concerns(on_spot)] == ["kubernetes.azure.com/scalesetpriority"]
    assert [each for each in told if each.concerns(gpu("t4", match=POOL))] == []


def test_what_another_type_tolerates_is_on_the_same_nodes(tmp_path: Path):
    own = Toleration(key="team", operator="Exists")
    types = {"a": gpu("a", match=POOL, tolerations=(own,)), "b": gpu("b", match=POOL), "c": gpu("c")}
    told = [each for each in told_taints(written(tmp_path, "a: 1"), types) if each.slug == "a"]
    assert [[each.taint.key for each in told if each.concerns(one)] for one in types.values()] == [[], ["team"], []]


def test_what_everybody_tolerates_by_convention_tells_of_no_taint(tmp_path: Path):
    usual = Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")
    types = {"a": gpu("a", match=POOL, tolerations=(usual,))}
    assert [each for each in told_taints(written(tmp_path, "a: 1"), types) if each.slug] == []


def test_what_a_profile_tolerates_is_on_nodes_of_its_resource(tmp_path: Path):
    text = """
        singleuser:
          profileList:
            - text
            - display_name: GPU
              kubespawner_override: {extra_resource_limits: {nvidia.com/gpu: 1}, tolerations: [{key: team}]}
    """
    told = [each for each in told_taints(written(tmp_path, text), {}) if each.resource]
    assert [(each.taint.key, each.who, each.concerns(gpu("a"))) for each in told] == [
        ("team", "the profile 'GPU' tolerates", True)
    ]
