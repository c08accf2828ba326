"""How many volumes nodes have and may have, as kube-scheduler counts them (nodevolumelimits/csi.go)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.dra import ClusterDevices, NodeDevices
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.cluster.volumes import (
    UNLIMITED,
    ClusterVolumes,
    StorageClass,
    Volume,
    collect_volumes,
    decode_csi_node,
    decode_persistent_volume,
    decode_storage_class,
    decode_volume_attachment,
)
from gpuspawner.core.scheduling.results import Answer
from gpuspawner.core.scheduling.scan import check_node, scan_nodes

DRIVER = "disk.example.com"
RESOURCE = f"attachable-volumes-csi-{DRIVER}"
EBS = "ebs.csi.aws.com"


def named(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def disk(name: str, **source: Any) -> dict[str, Any]:
    own = source or {"csi": {"driver": DRIVER, "volumeHandle": name}}
    return named(f"pv-{name}", claimRef={"namespace": "hub", "name": name}, **own)


def limit(node: str, count: int | None) -> dict[str, Any]:
    return named(node, drivers=[{"name": DRIVER, "allocatable": {} if count is None else {"count": count}}])


def attachment(name: str, *, node: str = "n", driver: str = DRIVER) -> dict[str, Any]:
    return named(f"a-{name}", attacher=driver, nodeName=node, source={"persistentVolumeName": f"pv-{name}"})


def collect(
    *, limits: Iterable[Any] = (), disks: Iterable[Any] | None = (), attached: Iterable[Any] = ()
) -> ClusterVolumes:
    return collect_volumes(
        map(decode_csi_node, limits),
        None if disks is None else map(decode_persistent_volume, disks),
        attachments=map(decode_volume_attachment, attached),
    )


def pod(name: str, *claims: str, node: str | None = None, **more: Any) -> Pod:
    return Pod(name=name, namespace="hub", node=node, claims=claims, **more)


NODE = Node(name="n", allocatable={"pods": 110, "cpu": 4})


def cluster(volumes: ClusterVolumes, *pods: Pod) -> Occupancy:
    occupancy = Occupancy.build([NODE], pods)
    occupancy.put_volumes(volumes)
    return occupancy


ABC = [disk(name) for name in "abc"]


@pytest.mark.parametrize(
    ("count", "on_node", "needs", "expected"),
    [
        pytest.param(1, ["a"], ["b"], Answer.NO, id="no room for one more"),
        pytest.param(2, ["a"], ["b"], Answer.YES, id="room for one more"),
        pytest.param(2, ["a"], ["b", "c"], Answer.NO, id="no room for two more"),
        pytest.param(2, ["a", "b"], ["b"], Answer.YES, id="a disk that the node has"),
        pytest.param(2, ["a", "b"], ["b", "c"], Answer.NO, id="a disk that the node has and one more"),
        pytest.param(0, ["a", "b"], ["a", "b"], Answer.YES, id="disks that a node above its limit has"),
        pytest.param(0, ["a", "b"], ["a", "c"], Answer.NO, id="one more than a node above its limit has"),
        pytest.param(None, ["a", "b"], ["c"], Answer.YES, id="no limit"),
        pytest.param(0, [], ["unknown"], Answer.YES, id="a claim without a disk of the driver"),
    ],
)
def test_a_node_takes_no_more_volumes_than_its_limit(
    count: int | None, on_node: list[str], needs: list[str], expected: Answer
):
    volumes = collect(limits=[limit("n", count)], disks=ABC)
    occupancy = cluster(volumes, pod("p", *on_node, node="n"))
    new = volumes.add_needs(pod("new", *needs), new_claims={})
    found = check_node(new, occupancy.nodes[0], occupancy=occupancy)
    assert (found.answer, scan_nodes(new, occupancy).answer) == (expected, expected)


@pytest.mark.parametrize(
    ("attached", "expected"),
    [
        pytest.param([attachment("a")], 1, id="of a pod's volume"),
        pytest.param([attachment("b")], 2, id="of a volume without a pod"),
        pytest.param([attachment("b", node="m")], 1, id="to another node"),
        pytest.param([attachment("b", driver="nfs")], 1, id="by another driver"),
        pytest.param([attachment("gone")], 1, id="of an unknown volume"),
        pytest.param([named("inline", attacher=DRIVER, nodeName="n", source={})], 1, id="of a pod's own description"),
    ],
)
def test_volumes_that_are_attached_without_a_pod_count_too(attached: list[Any], expected: int):
    occupancy = cluster(collect(limits=[limit("n", 5)], disks=ABC, attached=attached), pod("p", "a", node="n"))
    assert occupancy.get_requested("n")[RESOURCE] == expected


def test_without_the_volumes_only_attachments_count():
    volumes = collect(limits=[limit("n", 5)], disks=None, attached=[attachment("a"), attachment("b")])
    assert cluster(volumes, pod("p", "a", node="n")).get_requested("n")[RESOURCE] == 2


def test_volumes_and_devices_that_a_node_holds_count_in_any_order():
    """Of a resource that a DRA driver publishes only claims hold something, whatever its pods request."""
    gpu, volumes = "nvidia.com/gpu", collect(limits=[limit("n", 3)], disks=ABC, attached=[attachment("c")])
    held = NodeDevices(capacity={gpu: 4}, allocatable={gpu: 4}, claimed={gpu: 1})
    found = []
    for order in permutations(range(4)):
        occupancy = Occupancy()
        steps = (
            lambda known=occupancy: known.put_node(NODE),
            lambda known=occupancy: known.put_volumes(volumes),
            lambda known=occupancy: known.put_devices(ClusterDevices(nodes={"n": held})),
            lambda known=occupancy: known.put_pod(pod("p", "a", node="n", priority=LOW, requests={gpu: 2})),
        )
        for number in order:
            steps[number]()
            amounts = [
                {name: occupancy.get_requested("n", floor).get(name) for name in (gpu, RESOURCE)} for floor in (None, 0)
            ]
        found.append(amounts)
    assert found == [[{gpu: 1, RESOURCE: 2}, {gpu: 1, RESOURCE: 1}]] * 24


def test_places_are_counted_by_the_volumes_that_still_fit():
    volumes = collect(limits=[limit("n", 4)], disks=ABC)
    new = volumes.add_needs(pod("new", "b"), new_claims={})
    assert scan_nodes(new, cluster(volumes, pod("p", "a", node="n"))).places == 3


def test_a_volume_of_a_nominated_pod_counts_on_its_node():
    volumes = collect(limits=[limit("n", 1)], disks=ABC)
    nominated = Pod(name="p", namespace="hub", node=None, claims=("a",), nominated_node="n")
    new = volumes.add_needs(pod("new", "b"), new_claims={})
    assert scan_nodes(new, cluster(volumes, nominated)).answer is Answer.NO


LOW, EQUAL = -10, 0
EBS_DISKS = [disk(name, awsElasticBlockStore={"volumeID": name}) for name in "ab"]
EBS_LIMIT = named("n", drivers=[{"name": EBS, "allocatable": {"count": 1}}])


@pytest.mark.parametrize(
    ("volumes", "others", "own", "expected"),
    [
        pytest.param(
            collect(limits=[limit("n", 1)], disks=ABC, attached=[attachment("a")]),
            [pod("p", "a", node="n", priority=LOW)],
            pod("new", "b"),
            Answer.NO,
            id="frees no attached disk",
        ),
        pytest.param(
            collect(limits=[EBS_LIMIT], disks=EBS_DISKS, attached=[attachment("a", driver=EBS)]),
            [pod("p", "a", node="n", priority=LOW)],
            pod("new", "b"),
            Answer.YES,
            id="frees an attached disk of an in-tree kind",
        ),
        pytest.param(
            collect(limits=[limit("n", 1)], disks=ABC, attached=[attachment("a")]),
            [pod("p", "a", node="n", priority=LOW, requests={"cpu": 4})],
            pod("new", "a", requests={"cpu": 4}),
            Answer.NO,
            id="makes an attached disk count twice",
        ),
        pytest.param(
            collect(limits=[limit("n", 1)], disks=ABC),
            [pod("p", "a", node="n", priority=LOW), pod("q", "c", priority=EQUAL, nominated_node="n")],
            pod("new", "b"),
            Answer.NO,
            id="gives the room to a nominated pod",
        ),
    ],
)
def test_a_preemption(volumes: ClusterVolumes, others: list[Pod], own: Pod, expected: Answer):
    """NodeVolumeLimits counts VolumeAttachments beside the pods that SelectVictimsOnNode leaves on a node."""
    occupancy = cluster(volumes, *others)
    new = volumes.add_needs(own, new_claims={})
    found = check_node(new, occupancy.nodes[0], occupancy=occupancy)
    assert (found.answer, scan_nodes(new, occupancy).answer) == (expected, expected)


def test_a_shared_claim_without_a_limit_needs_no_look_at_its_nodes():
    """Every server of a hub may share one, on thousands of nodes."""
    share = disk("share", csi={"driver": "nfs.csi.k8s.io", "volumeHandle": "share"})
    volumes = collect(limits=[limit("n", 2)], disks=[*ABC, share])
    occupancy = cluster(volumes, pod("p", "a", "share", node="n"))

    found = [
        occupancy.find_shared_volumes(volumes.add_needs(pod("new", *claims), new_claims={}))
        for claims in (["b", "share"], ["a", "share"])
    ]

    assert found == [{}, {"n": {RESOURCE: UNLIMITED}}]


@pytest.mark.parametrize("phase", ["Released", "Failed"])
@pytest.mark.parametrize("order", [1, -1], ids=["former volume first", "former volume last"])
def test_a_claim_that_was_made_again_has_its_new_volume(phase: str, order: int):
    """The former volume still names the claim where its reclaim policy keeps it."""
    former = {**disk("a"), "metadata": {"name": "pv-former"}, "status": {"phase": phase}}
    former["spec"]["csi"] = {"driver": "other.example.com", "volumeHandle": "former"}
    volumes = collect(limits=[limit("n", 0)], disks=[former, disk("a")][::order])
    new = volumes.add_needs(pod("new", "a"), new_claims={})
    assert scan_nodes(new, cluster(volumes)).answer is Answer.NO


CLAIMS = st.lists(st.sampled_from("abc"), max_size=2, unique=True).map(tuple)
RUNNING = st.builds(
    lambda name, claims, **more: pod(name, *claims, **more),
    st.sampled_from("pqrs"),
    CLAIMS,
    node=st.sampled_from("nm"),
    priority=st.sampled_from([LOW, EQUAL]),
    requests=st.fixed_dictionaries({"cpu": st.integers(0, 2)}),
)
KNOWN = st.builds(
    lambda limits, attached: collect(
        limits=[limit(*each) for each in limits.items()],
        disks=ABC,
        attached=[attachment(name, node=node) for name, node in attached],
    ),
    st.dictionaries(st.sampled_from("nm"), st.integers(0, 3)),
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("nm")), max_size=3, unique=True),
)


@given(KNOWN, st.lists(RUNNING, max_size=4, unique_by=lambda each: each.name), CLAIMS, st.integers(0, 4))
def test_a_preemption_finds_the_volumes_that_a_node_has_without_its_pods(
    volumes: ClusterVolumes, pods: list[Pod], claims: tuple[str, ...], cpu: int
):
    own = volumes.add_needs(pod("new", *claims, requests={"cpu": cpu}), new_claims={})
    nodes = [NODE, replace(NODE, name="m")]
    every, kept = (Occupancy.build(nodes, some) for some in (pods, [each for each in pods if each.priority == EQUAL]))
    for known in (every, kept):
        known.put_volumes(volumes)
    found = [check_node(own, node, occupancy=every).answer for node in every.nodes]
    expected = [
        max(
            check_node(replace(own, preempts=False), node, occupancy=known).answer is Answer.YES
            for known in (every, kept)
        )
        for node in every.nodes
    ]
    assert [answer is Answer.YES for answer in found] == expected
    assert (scan_nodes(own, every).answer is Answer.YES) == any(expected)


@pytest.mark.parametrize(
    ("source", "volume"),
    [
        pytest.param({"csi": {"driver": "d", "volumeHandle": "h"}}, Volume("d", "h"), id="CSI"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://us-1a/vol-1"}}, Volume(EBS, "vol-1"), id="EBS"),
        pytest.param({"cinder": {"volumeID": "c-1"}}, Volume("cinder.csi.openstack.org", "c-1"), id="Cinder"),
        pytest.param({"nfs": {"server": "s"}}, None, id="no disk"),
        pytest.param({"csi": 3}, None, id="malformed"),
    ],
)
def test_volumes_of_in_tree_kinds_are_those_of_their_csi_driver(source: dict[str, Any], volume: Volume | None):
    assert decode_persistent_volume(disk("a", **source)).volume == volume


def test_a_storage_class_of_an_in_tree_provisioner_is_that_of_its_csi_driver():
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    raw = {"metadata": {"name": "gp2", "annotations": annotations}, "provisioner": "kubernetes.io/aws-ebs"}
    assert decode_storage_class(raw) == StorageClass(name="gp2", driver=EBS, is_default=True, created="")


def test_a_limit_never_means_never():
    volumes = collect(limits=[limit("n", 0)], disks=ABC)
    found = scan_nodes(volumes.add_needs(pod("new", "a"), new_claims={}), cluster(volumes))
    assert (found.answer, found.fit_if_empty) == (Answer.NO, 1)
