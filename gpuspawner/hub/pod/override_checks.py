"""Parses the settings, and checks each ``kubespawner_override`` against the installed KubeSpawner.

A ``kubespawner_override`` is a mapping in the settings that sets KubeSpawner's traits for servers with, for example, a
certain preset. Most of these traits accept any list or mapping, and KubeSpawner finds a mistake in the value only when
it builds a pod. This module therefore sets each trait in a spawner that no hub uses, lets KubeSpawner build a pod,
and puts a sample choice into the pod, as a start would. If the settings have a mistake, the hub then does not
start, or keeps the previous settings after a reload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from kubespawner import KubeSpawner
from traitlets import TraitError, TraitType
from typing_extensions import override

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.json_access import as_dict, as_dicts
from gpuspawner.core.request.pod_requirements import PodRequirements
from gpuspawner.core.text.wording import quote, sanitize_name, suggest_name
from gpuspawner.hub.config.traits import find_subclass_traits
from gpuspawner.hub.pod.patch import PodChoice, patch_pod, serialize_models
from gpuspawner.hub.trait_overrides import copy_nested
from gpuspawner.settings import Settings, find_all_problems
from gpuspawner.settings.overrides import list_overriding_entries

_BUILD_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Types of the errors that KubeSpawner raises if it cannot write the value of a trait into a pod."""
_MAX_ERROR = 200
_UNKNOWN_TRAIT = "unknown_key"
"""Code of a problem of an override: neither KubeSpawner nor a subclass of the spawner has a trait of this name."""
_SAFE_ERRORS = (
    "Expected object of type",
    "did not have an attribute matching",
    "keys should have k8s camelCase names",
)
"""An error of KubeSpawner with one of these texts quotes only keys and types.

Of all others, only a TypeError is shown, because the others may quote a value, which may be a secret."""
_EXPRESSION = MatchExpression(key="gpu", operator="In", values=("a", "b"))
_SAMPLE = PodRequirements(
    image="image",
    cpu_limit_millis=1000,
    cpu_request_millis=1000,
    memory_limit_bytes=1024,
    memory_request_bytes=1024,
    extended_resources={"nvidia.com/gpu": 1},
    node_selector={"gpu": "a"},
    required=(_EXPRESSION,),
    avoided=(_EXPRESSION,),
    tolerations=(Toleration(key="gpu", operator="Exists", value="", effect=""),),
    environment={"A": "a"},
    labels={"a": "a"},
    annotations={"a": "a"},
    runtime_class="a",
    shm_bytes=1024,
    run_time_s=60,
)
"""A choice that changes all of a pod that a choice can change, to find overrides for which a start would fail."""
_CPU = "a number of CPUs such as 0.5"
_MEMORY = "a number of bytes, or a text such as 4G (K, M, G or T, without an i)"
_AMOUNTS = {"cpu_limit": _CPU, "cpu_guarantee": _CPU, "mem_limit": _MEMORY, "mem_guarantee": _MEMORY}
"""Name of a trait for an amount of CPU or memory → the values that the trait accepts, in words for an error."""


def parse_settings(raw: Mapping[str, object], *, accepts_unknown_traits: bool = False) -> Settings:
    """Return validated settings, after checking that the installed KubeSpawner accepts each ``kubespawner_override``.

    :param raw: the settings by key, as loaded from YAML.
    :param accepts_unknown_traits: whether to accept traits that no class in this process has, because the hub's
        spawner may be of another class.
    :raises SettingsError: the settings are invalid; the error has one problem for each wrong key.
    """
    check = partial(_parse_stage, accepts_unknown_traits=accepts_unknown_traits)
    try:
        return check(raw)
    except SettingsError:
        raise SettingsError(*find_all_problems(raw, check)) from None


def _parse_stage(raw: Mapping[str, object], *, accepts_unknown_traits: bool) -> Settings:
    settings = Settings.parse(raw)
    problems = list(find_override_problems(settings))
    if accepts_unknown_traits:
        problems = [problem for problem in problems if not is_unknown_trait(problem)]
    if problems:
        raise SettingsError(*problems)
    return settings


def is_unknown_trait(problem: Problem) -> bool:
    """Return whether a problem of settings is that a ``kubespawner_override`` names a trait that no known class has.

    :param problem: a problem from :func:`parse_settings`.
    """
    return problem.code == _UNKNOWN_TRAIT and ".kubespawner_override." in problem.field


def find_override_problems(settings: Settings) -> Iterator[Problem]:
    """Yield a problem for each trait in a ``kubespawner_override`` that the spawner lacks or whose value it rejects.

    The spawner has KubeSpawner's traits, and those of the admin's subclass of the spawner, if there is one.

    :param settings: settings without other problems.
    """
    known = _list_traits()
    for path, entry in list_overriding_entries(settings.model):
        for name, value in entry.overrides.items():
            field = f"{path}.kubespawner_override.{sanitize_name(name)}"
            if name not in known:
                message = f"KubeSpawner has no such trait.{suggest_name(name, known)}"
                yield Problem(field=field, code=_UNKNOWN_TRAIT, message=message)
            elif fault := find_override_fault(name, value):
                yield Problem(field=field, code="bad_value", message=fault)


def _list_traits() -> dict[str, TraitType[Any, Any]]:
    return {**KubeSpawner.class_traits(config=True), **find_subclass_traits()}


def find_override_fault(name: str, value: object) -> str:
    """Return what is wrong with a trait's value, or "" if KubeSpawner builds a pod with it.

    :param name: a configurable trait of KubeSpawner, or of the admin's subclass of the spawner.
    """
    trait, builder = _list_traits()[name], _PodBuilder()
    # Copy the value: KubeSpawner changes environment variables that are mappings in place.
    plain = _drop_nulls(copy_nested(value))
    try:
        if builder.has_trait(name):
            setattr(builder, name, plain)
        elif (validate := getattr(trait, "validate", None)) and not (plain is None and trait.allow_none):
            validate(builder, plain)
    except (TraitError, *_BUILD_ERRORS):
        expected = _AMOUNTS.get(name) or str(trait.info()).replace("dict", "mapping")
        return f"must be {expected}, not {_describe_value(value)}"
    if name == "start_timeout" and isinstance(plain, int) and plain < 1:
        return f"must be at least 1, not {plain}"
    if callable(plain) or not builder.has_trait(name):
        return ""
    return _explain_build_failure(builder)


class _PodBuilder(KubeSpawner):
    """A spawner that only builds pods, with KubeSpawner's default traits but without a hub, a token or an API client.

    Its constructor does not call KubeSpawner's constructor, which would connect to the cluster.
    """

    def __init__(self) -> None:
        self.user = SimpleNamespace(name="user", id=1, url="/user/user/", escaped_name="user")
        self.pod_name, self.secret_name, self.pvc_name, self.port = "jupyter-user", "jupyter-user", "claim-user", 8888

    def __getitem__(self, trait: str) -> Any:
        """Return the value of a trait."""
        return getattr(self, trait)

    @override
    def get_env(self) -> dict[str, Any]:
        """Return the environment that the override sets, with expanded templates.

        The result lacks JupyterHub's own variables, which need a hub.
        """
        _require_texts({name: each for name, each in self.environment.items() if not isinstance(each, Mapping | list)})
        # Leave out functions, which only a Python configuration can contain: JupyterHub calls them at a start.
        return {name: self._expand_all(value) for name, value in self.environment.items() if not callable(value)}

    @override
    def get_args(self) -> list[str]:
        """Return the arguments that the override sets.

        Raise an error if the template ``notebook_dir`` or ``default_url`` cannot be expanded, as a start would.
        """
        for template in (self.notebook_dir, self.default_url):
            self.format_string(template)
        return list(self.args)

    def build_pod(self) -> Any:
        """Return the pod that KubeSpawner builds from the traits, as a model of the Kubernetes client.

        :raises Exception: KubeSpawner cannot build a pod.
        """
        building = self.get_pod_manifest()
        try:
            # Run the coroutine without an event loop. A single ``send`` runs it to its end, because KubeSpawner awaits
            # only functions that an admin has set as traits, and this spawner has no such traits.
            building.send(None)
        except StopIteration as end:
            return end.value
        finally:
            building.close()
        return None


def _require_pod_texts(pod: Mapping[str, Any]) -> None:
    """Raise a TypeError if a pod has a value such as ``true`` in a field in which the API server accepts only strings.

    :param pod: JSON of the pod.
    """
    spec, metadata = as_dict(pod.get("spec")), as_dict(pod.get("metadata"))
    for texts in (spec.get("nodeSelector"), metadata.get("labels"), metadata.get("annotations")):
        _require_texts(as_dict(texts))
    for toleration in as_dicts(spec.get("tolerations")):
        _require_texts({name: toleration.get(name) for name in ("key", "value")})
    for kind in ("containers", "initContainers"):
        for container in as_dicts(spec.get(kind)):
            _require_texts({str(each.get("name")): each.get("value") for each in as_dicts(container.get("env"))})


def _require_texts(values: Mapping[str, object]) -> None:
    for name, value in values.items():
        # Accept a function from a Python configuration: JupyterHub calls it at a start to get the string.
        if value is not None and not isinstance(value, str) and not callable(value):
            hint = "" if isinstance(value, Mapping | list) else ", so it needs quotes"
            raise TypeError(f"the value of {sanitize_name(str(name))} must be a text{hint}")


def _drop_nulls(value: object) -> object:
    """Return a value without the mapping keys that have the value null.

    In an override, such a key removes the same key from the admin's value.
    """
    if isinstance(value, Mapping):
        return {key: _drop_nulls(each) for key, each in value.items() if each is not None}
    return value


def _describe_value(value: object) -> str:
    """Return a description of a value for a message; a string is not quoted, because it may be a secret."""
    match value:
        case str():
            return "a text"
        case list():
            return "a list"
        case Mapping():
            return "a mapping"
    return quote(value)


def _explain_build_failure(builder: _PodBuilder) -> str:
    """Return why a start with the builder's traits would fail, or "" if it would not.

    The start fails if KubeSpawner cannot build a pod, or if a user's choice cannot be put into the pod.
    """
    try:
        pod = builder.build_pod()
        _require_pod_texts(as_dict(serialize_models(pod)))
        patch_pod(pod, PodChoice(placement=_SAMPLE))
    except _BUILD_ERRORS as error:
        reason = " ".join(str(error).split())[:_MAX_ERROR]
        if isinstance(error, TypeError) or any(text in reason for text in _SAFE_ERRORS):
            return f"does not make a valid pod: {reason}"
        return "does not make a valid pod. If a text has braces that are no template, write them twice"
    return ""
