"""A choice is added to KubeSpawner's pod: what the admin has set stays, whichever trait it comes from."""

from __future__ import annotations

import copy
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.request.field_definitions import Priority
from gpuspawner.hub.pod.patch import RUN_TIME_ANNOTATION, patch_pod, serialize_models
from tests.unit.hub.pod.pods import PodBuilder, make_choice, make_pod, make_spec

HUB = {"key": "hub", "operator": "Exists"}
IN_POOL = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [IN_POOL]}}}
EXPRESSIONS = (MatchExpression(key="product", operator="In", values=("a", "b")),)
TOLERATED = (Toleration(key="gpu", operator="Exists", effect="NoSchedule"),)
LOW = Priority(priority_class="site-low", value=-10)


def test_what_the_admin_sets_stays_beside_the_choice():
    traits = {
        "extra_pod_config": {"dnsPolicy": "None"},
        "scheduler_name": "own",
        "extra_annotations": {"a": "{username}"},
    }
    pod = make_pod(traits, node_selector={"product": "a"}, annotations={"b": "c"})
    assert (pod["spec"]["dnsPolicy"], pod["spec"]["schedulerName"]) == ("None", "own")
    assert pod["spec"]["nodeSelector"] == {"product": "a"}
    assert {name: pod["metadata"]["annotations"][name] for name in "ab"} == {"a": "ada", "b": "c"}


def test_a_choice_of_nothing_changes_nothing_but_the_notebook_container():
    traits = {"node_selector": {"a": "b"}, "tolerations": [HUB], "extra_labels": {"team": "x"}, "volumes": []}
    found, plain = make_pod(traits), serialize_models(PodBuilder(traits).build())
    assert plain == {**found, "spec": {**found["spec"], "containers": plain["spec"]["containers"]}}


# -- priority, runtime class and run time ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "admins",
    [
        {"priority_class_name": "own"},
        {"extra_pod_config": {"priorityClassName": "own"}},
        {"extra_pod_config": {"priority_class_name": "own"}},
    ],
    ids=str,
)
def test_a_priority_that_was_picked_wins_and_one_that_was_not_is_the_admins(admins: dict[str, Any]):
    assert make_spec(admins, priority=LOW)["priorityClassName"] == "site-low"
    assert make_spec(admins)["priorityClassName"] == "own"


@pytest.mark.parametrize("name", ["runtimeClassName", "runtime_class_name"])
def test_the_runtime_class_is_added_without_one_of_the_admins(name: str):
    assert make_spec(runtime_class="nvidia")["runtimeClassName"] == "nvidia"
    assert make_spec({"extra_pod_config": {name: "kata"}}, runtime_class="nvidia")["runtimeClassName"] == "kata"


@pytest.mark.parametrize(
    ("own", "run_time_s", "expected"),
    [
        pytest.param(3600, 5400, 3600, id="the admin's is shorter"),
        pytest.param(7200, 5400, 5400, id="the choice's is shorter"),
        pytest.param(7200.0, 5400, 5400, id="not a whole number"),
        pytest.param(None, 5400, 5400, id="only the choice's"),
        pytest.param(3600, None, 3600, id="only the admin's"),
        pytest.param(None, None, None, id="none"),
        pytest.param("for ever", 5400, "for ever", id="what Kubernetes refuses"),
    ],
)
@pytest.mark.parametrize("name", ["activeDeadlineSeconds", "active_deadline_seconds"])
def test_of_two_run_times_the_shorter_one_counts(name: str, own: Any, run_time_s: int | None, expected: Any):
    assert make_spec({"extra_pod_config": {name: own}}, run_time_s=run_time_s).get("activeDeadlineSeconds") == expected


# -- labels and annotations --------------------------------------------------------------------------------------------


def test_labels_of_a_queue_are_added_and_the_admins_own_stay():
    own = {"team": "{username}", "kueue.x-k8s.io/queue-name": "mine"}
    queue = {"kueue.x-k8s.io/queue-name": "gpu-queue", "kueue.x-k8s.io/priority-class": "a{b}"}
    labels = make_pod({"extra_labels": own}, labels=queue)["metadata"]["labels"]
    expected = {"team": "ada", "kueue.x-k8s.io/queue-name": "mine", "kueue.x-k8s.io/priority-class": "a{b}"}
    assert {name: labels[name] for name in expected} == expected


def test_annotations_of_the_choice_win():
    own = {"extra_annotations": {"a": "own", "b": "own"}}
    annotations = make_pod(own, annotations={"a": "chosen"})["metadata"]["annotations"]
    assert (annotations["a"], annotations["b"]) == ("chosen", "own")


@given(text=st.text())
def test_a_text_of_the_choice_is_in_the_pod_as_it_is_with_braces_and_all(text: str):
    pod = make_pod(
        environment={"A": text},
        information={"B": text},
        annotations={"c": text},
        labels={"d": text},
        node_selector={"e": text},
        runtime_class=f"f{text}",
        priority=Priority(priority_class=f"g{text}"),
    )
    spec = pod["spec"]
    variables = {variable["name"]: variable["value"] for variable in spec["containers"][0]["env"]}
    assert (variables, spec["nodeSelector"]) == ({"A": text, "B": text}, {"e": text})
    assert (pod["metadata"]["annotations"]["c"], pod["metadata"]["labels"]["d"]) == (text, text)
    assert (spec["runtimeClassName"], spec["priorityClassName"]) == (f"f{text}", f"g{text}")


# -- all of it ---------------------------------------------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "required": EXPRESSIONS,
    "avoided": EXPRESSIONS,
    "tolerations": TOLERATED,
    "shm_bytes": 5,
    "runtime_class": "nvidia",
    "node_selector": {"a": "b"},
    "environment": {"A": "b"},
    "information": {"C": "d"},
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "run_time_s": 60,
    "extended_resources": {"nvidia.com/gpu": 2},
}
ADMINS: dict[str, Any] = {
    "node_selector": {"pool": "users"},
    "node_affinity_required": [IN_POOL],
    "tolerations": [HUB],
    "environment": {"A": "own"},
    "extra_labels": {"team": "x"},
    "volumes": [{"name": "home", "emptyDir": {}}],
    "volume_mounts": [{"name": "home", "mountPath": "/home"}],
    "extra_containers": [{"name": "side", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    "extra_resource_limits": {"nvidia.com/gpu": "8"},
}
WRITTEN_OVER: dict[str, Any] = {
    "extra_pod_config": {
        "affinity": AFFINITY,
        "nodeSelector": {"pool": "users"},
        "tolerations": [HUB],
        "volumes": [{"name": "home", "emptyDir": {}}],
        "initContainers": [{"name": "init", "image": "x", "env": [{"name": "A"}]}],
    },
    "extra_container_config": {
        "resources": {"limits": {"cpu": 1, "nvidia.com/gpu": "8"}},
        "env": [{"name": "A", "value": "own"}],
        "volumeMounts": [{"name": "home", "mountPath": "/home"}],
    },
}


@pytest.mark.parametrize("traits", [{}, ADMINS, WRITTEN_OVER], ids=["nothing", "traits", "extra config"])
def test_patching_twice_adds_nothing(traits: dict[str, Any]):
    once = patch_pod(PodBuilder(traits).build(), make_choice(**EVERYTHING))
    found, expected = serialize_models(patch_pod(once, make_choice(**EVERYTHING))), serialize_models(once)
    for pod in (found, expected):  # The order of unrelated variables means nothing.
        pod["spec"]["containers"][0]["env"].sort(key=itemgetter("name"))
    assert found == expected


@pytest.mark.parametrize("traits", [{}, ADMINS, WRITTEN_OVER], ids=["nothing", "traits", "extra config"])
def test_the_admins_values_and_kubespawners_pod_are_not_changed_in_place(traits: dict[str, Any]):
    own = copy.deepcopy(traits)
    pod = PodBuilder(own).build()
    before = serialize_models(pod)
    patched = serialize_models(patch_pod(pod, make_choice(**EVERYTHING)))
    assert (own, serialize_models(pod)) == (traits, before)
    assert patched["metadata"]["annotations"][RUN_TIME_ANNOTATION] == "60"


def test_a_list_and_a_dict_of_the_admin_give_the_same_pod():
    lists: dict[str, list[Any]] = {
        "tolerations": [HUB, {"key": "b", "operator": "Exists"}],
        "node_affinity_required": [IN_POOL, {"matchFields": IN_POOL["matchExpressions"]}],
        "node_affinity_preferred": [{"weight": 1, "preference": IN_POOL}],
        "volumes": [{"name": "home", "emptyDir": {}}],
        "volume_mounts": [{"name": "home", "mountPath": "/home"}],
        "extra_containers": [{"name": "side", "image": "x"}],
        "init_containers": [{"name": "init", "image": "x"}],
    }
    dicts = {trait: {f"{index:02}": entry for index, entry in enumerate(entries)} for trait, entries in lists.items()}
    assert make_pod(dicts, **EVERYTHING) == make_pod(lists, **EVERYTHING)
