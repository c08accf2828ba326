"""The owner of a server's pod and its GPUs, whichever component made the pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Catalog, GPUType, Image
from gpuspawner.core.catalog.policy_model import ANY, GPUPool, Policy
from gpuspawner.core.cluster.model import PodConstraints
from gpuspawner.core.policy.usage import ServerPod, ServerUsage, build_server_usage, read_pod_owner, read_server_pod

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
A100 = {"nvidia.com/gpu.product": "A100"}


def gpu_type(slug: str, *, resource: str = GPU, **match: str) -> GPUType:
    labels = {f"nvidia.com/gpu.{key}": (value,) for key, value in match.items()}
    return GPUType(slug=slug, display_name=slug, resource=resource, vendor="nvidia", match=labels)


CATALOG = Catalog(
    images={"base": Image(slug="base", display_name="Base", image="base")},
    cpu=None,
    memory=None,
    gpus={
        "a100": gpu_type("a100", product="A100"),
        "t4": gpu_type("t4", product="T4"),
        "slice": gpu_type("slice", resource=MIG),
    },
)


def raw(
    notes: dict[str, str] | None = None, limits: dict[str, str] | None = None, *, phase: str = "Running", **spec: Any
) -> dict[str, Any]:
    container = {"name": "notebook", "resources": {"limits": limits or {}}}
    annotations = {"hub.jupyter.org/username": "ada", **{_full(name): value for name, value in (notes or {}).items()}}
    return {
        "metadata": {"uid": "u1", "annotations": annotations},
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase},
    }


def _full(name: str) -> str:
    return f"hub.jupyter.org/{name}" if name in {"username", "servername"} else f"gpuspawner.jupyter.org/{name}"


def server(pod: dict[str, Any], *, catalog: Catalog = CATALOG, **more: Any) -> ServerUsage:
    found = read_server_pod(pod)
    assert found is not None
    return build_server_usage(found, catalog, **{"labels": None, "groups": frozenset(), **more})


def test_a_servers_pod_says_whose_it_is_and_what_was_chosen():
    notes = {"servername": "two", "gpu": "a100", "gpu-count": "2", "pools": "physics,all"}
    assert read_server_pod(raw(notes, {GPU: "2", "cpu": "1"}, nodeName="n1", nodeSelector=A100)) == ServerPod(
        owner="ada",
        name="two",
        uid="u1",
        annotated_gpu="a100",
        annotated_count=2,
        pools=("physics", "all"),
        devices={GPU: 2},
        node="n1",
        constraints=PodConstraints(node_selector=A100),
    )


@pytest.mark.parametrize(
    ("notes", "pools"), [({}, None), ({"pools": ""}, ()), ({"pools": "a"}, ("a",)), ({"pools": "a,b"}, ("a", "b"))]
)
def test_a_pod_may_say_that_it_counts_towards_no_pool(notes: dict[str, str], pools: tuple[str, ...] | None):
    found = read_server_pod(raw(notes))
    assert found.pools == pools


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str):
    assert read_server_pod(raw({"gpu": "a100"}, {GPU: "1"}, phase=phase)) is None


def test_a_pod_that_is_being_deleted_still_holds_its_gpus():
    pod = raw({"gpu": "a100"}, {GPU: "1"})
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert server(pod).count == 1


@pytest.mark.parametrize("raw_pod", [None, {}, {"metadata": {"annotations": {"hub.jupyter.org/username": 3}}}])
def test_what_belongs_to_no_user_is_no_server(raw_pod: Any):
    assert read_server_pod(raw_pod) is None


def test_a_server_without_a_gpu_has_none():
    assert server(raw({}, {"cpu": "1", "example.com/fpga": "2"})) == ServerUsage(owner="ada", name="")


def test_what_a_pod_really_asks_for_counts_not_what_it_notes():
    assert server(raw({"gpu": "a100", "gpu-count": "1"}, {GPU: "3"})) == ServerUsage(
        owner="ada", name="", gpu="a100", count=3
    )


@pytest.mark.parametrize(("noted", "count"), [("2", 2), ("many", 0), ("-1", 0), ("²", 0), ("9" * 5000, 0), ("99", 9)])
def test_where_it_asks_for_no_known_gpu_what_it_notes_counts(noted: str, count: int):
    assert server(raw({"gpu": "gone", "gpu-count": noted}, {"example.com/odd": "9"})).count == count


def test_a_pod_that_asks_for_no_device_holds_nothing_whatever_it_notes():
    assert server(raw({"gpu": "a100", "gpu-count": "99"}, {"cpu": "1"})) == ServerUsage(owner="ada", name="")


def test_of_a_type_that_is_gone_the_resource_and_the_node_tell():
    noted = raw({"gpu": "gone"}, {GPU: "1"})
    assert server(noted, labels={"nvidia.com/gpu.product": "T4"}).gpu == "t4"
    assert server(noted).gpu == ""


def test_a_type_that_is_not_offered_is_believed():
    hidden = replace(CATALOG, gpus={}, hidden=(CATALOG.gpus["t4"],))
    assert server(raw({"gpu": "t4"}, {GPU: "1"}), catalog=hidden).gpu == "t4"


def test_all_gpus_of_a_pod_count_also_those_that_are_not_offered():
    assert server(raw({"gpu": "a100"}, {GPU: "1", MIG: "2", "amd.com/gpu": "4"})).count == 7


@pytest.mark.parametrize(
    ("limits", "labels", "selector", "slug"),
    [
        ({GPU: "1"}, {"nvidia.com/gpu.product": "T4"}, {}, "t4"),
        ({GPU: "1"}, {"nvidia.com/gpu.product": "T4"}, A100, "t4"),
        ({GPU: "1"}, None, A100, "a100"),
        ({MIG: "1"}, None, {}, "slice"),
        ({GPU: "1"}, None, {}, ""),
        ({GPU: "1"}, {"nvidia.com/gpu.product": "H900"}, {}, ""),
        ({"amd.com/gpu": "1"}, None, {}, ""),
    ],
)
def test_a_pod_of_another_spawner_is_recognized_by_its_resource_and_its_node(
    limits: dict[str, str], labels: dict[str, str] | None, selector: dict[str, str], slug: str
):
    assert server(raw({}, limits, nodeSelector=selector), labels=labels).gpu == slug


def affinity(*models: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": list(models)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def test_a_waiting_pod_of_another_spawner_is_recognized_by_its_affinity():
    assert server(raw({}, {GPU: "1"}, affinity=affinity("T4"))).gpu == "t4"


def test_a_waiting_pod_that_may_get_a_new_model_counts_as_every_type():
    assert server(raw({}, {GPU: "1"}, affinity=affinity("T4", "A100-PCIe"))).gpu == ""


def test_a_pod_with_gpus_of_an_unknown_type_counts_towards_all_pools_of_its_owner():
    several = raw({}, {GPU: "1", "gpu.intel.com/i915": "1"})
    assert server(several, catalog=POOLED, groups={"physics"}).pools == ("physics", "small")
    assert server(several).gpu == ""


def pool(slug: str, *groups: str, gpus: frozenset[str] = frozenset({ANY})) -> GPUPool:
    return GPUPool(slug=slug, display_name=slug, groups=frozenset(groups), gpus=gpus, max_gpus=1)


POOLS = {
    "physics": pool("physics", "physics", "astro"),
    "arts": pool("arts", "arts"),
    "small": pool("small", "physics", gpus=frozenset({"t4"})),
}
POOLED = replace(CATALOG, policy=Policy(pools=POOLS))


@pytest.mark.parametrize(
    ("groups", "pools"),
    [(frozenset({"astro", "x"}), ("physics",)), (frozenset(), ()), (None, ("physics", "arts"))],
    ids=["in a group", "in none", "unreadable"],
)
def test_a_pod_that_names_no_pools_counts_towards_those_of_its_owners_groups(
    groups: frozenset[str] | None, pools: tuple[str, ...]
):
    assert server(raw({"gpu": "a100"}, {GPU: "1"}), catalog=POOLED, groups=groups).pools == pools


def test_a_pod_of_unknown_type_counts_towards_all_pools_of_its_owner():
    odd = raw({"gpu": "gone", "gpu-count": "1"}, {"example.com/odd": "1"})
    assert server(odd, catalog=POOLED, groups={"physics"}).pools == ("physics", "small")


def test_pools_that_a_pod_names_are_believed():
    named = raw({"gpu": "a100", "pools": "old"}, {GPU: "1"})
    assert server(named, catalog=POOLED, groups=None).pools == ("old",)


def test_a_pod_notes_its_user_and_its_server():
    notes = {"hub.jupyter.org/username": "ada", "hub.jupyter.org/servername": "two"}
    assert read_pod_owner({"metadata": {"annotations": notes}}) == ("ada", "two")
    assert read_pod_owner({"metadata": {"annotations": {"hub.jupyter.org/username": "ada"}}}) == ("ada", "")


@pytest.mark.parametrize("raw_pod", [None, {}, {"metadata": {"annotations": {"hub.jupyter.org/servername": "two"}}}])
def test_a_pod_may_note_no_user(raw_pod: object):
    assert read_pod_owner(raw_pod) == ("", "")
