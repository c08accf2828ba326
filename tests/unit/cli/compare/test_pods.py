from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.compare.pods import Server, list_differences

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def make_server(*, env: Any = None, resources: Any = None, is_ours: bool = False, **spec: Any) -> Server:
    notebook = {"name": "notebook", "image": "a:1", "env": env or [], "resources": resources or {}}
    manifest = {"metadata": {"name": "jupyter-user"}, "spec": {"containers": [notebook], **spec}}
    return Server(manifest=manifest, is_ours=is_ours)


def list_texts(old: Server, new: Server) -> list[str]:
    return [str(each) for each in list_differences(old, new)]


def expressions(*pairs: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {
        "matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, values in pairs]
    }


def required(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            {"resources": {"limits": {"cpu": 0.46875, "memory": 1024**3}}},
            {"resources": {"limits": {"cpu": "469m", "memory": "1Gi"}, "requests": {"cpu": 0.469, "memory": "1Gi"}}},
            id="a missing request is the limit, CPU is rounded up",
        ),
        pytest.param(
            {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}},
            {"resources": {"limits": {"nvidia.com/gpu": 1}}},
            id="GPUs are requested as they are limited",
        ),
        pytest.param({"resources": {"limits": {"nvidia.com/gpu": "0"}}}, {}, id="no GPU"),
        pytest.param(
            {"nodeSelector": {"a": "1", "b": "2"}},
            {"affinity": required(expressions(("b", "In", ["2"]), ("a", "In", ["1"])))},
            id="selector and affinity",
        ),
        pytest.param(
            {"affinity": required(expressions(("a", "In", ["1", "2"]), ("a", "In", ["2", "3"])))},
            {"nodeSelector": {"a": "2"}},
            id="what a node must be by two rules",
        ),
        pytest.param(
            {"affinity": required(expressions(("a", "In", ["2", "1"])), expressions(("b", "Exists", [])))},
            {"affinity": required(expressions(("b", "Exists", [])), expressions(("a", "In", ["1", "2"])))},
            id="terms in another order",
        ),
        pytest.param(
            {"affinity": required({}, expressions(("a", "In", ["1"])))},
            {"nodeSelector": {"a": "1"}},
            id="an empty term matches no node",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "value": "1", "effect": "NoSchedule"}]},
            {"tolerations": [{"key": "b", "operator": "Equal", "value": "1", "effect": "NoSchedule"},
                             {"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]},
            id="tolerations are a set",
        ),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]},
            id="variables have no order",
        ),
        pytest.param(
            {"env": [{"name": "MEM_LIMIT", "value": "1073741824"}], "resources": {"limits": {"memory": "1Gi"}}},
            {"env": [{"name": "MEM_GUARANTEE", "value": "1073741824.0"}], "resources": {"limits": {"memory": "1Gi"}}},
            id="variables that repeat amounts",
        ),
        pytest.param(
            {"env": [{"name": "CPU_LIMIT", "value": "3.3810000000000002"}],
             "resources": {"limits": {"cpu": 3.3810000000000002}}},
            {"env": [{"name": "CPU_LIMIT", "value": "3.382"}], "resources": {"limits": {"cpu": 3.382}}},
            id="a variable that repeats an inexact amount",
        ),
        pytest.param(
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]},
            {"volumes": [{"name": "b", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]},
            id="volumes have no order",
        ),
        pytest.param(
            {"env": []},
            {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], "is_ours": True},
            id="a variable that hides GPUs",
        ),
    ],
)  # fmt: skip
def test_pods_that_mean_the_same_have_no_difference(old: Any, new: Any):
    assert list_texts(make_server(**old), make_server(**new)) == []


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        pytest.param(
            {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
            {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], "is_ours": True},
            ["variable NVIDIA_VISIBLE_DEVICES all → void"],
            id="a variable that showed GPUs",
        ),
        pytest.param(
            {"env": []},
            {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]},
            ["variable NVIDIA_VISIBLE_DEVICES none → void"],
            id="not of gpuspawner",
        ),
        pytest.param(
            {"env": [{"name": "MEM_LIMIT", "value": "7"}], "resources": {"limits": {"memory": "1Gi"}}},
            {"resources": {"limits": {"memory": "1Gi"}}},
            ["variable MEM_LIMIT 7 → none"],
            id="a variable of its own value",
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "l"}}}]},
            ["variable A.secretKeyRef.key k → l"],
            id="a variable of a secret",
        ),
        pytest.param(
            {"resources": {"limits": {"memory": "1Gi"}}},
            {"resources": {"requests": {"memory": "1Gi"}}},
            ["memory limit 1 GiB → none"],
            id="a request alone",
        ),
        pytest.param(
            {"resources": {"limits": {"ephemeral-storage": "1Gi"}, "requests": {"ephemeral-storage": "1"}}},
            {"resources": {"limits": {"ephemeral-storage": "1Gi"}}},
            ["resource ephemeral-storage request 1 → none"],
            id="a request of another resource",
        ),
        pytest.param(
            {"affinity": required({})}, {}, ["node selection no node → none"], id="a selection of no node",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}},
            {"affinity": required(expressions(("a", "In", ["1"])), expressions(("b", "NotIn", ["2"])))},
            ["node selection a=1 → a=1 or b NotIn (2)"],
            id="one more term",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 5, "preference": expressions(("a", "In", ["1"]))}]}}},
            {},
            ["node preference a=1 (weight 5) → none"],
            id="a preference",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {"a": "b"}}},
            {},
            ['pod anti-affinity {"a": "b"} → none'],
            id="pod affinity",
        ),
        pytest.param(
            {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "b"}}]},
            {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}]},
            ["volume a.persistentVolumeClaim.claimName b → c"],
            id="another claim",
        ),
        pytest.param(
            {"initContainers": [{"name": "a"}, {"name": "b"}]},
            {"initContainers": [{"name": "b"}, {"name": "a"}]},
            ["init containers in order a, b → b, a"],
            id="init containers have an order",
        ),
        pytest.param({"dnsPolicy": "None"}, {}, ["pod dnsPolicy None → none"], id="any other field"),
        pytest.param(
            {"runtimeClassName": "x" * 200}, {}, [f"runtime class {'x' * 79}… → none"], id="a long text is cut"
        ),
    ],
)  # fmt: skip
def test_a_difference_has_the_name_of_its_field(old: Any, new: Any, texts: list[str]):
    assert list_texts(make_server(**old), make_server(**new)) == texts


def test_variables_that_hide_gpus_from_other_containers_are_no_difference():
    hidden = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, {"name": "A", "value": "1"}]
    old = make_server(initContainers=[{"name": "copy", "env": hidden[1:]}])
    new = make_server(initContainers=[{"name": "copy", "env": hidden}], is_ours=True)
    assert list_texts(old, new) == []


def test_the_preference_for_nodes_without_gpus_is_no_difference():
    avoided = {"weight": 100, "preference": expressions(("gpu", "DoesNotExist", []))}
    own = {"weight": 5, "preference": expressions(("a", "In", ["1"]))}
    old = make_server(affinity={"nodeAffinity": {PREFERRED: [own]}})
    new = make_server(affinity={"nodeAffinity": {PREFERRED: [own, avoided]}})
    assert list_texts(old, Server(manifest=new.manifest, avoided=[avoided])) == []
    assert len(list_texts(old, new)) == 1


def test_annotations_of_gpuspawner_are_no_difference():
    old, new = make_server(), make_server()
    annotated = {"annotations": {"gpuspawner.jupyter.org/gpu": "t4", "team": "a"}}
    new = Server(manifest={**new.manifest, "metadata": {**new.manifest["metadata"], **annotated}})
    assert list_texts(old, new) == ['annotations none → {"team": "a"}']
