"""What the namespace of the servers lets them have: quotas, limits, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuspawner.cli.doctor.facts import Facts, Kind, Object, name_of
from gpuspawner.cli.doctor.finding import Finding, Severity
from gpuspawner.core.catalog.catalogue import Bounds
from gpuspawner.core.cluster.decode import resources
from gpuspawner.core.rawjson import mapping, mappings

_POD_COUNTS = ("pods", "count/pods")
_UNITS = {"cpu": (1000, "CPUs"), "memory": (1024**3, "GiB")}


def namespace_missing(facts: Facts) -> Iterator[Finding]:
    """Yield that there is no namespace to look at, or one that is being deleted."""
    if facts.lacks(Kind.NAMESPACES, facts.namespace):
        what = f"There is no namespace {facts.namespace}."
    elif any(mapping(each.get("metadata")).get("deletionTimestamp") for each in facts.of(Kind.NAMESPACES)):
        what = f"The namespace {facts.namespace} is being deleted."
    else:
        return
    yield Finding(
        severity=Severity.FAULT,
        code="namespace-missing",
        what=what,
        why="No server can be started in it.",
        fix=f"kubectl create namespace {facts.namespace}\n# or name the right one: -n NAMESPACE",
        objects=(facts.namespace,),
    )


def quotas(facts: Facts) -> Iterator[Finding]:
    """Yield ResourceQuotas that let nobody have a GPU, or any server."""
    offered = sorted({gpu.resource for gpu in facts.catalogue.gpus.values()})
    for quota in facts.of(Kind.QUOTAS):
        spec = mapping(quota.get("spec"))
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue  # of some pods only, and which those are is not known before they are made
        hard = resources(spec.get("hard"))
        name = name_of(quota)
        pods = next((key for key in _POD_COUNTS if hard.get(key) == 0), None)
        if pods is not None:
            yield _quota(facts, name, key=pods, code="quota-no-pods", why="No server can be started at all.")
        for resource in offered:
            if hard.get(key := f"requests.{resource}") == 0:
                yield _quota(facts, name, key=key, code="quota-no-gpu", why=f"Nobody gets {resource}.")


def limit_ranges(facts: Facts) -> Iterator[Finding]:
    """Yield LimitRanges that refuse what the settings offer."""
    for found in facts.of(Kind.LIMIT_RANGES):
        for item in mappings(mapping(found.get("spec")).get("limits")):
            if item.get("type") in ("Container", "Pod"):
                case = _Limits(namespace=facts.namespace, name=name_of(found), item=item)
                for resource, bounds in (("cpu", facts.configured.cpu), ("memory", facts.configured.memory)):
                    if bounds is not None:
                        yield from case.refusals(resource, bounds)
                yield from case.gpu_refusals({gpu.resource for gpu in facts.catalogue.gpus.values()})


def pull_secrets(facts: Facts) -> Iterator[Finding]:
    """Yield secrets that images are to be pulled with and that there are not."""
    for name in facts.wishes.pull_secrets if facts.wishes is not None else ():
        if facts.lacks(Kind.SECRETS, name):
            yield Finding(
                severity=Severity.FAULT,
                code="pull-secret-missing",
                what=f"There is no secret {name} in the namespace {facts.namespace}, and images are pulled with it.",
                why="Servers with an image that needs it end in ImagePullBackOff.",
                fix=f"kubectl create secret docker-registry {name} -n {facts.namespace} "
                "--docker-server=REGISTRY --docker-username=NAME --docker-password=TOKEN",
                objects=(name,),
            )


def _quota(facts: Facts, name: str, *, key: str, code: str, why: str) -> Finding:
    return Finding(
        severity=Severity.FAULT,
        code=code,
        what=f"ResourceQuota {name} of the namespace {facts.namespace} allows 0 {key}.",
        why=why,
        fix=f"kubectl patch resourcequota {name} -n {facts.namespace} --type=merge "
        f"""-p '{{"spec": {{"hard": {{"{key}": "NUMBER"}}}}}}'""",
        objects=(name,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """One item of a LimitRange."""

    namespace: str
    name: str
    item: Object

    def refusals(self, resource: str, bounds: Bounds) -> Iterator[Finding]:
        """Yield what the bounds of a resource allow and the LimitRange does not."""
        most, least = (resources(self.item.get(key)).get(resource) for key in ("max", "min"))
        ratio = mapping(self.item.get("maxLimitRequestRatio")).get(resource)
        if most is not None and bounds.max > most:
            severity = Severity.FAULT if bounds.min > most else Severity.WARNING
            yield self._finding(severity, resource, says=f"allows at most {_shown(most, resource)}", key="max")
        if least is not None and bounds.min * bounds.guarantee < least:
            yield self._finding(
                Severity.WARNING, resource, says=f"asks for at least {_shown(least, resource)}", key="min"
            )
        if isinstance(ratio, str) and bounds.guarantee and 1 / bounds.guarantee > _number(ratio):
            yield self._finding(
                Severity.FAULT, resource, says=f"allows a limit of {ratio} times the request", key="guarantee"
            )

    def gpu_refusals(self, offered: set[str]) -> Iterator[Finding]:
        """Yield GPUs that are offered and of which a container may have none."""
        allowed = resources(self.item.get("max"))
        for resource in sorted(offered):
            if allowed.get(resource) == 0:
                yield self._finding(Severity.FAULT, resource, says="allows 0", key="")

    def _finding(self, severity: Severity, resource: str, *, says: str, key: str) -> Finding:
        values = f"\n# or Helm values: hub.config.GPUSpawner.{resource}.{key}" if key else ""
        return Finding(
            severity=severity,
            code="limit-range",
            what=f"LimitRange {self.name} of the namespace {self.namespace} {says} of {resource} for a "
            f"{str(self.item.get('type')).lower()}, and the settings offer what it refuses.",
            why="Kubernetes refuses such servers when they are started.",
            fix=f"kubectl edit limitrange {self.name} -n {self.namespace}{values}",
            objects=(self.name,),
        )


def _shown(amount: int, resource: str) -> str:
    size, unit = _UNITS[resource]
    return f"{amount / size:.4g} {unit}"


def _number(quantity: str) -> float:
    """Return a ratio, which is a quantity: whole numbers mostly; what is none refuses nothing."""
    found = resources({"cpu": quantity}).get("cpu")
    return float("inf") if found is None else found / 1000
