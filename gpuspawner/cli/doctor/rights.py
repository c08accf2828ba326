"""What the hub may not do and needs, and what it may do and does not need."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from gpuspawner.cli.cluster.grants import EVERYTHING, Grant, Right, dangers, described
from gpuspawner.cli.doctor.facts import Facts, Kind, name_of
from gpuspawner.cli.doctor.finding import Finding, Severity
from gpuspawner.cli.doctor.hub_pods import living

LOSSES = {
    "hub": "Servers cannot be started, or not be stopped.",
    "nodes": "No GPU type but those of the settings can be picked, and the form says that capacity is unknown.",
    "pods": "The form cannot say how many GPUs are free, nor whether a server starts now.",
    "volumes": "The zone of a home volume is not known: the form may say unknown where it could say never.",
    "nodepools": "What Karpenter may add is not known: the form says waits, or unknown, instead of after a new node.",
    "devices": "GPUs of DRA drivers are not seen, and no start is refused for want of a GPU.",
    "quotas": "The form does not show what a ResourceQuota leaves; Kubernetes refuses servers that exceed it.",
    "queues": "Progress says that a server waits in its queue, but not at which place.",
}
"""Part of the shipped roles → what is lost without it; helm-values/rbac.yaml says more."""

_WITHOUT_EVENTS = "People may not be told why a server waits."


def missing_rights(facts: Facts) -> Iterator[Finding]:
    """Yield one finding for each part of the shipped roles that the hub does not have, or not whole."""
    if facts.account is None or facts.lacks(Kind.ACCOUNTS, facts.account.name):
        return
    for grant in facts.grants:
        lost = [right for right in grant.rights if facts.allowed.get(right) is False and _is_used(facts, right)]
        # Servers start without these, see gpuspawner.hub.kubespawner.event_rights.
        is_less = grant.part == "hub" and {right.resource for right in lost} == {"events"}
        severity = (Severity.WARNING if is_less else _severity(facts, grant)) if lost else None
        if severity is not None:
            yield Finding(
                severity=severity,
                code=f"rights-{grant.part}",
                what=f"{_hub(facts)} may not {described(lost)}.",
                why=_WITHOUT_EVENTS
                if is_less
                else LOSSES.get(grant.part, "See helm-values/rbac.yaml for what is lost."),
                fix=_apply(grant),
                objects=(f"{facts.account.namespace}/{facts.account.name}",),
            )


def dangerous_rights(facts: Facts) -> Iterator[Finding]:
    """Yield what the hub may do that a hub has no use for."""
    if facts.account is None:
        return
    namespaces = facts.wishes is not None and facts.wishes.has_user_namespaces
    known = dangers(facts.account, namespace=facts.namespace, has_user_namespaces=namespaces)
    found = [right for right in known if facts.allowed.get(right)]
    if facts.allowed.get(EVERYTHING):
        found, reasons = [EVERYTHING], ["do anything in the cluster"]
    else:
        # What it may in all namespaces it may in its own.
        wide = {right._replace(namespace="") for right in found if not right.namespace}
        found = [right for right in found if not right.namespace or right._replace(namespace="") not in wide]
        reasons = list(dict.fromkeys(known[right] for right in found))
    if found:
        account = f"system:serviceaccount:{facts.account.namespace}:{facts.account.name}"
        rights = "do everything" if found == [EVERYTHING] else described(found)
        yield Finding(
            severity=Severity.WARNING,
            code="rights-dangerous",
            what=f"{_hub(facts)} may {rights}, which no hub needs.",
            why=f"Whoever takes the hub over could {'; '.join(reasons)}.",
            fix="# Find the binding, and take it away:\n"
            f"kubectl auth can-i --list --as={account} -n {facts.namespace}\n"
            "kubectl get clusterrolebindings,rolebindings -A -o wide | "
            f"grep {facts.account.namespace}/{facts.account.name}",
            objects=(f"{facts.account.namespace}/{facts.account.name}",),
        )


def account_unknown(facts: Facts) -> Iterator[Finding]:
    """Yield that the hub's rights could not be looked at."""
    if facts.account is None:
        return
    name = f"{facts.account.namespace}/{facts.account.name}"
    if facts.lacks(Kind.ACCOUNTS, facts.account.name):
        yield Finding(
            severity=Severity.FAULT,
            code="hub-account-missing",
            what=f"There is no ServiceAccount {name}.",
            why="The hub has no identity, so it may start nothing.",
            fix=f"kubectl create serviceaccount -n {facts.account.namespace} {facts.account.name}\n"
            "# or name the right one: --hub-account NAMESPACE:NAME",
            objects=(name,),
        )
    elif facts.grants and not facts.allowed:
        yield Finding(
            severity=Severity.NOTE,
            code="rights-unknown",
            what=f"What {name} may do could not be asked for.",
            why="Rights that are missing would show in the form only.",
            fix="# Ask as somebody who may:\nkubectl auth can-i create subjectaccessreviews.authorization.k8s.io",
            objects=(name,),
        )


def _is_used(facts: Facts, right: Right) -> bool:
    """Tell whether the hub makes use of a right, as far as values say."""
    if facts.wishes is None:
        return True
    match right.resource:
        case "events":
            return facts.wishes.reads_events
        case "persistentvolumeclaims":
            return facts.wishes.wants_claims
        case _:
            return True


def _severity(facts: Facts, grant: Grant) -> Severity | None:
    """Return how bad it is here to miss a part, None where nothing needs it."""
    match grant.part:
        case "hub":
            return Severity.FAULT
        case "nodes":
            return Severity.WARNING if facts.configured.gpus else Severity.FAULT
        case "nodepools":
            return None if Kind.NODE_POOLS in facts.unserved else Severity.WARNING
        case "queues":
            return None if facts.configured.queue is None else Severity.WARNING
        case "quotas":
            return Severity.WARNING if facts.of(Kind.QUOTAS) else Severity.NOTE
        case "devices":
            return Severity.WARNING if facts.of(Kind.DEVICE_CLASSES) else Severity.NOTE
        case _:
            return Severity.WARNING


def _hub(facts: Facts) -> str:
    pods = living(facts.of(Kind.HUB_PODS))
    name = f"ServiceAccount {facts.account.namespace}/{facts.account.name}" if facts.account else ""
    return f"The hub ({name}, pod {name_of(pods[0])})" if pods else f"The hub ({name})"


def _apply(grant: Grant) -> str:
    text = yaml.safe_dump_all(grant.manifests, sort_keys=False, default_flow_style=None, width=120)
    return f"kubectl apply -f - <<'EOF'\n{text}EOF"
