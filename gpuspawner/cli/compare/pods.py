"""Reads facts of a server's pod and of KubeSpawner's traits, and names the differences between two servers.

A fact is a named value, such as the memory limit. Facts are normalized: two pods with equal facts are equal for the
scheduler, the kubelet and the user. The facts do not include what gpuspawner adds to every pod (:data:`BY_DESIGN`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from gpuspawner.core.json_access import as_dict, as_dicts, as_text
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX, GPU_HIDING_ENVIRONMENT, GPU_VARIABLES
from gpuspawner.core.units.quantity import QuantityError, format_cpu, format_memory, parse_millis, parse_whole_units

BY_DESIGN = (
    "Not compared: what gpuspawner adds to every pod. These are its own annotations, variables that hide GPUs from"
    " containers without one or that tell programs their GPUs, and the preference for nodes without GPUs."
)
NODES = "node selection"
_EXTENDED = "resource "
_RESOURCES = ("CPU limit", "CPU request", "memory limit", "memory request", NODES)
_ABSENT = "none"
_LONGEST = 80
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server that a spawner would start for one choice of a user.

    :param manifest: JSON of the pod.
    :param traits: name → value of those traits of KubeSpawner whose values the pod's manifest does not show.
    :param is_ours: whether gpuspawner built the pod from its own settings.
    :param avoided: JSON of the preferred node affinity terms with which gpuspawner keeps a server without a GPU off GPU
        nodes.
    """

    manifest: Mapping[str, Any]
    traits: Mapping[str, Any] = field(default_factory=dict)
    is_ours: bool = False
    avoided: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that differs between the servers of two values files.

    :param aspect: name of the fact, such as ``memory limit``.
    :param old: the old value as text.
    :param new: the new value as text.
    """

    aspect: str
    old: str
    new: str

    @property
    def changes_resources(self) -> bool:
        """Whether the two servers get different amounts of CPU, memory or devices, or may run on different nodes."""
        return self.aspect in _RESOURCES or self.aspect.startswith(_EXTENDED)

    @override
    def __str__(self) -> str:
        """Return the difference as users read it: ``memory limit 8 GiB → 16 GiB``."""
        return f"{self.aspect} {self.old} → {self.new}"


def list_differences(old: Server, new: Server) -> tuple[Difference, ...]:
    """Return what differs between two servers, the most important first.

    :param old: the server that results from the old values file.
    :param new: the server that results from the new values file.
    """
    facts = _read_facts(old, other=new), _read_facts(new, other=old)
    aspects = dict.fromkeys(itertools.chain(*facts))
    order = {aspect: number for number, aspect in enumerate(_ORDER)}
    found: list[Difference] = []
    for aspect in sorted(aspects, key=lambda each: order.get(each.split(" ")[0], len(order))):
        found += _compare(aspect, facts[0].get(aspect), new=facts[1].get(aspect))
    return tuple(found)


_ORDER = ("image", "CPU", "memory", "resource", "node", "toleration", "runtime", "priority", "service", "default",
          "start", "command", "working", "variable", "volume", "mount", "init", "container")  # fmt: skip
"""First words of the names of facts, in the order in which differences are listed; all other facts follow."""


def _compare(aspect: str, old: Any, *, new: Any) -> Iterator[Difference]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _compare(f"{aspect}.{key}", old.get(key), new=new.get(key))
    else:
        yield Difference(aspect=aspect, old=_format(aspect, old), new=_format(aspect, new))


def _format(aspect: str, value: Any) -> str:
    if value is None:
        return "no" if aspect.startswith("toleration ") else _ABSENT
    if aspect.startswith("CPU ") and isinstance(value, int):
        return format_cpu(value)
    if aspect.startswith("memory ") and isinstance(value, int):
        return format_memory(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    text = " ".join(text.split()) or '""'
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _read_facts(server: Server, *, other: Server) -> dict[str, Any]:
    spec = dict(as_dict(server.manifest.get("spec")))
    containers = as_dicts(spec.pop("containers", None))
    notebook = dict(containers[0]) if containers else {}
    metadata = dict(as_dict(server.manifest.get("metadata")))
    annotations = as_dict(metadata.pop("annotations", None))
    others = _list_others(other)
    facts: dict[str, Any] = {
        "image": notebook.pop("image", None),
        **_read_resources(as_dict(notebook.pop("resources", None))),
        **_read_scheduling(spec, avoided=server.avoided),
        "runtime class": spec.pop("runtimeClassName", None),
        "priority class": spec.pop("priorityClassName", None),
        "service account": spec.pop("serviceAccountName", None),
        "command": " ".join([*_list_texts(notebook.pop("command", None)), *_list_texts(notebook.pop("args", None))]),
        "working directory": notebook.pop("workingDir", None),
        **_name_each("volume", spec.pop("volumes", None), key="name"),
        **_name_each("mount", notebook.pop("volumeMounts", None), key="mountPath"),
        **{f"container {name}": value for name, value in _list_containers(containers[1:], server, others=others)},
        **_read_init_containers(spec.pop("initContainers", None), server, others=others),
        "annotations": {key: value for key, value in annotations.items() if not key.startswith(ANNOTATION_PREFIX)},
    }
    variables = _read_variables(notebook.pop("env", None), server, known=others.get(as_text(notebook.get("name"))))
    facts |= {f"variable {key}": value for key, value in _drop_derived(variables, facts, server=server).items()}
    facts |= {f"notebook {key}": _index(value) for key, value in notebook.items()}
    facts |= {f"pod {key}": _index(value) for key, value in (*metadata.items(), *spec.items())}
    facts |= {_NAMED_TRAITS.get(name, f"trait {name}"): value for name, value in server.traits.items()}
    return {aspect: value for aspect, value in facts.items() if value not in (None, {}, [], "")}


_NAMED_TRAITS = {"default_url": "default URL", "start_timeout": "start timeout"}


def _read_resources(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits and requests of a container. As in Kubernetes, a missing request equals the limit."""
    limits, requests = as_dict(resources.get("limits")), as_dict(resources.get("requests"))
    facts: dict[str, Any] = {}
    for name in dict.fromkeys(["cpu", "memory", *limits, *requests]):
        parse = parse_millis if name == "cpu" else parse_whole_units
        limit, request = (_parse(amounts.get(name), parse) for amounts in (limits, requests))
        request = limit if request is None else request
        if name in ("cpu", "memory"):
            title = "CPU" if name == "cpu" else name
            facts |= {f"{title} limit": limit, f"{title} request": request}
        else:
            facts |= {f"{_EXTENDED}{name}": limit if limit is not None else request}
            if limit != request:
                facts[f"{_EXTENDED}{name} request"] = request
    return facts


def _parse(value: Any, parse: Any) -> Any:
    if value is None:
        return None
    try:
        return parse(value) or None
    except QuantityError:
        return value  # an invalid amount has no normalized form, so the comparison shows it as the admin wrote it


def _read_scheduling(spec: dict[str, Any], *, avoided: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    affinity = as_dict(spec.pop("affinity", None))
    nodes = as_dict(affinity.get("nodeAffinity"))
    preferred = [each for each in as_dicts(nodes.get(_PREFERRED)) if each not in avoided]
    weighed = sorted(
        f"{_format_term(_read_term(as_dict(each.get('preference'))))} (weight {each.get('weight')})"
        for each in preferred
    )
    return {
        NODES: _read_node_selection(as_dict(spec.pop("nodeSelector", None)), nodes.get(_REQUIRED)),
        "node preference": "; ".join(weighed) or None,
        "pod affinity": _index(affinity.get("podAffinity")),
        "pod anti-affinity": _index(affinity.get("podAntiAffinity")),
        **{f"toleration {text}": "yes" for text in map(_format_toleration, as_dicts(spec.pop("tolerations", None)))},
    }


Expression = tuple[str, str, tuple[str, ...]]
Term = frozenset[Expression]


def _read_node_selection(selector: Mapping[str, Any], required: Any) -> str | None:
    """Return a text for a pod's node selector and required node affinity.

    The text is equal for two pods that select the same nodes by the same labels.
    """
    own = [(key, "In", (str(value),)) for key, value in selector.items()]
    if required is None:
        return _format_term(_merge_expressions(own)) if own else None
    # Skip a term without expressions: in Kubernetes, such a term matches no node.
    terms = [term for each in as_dicts(as_dict(required).get("nodeSelectorTerms")) if (term := _read_term(each))]
    texts = sorted({_format_term(_merge_expressions([*own, *term])) for term in terms})
    return " or ".join(texts) or "no node"


def _read_term(term: Mapping[str, Any]) -> Term:
    expressions = [*as_dicts(term.get("matchExpressions")), *as_dicts(term.get("matchFields"))]
    return _merge_expressions(
        (as_text(each.get("key")), as_text(each.get("operator")), _list_texts(each.get("values")))
        for each in expressions
    )


def _merge_expressions(expressions: Iterable[Expression]) -> Term:
    """Return the expressions of a node selector term, with the ``In`` expressions for the same label merged.

    A merged expression has only the values that all its expressions allow, because a node must match all of them.
    """
    allowed: dict[str, tuple[str, ...]] = {}
    others: set[Expression] = set()
    for key, operator, values in expressions:
        if operator == "In":
            before = allowed.get(key, values)
            allowed[key] = tuple(sorted(set(values) & set(before)))
        else:
            others.add((key, operator, tuple(sorted(values))))
    return frozenset(others | {(key, "In", values) for key, values in allowed.items()})


def _format_term(term: Term) -> str:
    return " and ".join(sorted(map(_format_expression, term)))


def _format_expression(expression: Expression) -> str:
    key, operator, values = expression
    match operator:
        case "In" if len(values) == 1:
            return f"{key}={values[0]}"
        case "In":
            return f"{key} in ({', '.join(values)})"
        case "Exists":
            return f"{key} exists"
        case "DoesNotExist":
            return f"no {key}"
        case _:
            return f"{key} {operator} ({', '.join(values)})"


def _format_toleration(toleration: Mapping[str, Any]) -> str:
    key, effect = as_text(toleration.get("key")) or "*", as_text(toleration.get("effect"))
    value = "" if toleration.get("operator") == "Exists" else f"={as_text(toleration.get('value'))}"
    seconds = toleration.get("tolerationSeconds")
    return f"{key}{value}{f':{effect}' if effect else ''}{'' if seconds is None else f' for {seconds} s'}"


def _list_texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _name_each(aspect: str, entries: Any, *, key: str) -> dict[str, Any]:
    return {f"{aspect} {each.get(key)}": _index(each) for each in as_dicts(entries)}


def _index(value: Any) -> Any:
    """Return JSON with each list of named objects turned into a mapping from the name to the object.

    The comparison then shows the name of an object that differs.
    """
    if isinstance(value, Mapping):
        return {key: _index(entry) for key, entry in value.items()}
    if isinstance(value, list):
        named = [each.get("name") for each in value if isinstance(each, Mapping)]
        if named and len(named) == len(value) and len(set(named)) == len(named) and None not in named:
            return {each["name"]: _index({k: v for k, v in each.items() if k != "name"}) for each in value}
        return [_index(each) for each in value]
    return value


_Variables = dict[str, Any]


def _list_others(server: Server) -> dict[str, _Variables]:
    """Return container name → environment variables, for all containers and init containers of a server."""
    spec = as_dict(server.manifest.get("spec"))
    containers = (*as_dicts(spec.get("containers")), *as_dicts(spec.get("initContainers")))
    return {as_text(each.get("name")): _index_variables(each.get("env")) for each in containers}


def _list_containers(
    containers: Iterable[Mapping[str, Any]], server: Server, *, others: Mapping[str, _Variables]
) -> Iterator[tuple[str, Any]]:
    for each in containers:
        name = as_text(each.get("name"))
        variables = _read_variables(each.get("env"), server, known=others.get(name))
        rest = {key: _index(value) for key, value in each.items() if key not in ("env", "name")}
        yield name, {**rest, **({"env": variables} if variables else {})}


def _read_init_containers(containers: Any, server: Server, *, others: Mapping[str, _Variables]) -> dict[str, Any]:
    found = dict(_list_containers(as_dicts(containers), server, others=others))
    facts: dict[str, Any] = {f"init container {name}": value for name, value in found.items()}
    if len(found) > 1:
        facts["init containers in order"] = ", ".join(found)
    return facts


def _read_variables(env: Any, server: Server, *, known: _Variables | None) -> _Variables:
    """Return a container's environment, without the variables that gpuspawner added to hide or describe GPUs.

    The function keeps such a variable if the container with the same name in the other server also sets it.

    :param known: environment of the other server's container with the same name; None if there is no such container.
    """
    variables = _index_variables(env)
    if not server.is_ours:
        return variables
    hiding = GPU_HIDING_ENVIRONMENT.items()
    added = {*GPU_VARIABLES, *(name for name, value in hiding if variables.get(name) == value)} - (known or {}).keys()
    return {name: value for name, value in variables.items() if name not in added}


def _index_variables(env: Any) -> _Variables:
    return {as_text(each.get("name")): each.get("valueFrom", each.get("value", "")) for each in as_dicts(env)}


_DERIVED = {
    "MEM_LIMIT": ("memory limit", parse_whole_units),
    "MEM_GUARANTEE": ("memory request", parse_whole_units),
    "CPU_LIMIT": ("CPU limit", parse_millis),
    "CPU_GUARANTEE": ("CPU request", parse_millis),
}
"""Variable that JupyterHub sets → (compared value that the variable repeats, function that parses the variable)."""


def _drop_derived(variables: _Variables, facts: Mapping[str, Any], *, server: Server) -> _Variables:
    """Return the environment without variables that only repeat another compared value, such as the memory limit."""
    derived = {"JUPYTER_IMAGE": facts["image"], "JUPYTER_IMAGE_SPEC": facts["image"]}
    derived["JUPYTERHUB_DEFAULT_URL"] = server.traits.get("default_url")
    return {
        name: value
        for name, value in variables.items()
        if not (name in derived and value == derived[name]) and not _repeats_amount(name, value, facts=facts)
    }


def _repeats_amount(name: str, value: Any, *, facts: Mapping[str, Any]) -> bool:
    if name not in _DERIVED:
        return False
    aspect, parse = _DERIVED[name]
    return bool(_parse(value, parse) == facts.get(aspect))
