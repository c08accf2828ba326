"""Versions: Kubernetes' own, and the hub's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuspawner.cli.doctor.facts import ClusterFacts, KubernetesObject, ObjectKind, get_object_name
from gpuspawner.cli.doctor.finding import Diagnosis, DiagnosisSeverity
from gpuspawner.cli.doctor.hub_pods import find_hub_trouble, list_live_hub_pods
from gpuspawner.core.rawjson import as_dict, as_dicts, as_text

_LEAST_KUBERNETES = (1, 32)
_CHART_IMAGE_PATTERN = re.compile(
    r"(?:.*/)?jupyterhub/k8s-hub(?::(?P<major>\d{1,3})\.(?P<minor>\d{1,3})\.[\w.-]*)?", re.ASCII
)
"""The chart's own image of the hub; its tag is the version of the chart."""
_JUPYTERHUB_5 = (4, 0)
_LEAST_CHART = (4, 4)
"""Charts: the first one with JupyterHub 5, and the first one with all that gpuspawner needs."""


def check_kubernetes_version(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield that Kubernetes is older than what gpuspawner is made for."""
    if facts.version is not None and facts.version < _LEAST_KUBERNETES:
        version, least = (".".join(map(str, each)) for each in (facts.version, _LEAST_KUBERNETES))
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="kubernetes-too-old",
            what=f"Kubernetes is {version}; gpuspawner is made for {least} and newer.",
            why="What the form says of a start may not be what this kube-scheduler does.",
            fix="kubectl version",
        )


def check_hub_exists(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield that no hub was found, so that its rights and version were not looked at."""
    if (
        ObjectKind.HUB_PODS in facts.read
        and not facts.list_objects(ObjectKind.HUB_PODS)
        and not facts.lacks(ObjectKind.NAMESPACES, facts.namespace)
    ):
        yield Diagnosis(
            severity=DiagnosisSeverity.NOTE,
            code="hub-missing",
            what=f"No hub runs in the namespace {facts.namespace} (labels app=jupyterhub, component=hub).",
            why="Which version it has was not looked at"
            + ("." if facts.account else ", nor what its ServiceAccount may do."),
            fix="kubectl get pods -A -l app=jupyterhub,component=hub\n"
            "# then: gpuspawner doctor -n NAMESPACE, or --hub-account NAMESPACE:NAME",
        )


def check_hub_runs(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield that the hub itself does not run."""
    for pod in list_live_hub_pods(facts.list_objects(ObjectKind.HUB_PODS)):
        if trouble := find_hub_trouble(pod, now=facts.now):
            yield Diagnosis(
                severity=DiagnosisSeverity.FAULT,
                code="hub-failing",
                what=f"The hub does not run: {trouble} (pod {facts.namespace}/{get_object_name(pod)}).",
                why="Nobody can start anything.",
                fix=f"kubectl describe pod -n {facts.namespace} {get_object_name(pod)}\n"
                f"kubectl logs -n {facts.namespace} {get_object_name(pod)} --tail=50  # of its last crash: --previous",
                objects=(get_object_name(pod),),
            )


def check_hub_image(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield that the hub's image is too old, or cannot have gpuspawner in it."""
    for pod in list_live_hub_pods(facts.list_objects(ObjectKind.HUB_PODS)):
        container = _find_hub_container(pod)
        image = as_text(container.get("image"))
        found = _CHART_IMAGE_PATTERN.fullmatch(image.partition("@")[0])
        if found is None:
            continue
        if found["major"] is not None:
            yield from _check_chart_version(image, (int(found["major"]), int(found["minor"])))
        if not _has_python_path(container):
            yield Diagnosis(
                severity=DiagnosisSeverity.FAULT,
                code="hub-without-gpuspawner",
                what=f"The hub runs the chart's own image {image}, and nothing adds gpuspawner to it.",
                why="With spawner_class: gpuspawner.GPUSpawner the hub does not start; without it this is KubeSpawner.",
                fix="# Build an image (helm-values/Dockerfile) and use it. Helm values:\n"
                "hub:\n  image:\n    name: REGISTRY/k8s-hub-gpuspawner\n    tag: TAG",
                objects=(get_object_name(pod),),
            )


def _check_chart_version(image: str, chart: tuple[int, int]) -> Iterator[Diagnosis]:
    if chart >= _LEAST_CHART:
        return
    is_four = chart >= _JUPYTERHUB_5
    yield Diagnosis(
        severity=DiagnosisSeverity.WARNING if is_four else DiagnosisSeverity.FAULT,
        code="hub-too-old",
        what=f"The hub's image is {image}; gpuspawner needs JupyterHub 5.3 and KubeSpawner 7.",
        why="Versions 4.0 to 4.3 of the chart may have older ones." if is_four else "The hub cannot load it.",
        fix="helm upgrade RELEASE jupyterhub --repo https://hub.jupyter.org/helm-chart/ --version 4.4.0 --reuse-values",
        objects=(image,),
    )


def _find_hub_container(pod: KubernetesObject) -> dict[str, object]:
    containers = as_dicts(as_dict(pod.get("spec")).get("containers"))
    return next((each for each in containers if each.get("name") == "hub"), {})


def _has_python_path(container: dict[str, object]) -> bool:
    """Tell whether modules are looked for in a further place, as where an init container installs gpuspawner."""
    return any(each.get("name") == "PYTHONPATH" for each in as_dicts(container.get("env")))
