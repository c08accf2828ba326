"""Rules of ``doctor`` about the hub: its version, the state of its pod, and its missing or dangerous RBAC rights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import yaml

from gpuspawner.cli.cluster.shipped_roles import (
    ALL_PERMISSIONS,
    Permission,
    RoleGrant,
    describe_permissions,
    list_dangerous_permissions,
    read_shipped_rights,
)
from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity, make_diagnosis
from gpuspawner.cli.doctor.facts import ClusterFacts, KubernetesObject, ObjectKind, get_object_name
from gpuspawner.cli.doctor.pod_health import find_hub_trouble, list_live_hub_pods
from gpuspawner.core.json_access import as_dict, as_dicts, as_text
from gpuspawner.core.request.field_definitions import PRIORITY

_LEAST_KUBERNETES = (1, 32)
_CHART_IMAGE_PATTERN = re.compile(
    r"(?:.*/)?jupyterhub/k8s-hub(?::(?P<major>\d{1,3})\.(?P<minor>\d{1,3})\.[\w.-]*)?", re.ASCII
)
"""Pattern of the chart's own hub image, whose tag is the chart's version (``major.minor.…``)."""
_JUPYTERHUB_5_CHART = (4, 0)
"""First version of zero-to-jupyterhub with JupyterHub 5."""
_LEAST_CHART = (4, 2)
"""First version of zero-to-jupyterhub with JupyterHub 5.3 and KubeSpawner 7; 4.0 and 4.1 have JupyterHub 5.2.1.

Source: https://z2jh.jupyter.org/en/latest/changelog.html
"""


def check_kubernetes_version(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if Kubernetes is older than the oldest version that gpuspawner supports."""
    if facts.version is not None and facts.version < _LEAST_KUBERNETES:
        version, least = (".".join(map(str, numbers)) for numbers in (facts.version, _LEAST_KUBERNETES))
        yield make_diagnosis("kubernetes-too-old", version=version, least=least)


def check_hub_exists(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if the namespace exists but has no hub pod."""
    if (
        ObjectKind.HUB_PODS in facts.read
        and not facts.list_objects(ObjectKind.HUB_PODS)
        and not facts.lacks(ObjectKind.NAMESPACES, facts.namespace)
    ):
        unchecked = "" if facts.account else ", nor the rights of its ServiceAccount"
        yield make_diagnosis("hub-missing", namespace=facts.namespace, unchecked=unchecked)


def check_hub_runs(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each hub pod that does not run."""
    for pod in list_live_hub_pods(facts.list_objects(ObjectKind.HUB_PODS)):
        if trouble := find_hub_trouble(pod, now=facts.now):
            name = get_object_name(pod)
            yield make_diagnosis("hub-failing", objects=[name], trouble=trouble, namespace=facts.namespace, pod=name)


def check_hub_image(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if the chart's hub image is too old, and one if nothing adds gpuspawner to it.

    Hub pods with another image are not checked.
    """
    for pod in list_live_hub_pods(facts.list_objects(ObjectKind.HUB_PODS)):
        container = _find_hub_container(pod)
        image = as_text(container.get("image"))
        parts = _CHART_IMAGE_PATTERN.fullmatch(image.partition("@")[0])
        if parts is None:
            continue
        chart = _LEAST_CHART if parts["major"] is None else (int(parts["major"]), int(parts["minor"]))
        if chart < _LEAST_CHART:
            row = "hub-too-old/four" if chart >= _JUPYTERHUB_5_CHART else "hub-too-old"
            yield make_diagnosis(row, objects=[image], image=image, namespace=facts.namespace)
        if not _has_python_path(container):
            yield make_diagnosis("hub-without-gpuspawner", objects=[get_object_name(pod)], image=image)


def _find_hub_container(pod: KubernetesObject) -> dict[str, object]:
    containers = as_dicts(as_dict(pod.get("spec")).get("containers"))
    return next((container for container in containers if container.get("name") == "hub"), {})


def _has_python_path(container: dict[str, object]) -> bool:
    """Return whether the hub's container sets PYTHONPATH.

    An init container then probably copies gpuspawner into a folder of this path.
    """
    return any(variable.get("name") == "PYTHONPATH" for variable in as_dicts(container.get("env")))


_WITHOUT_EVENTS = "Users may not see why a server waits."


@cache
def read_losses() -> dict[str, str]:
    """Return role of ``helm-values/rbac.yaml``, without the prefix ``gpuspawner-`` → what does not work without it."""
    return {right.part: right.lost for right in reversed(read_shipped_rights())}


def check_missing_rights(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each role of ``helm-values/rbac.yaml`` with a right that the hub lacks."""
    if facts.account is None or facts.lacks(ObjectKind.ACCOUNTS, facts.account.name):
        return
    for grant in facts.grants:
        lost = [right for right in grant.rights if facts.allowed.get(right) is False and _needs_right(facts, right)]
        # Without rights to events, the hub still starts servers (see hub.kubespawner.reflectors).
        only_events = grant.part == "hub" and {right.resource for right in lost} == {"events"}
        severity = (DiagnosisSeverity.WARNING if only_events else _rate_missing_part(facts, grant)) if lost else None
        if severity is not None:
            diagnosis = make_diagnosis(
                "rights",
                severity=severity,
                objects=["/".join(facts.account)],
                hub=_describe_hub(facts),
                rights=describe_permissions(lost),
                lost=_WITHOUT_EVENTS if only_events else read_losses()[grant.part],
                apply=_format_apply_command(grant),
            )
            yield replace(diagnosis, code=f"rights-{grant.part}")


def check_dangerous_rights(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if the hub has dangerous rights that it does not need."""
    if facts.account is None:
        return
    namespaces = facts.requirements is not None and facts.requirements.has_user_namespaces
    known = list_dangerous_permissions(facts.account, namespace=facts.namespace, has_user_namespaces=namespaces)
    held = [right for right in known if facts.allowed.get(right)]
    if facts.allowed.get(ALL_PERMISSIONS):
        held, reasons = [ALL_PERMISSIONS], ["do anything in the cluster"]
    else:
        # Do not list a right in one namespace if the hub has the same right in all namespaces.
        wide = {right._replace(namespace="") for right in held if not right.namespace}
        held = [right for right in held if not right.namespace or right._replace(namespace="") not in wide]
        reasons = list(dict.fromkeys(known[right] for right in held))
    if held:
        account = "/".join(facts.account)
        yield make_diagnosis(
            "rights-dangerous",
            objects=[account],
            hub=_describe_hub(facts),
            rights="do everything" if held == [ALL_PERMISSIONS] else describe_permissions(held),
            reasons="; ".join(reasons),
            user=f"system:serviceaccount:{facts.account.namespace}:{facts.account.name}",
            namespace=facts.namespace,
            account=account,
        )


def check_hub_account(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if the hub's ServiceAccount is missing, or if its rights are unknown."""
    if facts.account is None:
        return
    (namespace, name), account = facts.account, "/".join(facts.account)
    if facts.lacks(ObjectKind.ACCOUNTS, name):
        yield make_diagnosis(
            "hub-account-missing", objects=[account], account=account, namespace=namespace, name_of_account=name
        )
    elif facts.grants and not facts.allowed:
        yield make_diagnosis("rights-unknown", objects=[account], account=account)


def _needs_right(facts: ClusterFacts, right: Permission) -> bool:
    if right.resource == "configmaps":
        return bool(facts.list_objects(ObjectKind.AUTOSCALER_STATUS))
    if facts.requirements is None:
        return True
    match right.resource:
        case "events":
            return facts.requirements.reads_events
        case "persistentvolumeclaims":
            return facts.requirements.wants_claims
        case _:
            return True


def _rate_missing_part(facts: ClusterFacts, grant: RoleGrant) -> DiagnosisSeverity | None:
    match grant.part:
        case "hub":
            return DiagnosisSeverity.FAULT
        case "nodes":
            return DiagnosisSeverity.WARNING if facts.configured.gpus else DiagnosisSeverity.FAULT
        case "nodepools":
            return None if ObjectKind.NODE_POOLS in facts.unserved else DiagnosisSeverity.WARNING
        case "queues" | "queue-quotas":
            return None if facts.configured.queue is None else DiagnosisSeverity.WARNING
        case "priorities":
            has_class = facts.requirements is not None and facts.requirements.priority_class
            has_own = PRIORITY.name in facts.configured.choices
            return DiagnosisSeverity.WARNING if has_class or has_own else DiagnosisSeverity.NOTE
        case "runtime-classes":
            is_named = any(gpu.runtime_class for gpu in facts.configured.gpus.values())
            return DiagnosisSeverity.WARNING if is_named else DiagnosisSeverity.NOTE
        case "quotas":
            return DiagnosisSeverity.WARNING if facts.list_objects(ObjectKind.QUOTAS) else DiagnosisSeverity.NOTE
        case "volume-limits" | "autoscaler":
            return DiagnosisSeverity.NOTE
        case "devices":
            return (
                DiagnosisSeverity.WARNING if facts.list_objects(ObjectKind.DEVICE_CLASSES) else DiagnosisSeverity.NOTE
            )
        case _:
            return DiagnosisSeverity.WARNING


def _describe_hub(facts: ClusterFacts) -> str:
    pods = list_live_hub_pods(facts.list_objects(ObjectKind.HUB_PODS))
    name = f"ServiceAccount {facts.account.namespace}/{facts.account.name}" if facts.account else ""
    return f"The hub ({name}, pod {get_object_name(pods[0])})" if pods else f"The hub ({name})"


def _format_apply_command(grant: RoleGrant) -> str:
    text = yaml.safe_dump_all(grant.manifests, sort_keys=False, default_flow_style=None, width=120)
    return f"kubectl apply -f - <<'EOF'\n{text}EOF"
