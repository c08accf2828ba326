"""Derives the hub's spawner configuration, and the objects that the hub needs, from zero-to-jupyterhub's values.

:func:`build_spawner_config` applies most values that change a server's pod, as the chart's jupyterhub_config.py does.
:func:`list_omissions` names the values that :func:`build_spawner_config` leaves out.

:func:`read_chart_requirements` returns the objects and rights that must exist in the cluster. It ignores values of a
wrong type.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from traitlets.config import Config

from gpuspawner.cli.values.helm_values import SPAWNER_SECTIONS
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.json_access import as_dict, as_dicts, as_text
from gpuspawner.core.text.wording import quote
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.settings import Settings

OUR_CLASSES = ("gpuspawner.GPUSpawner", "gpu", "gpuspawner.hub.spawner.GPUSpawner")
"""Values of ``JupyterHub.spawner_class`` that name gpuspawner's own class."""
_SECTIONS = tuple(reversed(SPAWNER_SECTIONS))
"""Sections of ``hub.config`` that configure spawners. A section overrides the sections before it in this tuple."""

CHART_KEYS: Mapping[str, str] = {
    "node_selector": "nodeSelector",
    "node_affinity_required": "extraNodeAffinity.required",
    "node_affinity_preferred": "extraNodeAffinity.preferred",
    "pod_affinity_required": "extraPodAffinity.required",
    "pod_affinity_preferred": "extraPodAffinity.preferred",
    "pod_anti_affinity_required": "extraPodAntiAffinity.required",
    "pod_anti_affinity_preferred": "extraPodAntiAffinity.preferred",
    "cpu_limit": "cpu.limit",
    "cpu_guarantee": "cpu.guarantee",
    "mem_limit": "memory.limit",
    "mem_guarantee": "memory.guarantee",
    "extra_resource_limits": "extraResource.limits",
    "extra_resource_guarantees": "extraResource.guarantees",
    "extra_pod_config": "extraPodConfig",
    "extra_containers": "extraContainers",
    "init_containers": "initContainers",
    "extra_annotations": "extraAnnotations",
    "environment": "extraEnv",
    "lifecycle_hooks": "lifecycleHooks",
    "service_account": "serviceAccountName",
    "image_pull_policy": "image.pullPolicy",
    "events_enabled": "events",
    "allow_privilege_escalation": "allowPrivilegeEscalation",
    "uid": "uid",
    "fs_gid": "fsGid",
    "start_timeout": "startTimeout",
    "pod_name_template": "podNameTemplate",
    "profile_list": "profileList",
}
"""Trait of KubeSpawner → path below ``singleuser`` of the chart value that sets the trait."""

BASE_CHART_KEYS = {"cmd": "cmd", "default_url": "defaultUrl"}
"""Trait → path below ``singleuser`` of the chart value that sets the trait on JupyterHub's class ``Spawner``."""

_DEFAULTS: Mapping[str, Any] = {
    "mem_guarantee": "1G",
    "allow_privilege_escalation": False,
    "uid": 1000,
    "fs_gid": 100,
    "start_timeout": 300,
    "events_enabled": True,
    "cmd": "jupyterhub-singleuser",
    # The chart sets these traits on KubeSpawner even if they are empty, and so overrides hub.config.Spawner.
    **{f"pod_{kind}_{how}": [] for kind in ("affinity", "anti_affinity") for how in ("required", "preferred")},
    **{trait: [] for trait in ("extra_containers", "init_containers", "profile_list")},
    **{trait: {} for trait in ("node_selector", "extra_annotations", "environment", "lifecycle_hooks")},
    **{trait: {} for trait in ("extra_pod_config", "extra_resource_limits", "extra_resource_guarantees")},
}
"""Trait → the chart's default; null in the values removes the default."""

DEFAULT_LABELS = {"hub.jupyter.org/network-access-hub": "true"}
"""The chart's default of ``singleuser.extraLabels``, without which a NetworkPolicy keeps servers from the hub."""
_IMAGE = "quay.io/jupyterhub/k8s-singleuser-sample"
DEFAULT_SCHEDULER = "default-scheduler"
_CHART_SCHEDULER = "user-scheduler"
DEFAULT_HUB_ACCOUNT = "hub"
"""Name of the hub's ServiceAccount if the values don't change it."""

_NODE_PURPOSE_TERM: Mapping[str, Any] = {"key": "hub.jupyter.org/node-purpose", "operator": "In", "values": ["user"]}
"""Expression that matches nodes with the chart's label for user pods."""
_TOLERATIONS_PATH = "singleuser.extraTolerations"
_TOLERATION_CHOICES: Mapping[str, tuple[str, ...]] = {
    "operator": ("Exists", "Equal"),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
}
DEFAULT_USER_TOLERATIONS: tuple[Mapping[str, Any], ...] = tuple(
    {"key": key, "operator": "Equal", "value": "user", "effect": "NoSchedule"}
    for key in ("hub.jupyter.org/dedicated", "hub.jupyter.org_dedicated")
)
"""The chart's default of ``scheduling.userPods.tolerations``."""


def build_spawner_config(values: Mapping[str, Any], *, namespace: str) -> Config:
    """Return the configuration that the chart gives the hub's spawners.

    :param values: the chart's values, without its defaults.
    :raises SettingsError: a value that this function reads has the wrong type.
    """
    traits: dict[str, Any] = {"namespace": namespace, **_build_chart_traits(values)}
    config = Config({"Spawner": _collect_traits(values, BASE_CHART_KEYS), "KubeSpawner": traits})
    for section in _SECTIONS:
        found = get_chart_value(values, f"hub.config.{section}")
        if isinstance(found, Mapping):
            # Leave out settings_files: it names files in the hub's pod, which the command cannot read.
            traits = {name: value for name, value in found.items() if name != "settings_files"}
            config.setdefault(section, Config()).update(traits)
    # Check tolerations and image now, because commands use both before KubeSpawner validates them.
    for section in _SECTIONS:
        found = config.get(section, {})
        _check_tolerations(found.get("tolerations"), path=f"hub.config.{section}.tolerations")
        if not isinstance(found.get("image"), str | None):
            raise _make_type_error(f"hub.config.{section}.image", "a text")
    return config


def get_configured_trait(config: Config, trait: str) -> Any:
    """Return the configured value of a trait, or None.

    :param trait: trait of the spawner, such as ``mem_limit``.
    """
    found = (config[section][trait] for section in reversed(_SECTIONS) if trait in config.get(section, {}))
    return next(found, None)


_IMAGE_TAG_PATH = "singleuser.image.tag"
_OMISSIONS = (
    ("scheduling.podPriority.enabled", False,
     "The priority class that the chart makes is left out (scheduling.podPriority)."),
    ("scheduling.userScheduler.enabled", True,
     "The chart's own scheduler is left out (scheduling.userScheduler); what it lets through is the same."),
    ("singleuser.cloudMetadata.blockWithIptables", True,
     "The init container that blocks the cloud's metadata is left out (singleuser.cloudMetadata)."),
    (_IMAGE_TAG_PATH, False,
     "The tag that the chart puts behind singleuser.image.name is left out: its own version."),
    ("imagePullSecret.create", False,
     "The secret that the chart makes to pull images with is left out (imagePullSecret)."),
    ("debug.enabled", False, "What has servers say more in their logs is left out (debug.enabled)."),
    ("singleuser.extraFiles", False, "Files are left out (singleuser.extraFiles)."),
)  # fmt: skip
"""Each row is (path of a chart value, the chart's default, notice to the admin).

The admin gets the notice if the value is neither false nor empty. The row of the image tag is an exception: the admin
gets its notice if :func:`needs_chart_tag` returns true.
"""


def list_omissions(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences that tell the admin what :func:`build_spawner_config` leaves out.

    The sentences name parts of a server's pod, settings in files, Python code in ``hub.extraConfig``, and a spawner
    class other than gpuspawner's.

    :param values: the chart's values, without its defaults.
    """
    yield "Addresses, tokens and labels are left out that only a running hub knows."
    if get_chart_value(values, "singleuser.storage.type", default="dynamic") in ("dynamic", "static"):
        yield "The home volume is left out (singleuser.storage); one that exists may bind a server to a zone."
    for path, default, text in _OMISSIONS:
        is_tag = path == _IMAGE_TAG_PATH
        if needs_chart_tag(values) if is_tag else get_chart_value(values, path, default=default):
            yield text
    yield from list_unread_settings(values)
    if get_chart_value(values, "hub.extraConfig"):
        yield "Python is not run (hub.extraConfig): what it sets, and its hooks, are left out."
    kind = get_chart_value(values, "hub.config.JupyterHub.spawner_class")
    if kind is not None and kind not in OUR_CLASSES:
        yield f"The hub starts servers with {kind}, which is not asked here."


def has_unknown_class(values: Mapping[str, Any]) -> bool:
    """Return whether the class of the hub's spawners may be one that only the hub has, such as an admin's subclass."""
    kind = get_chart_value(values, "hub.config.JupyterHub.spawner_class")
    scripts = as_dict(get_chart_value(values, "hub.extraConfig")).values()
    return kind not in (None, *OUR_CLASSES) or any("GPUSpawner" in str(script) for script in scripts)


def make_settings_parser(values: Mapping[str, Any]) -> Callable[[Mapping[str, object]], Settings]:
    """Return :func:`.parse_settings`, which accepts the traits of an unknown class of spawners in an override."""
    return partial(parse_settings, accepts_unknown_traits=has_unknown_class(values))


def list_unread_settings(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for the admin if the values set ``settings_files``, which names files in the hub's pod."""
    if any(get_chart_value(values, f"hub.config.{section}.settings_files") for section in _SECTIONS):
        yield "Settings in files on the hub are not read (settings_files): name them with -f, as Helm values."


def find_chart_path(values: Mapping[str, Any], trait: str) -> str:
    """Return the path of the chart value that sets a trait on KubeSpawner, or "" if no chart value sets the trait.

    The chart sets a trait even if the value is empty. ``tolerations`` is an exception: the chart joins it from two
    values. The result is "" if both are empty, else ``singleuser.extraTolerations``.
    """
    if trait == "tolerations":
        tolerations = (
            get_chart_value(values, "scheduling.userPods.tolerations", default=DEFAULT_USER_TOLERATIONS),
            get_chart_value(values, _TOLERATIONS_PATH),
        )
        return _TOLERATIONS_PATH if any(tolerations) else ""
    if trait not in CHART_KEYS:
        return ""
    path = f"singleuser.{CHART_KEYS[trait]}"
    return path if get_chart_value(values, path, default=_DEFAULTS.get(trait)) is not None else ""


def needs_chart_tag(values: Mapping[str, Any]) -> bool:
    """Return whether the values replace the chart's default image, but set no tag.

    The chart then appends the tag of its default image to the image's name.

    :param values: the chart's values, without its defaults.
    """
    image = get_chart_value(values, "singleuser.image", default={})
    return isinstance(image, Mapping) and "tag" not in image and image.get("name") not in (None, "", _IMAGE)


def find_hub_account(values: Mapping[str, Any]) -> str:
    """Return the name of the ServiceAccount that the chart gives the hub's pod."""
    named = get_chart_value(values, "hub.serviceAccount.name")
    if not named and get_chart_value(values, "hub.serviceAccount.create", default=True) is False:
        return "default"  # the ServiceAccount that Kubernetes gives to a pod without serviceAccountName
    if named:
        return str(named)
    return _prefix_name(values, DEFAULT_HUB_ACCOUNT)


def _prefix_name(values: Mapping[str, Any], name: str) -> str:
    """Return the name that the chart gives to an object: ``name``, with ``fullnameOverride`` as prefix if it is set."""
    prefix = get_chart_value(values, "fullnameOverride", default="")
    return f"{prefix}-{name}" if prefix and isinstance(prefix, str) else name


def get_chart_value(values: Mapping[str, Any], path: str, *, default: Any = None) -> Any:
    """Return the value at a path, or None if the value or a section above it is null.

    :param values: the chart's values, without its defaults.
    :param path: keys joined by dots.
    :param default: the chart's default, returned if the values don't contain the path.
    """
    found: Any = values
    for key in path.split("."):
        if found is None:
            return None
        if not isinstance(found, Mapping) or key not in found:
            return default
        found = found[key]
    return found


def _build_chart_traits(values: Mapping[str, Any]) -> dict[str, Any]:
    found = _collect_traits(values, CHART_KEYS)
    name, tag = get_chart_value(values, "singleuser.image.name"), get_chart_value(values, _IMAGE_TAG_PATH)
    if tag:
        found["image"] = f"{name or _IMAGE}:{tag}"
    elif name:
        found["image"] = name
    found |= _build_labels(values) | _build_volumes(values)
    if secrets := _list_pull_secrets(values):
        found["image_pull_secrets"] = secrets
    of_pods = _get_entries(values, "scheduling.userPods.tolerations", default=DEFAULT_USER_TOLERATIONS)
    extra = _get_entries(values, _TOLERATIONS_PATH)
    _check_tolerations(of_pods, path="scheduling.userPods.tolerations")
    _check_tolerations(extra, path=_TOLERATIONS_PATH)
    if both := [*of_pods, *extra]:
        found["tolerations"] = both
    required = _get_entries(values, "singleuser.extraNodeAffinity.required")
    preferred = _get_entries(values, "singleuser.extraNodeAffinity.preferred")
    match get_chart_value(values, "scheduling.userPods.nodeAffinity.matchNodePurpose", default="prefer"):
        case "require":
            required = [*required, {"matchExpressions": [_NODE_PURPOSE_TERM]}]
        case "prefer":
            preferred = [*preferred, {"weight": 100, "preference": {"matchExpressions": [_NODE_PURPOSE_TERM]}}]
    found |= {"node_affinity_required": required, "node_affinity_preferred": preferred}
    return found


def _collect_traits(values: Mapping[str, Any], traits: Mapping[str, str]) -> dict[str, Any]:
    found = (
        (trait, get_chart_value(values, f"singleuser.{key}", default=_DEFAULTS.get(trait)))
        for trait, key in traits.items()
    )
    return {trait: copy.deepcopy(value) for trait, value in found if value not in (None, "")}


def _build_labels(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels of servers' pods, without labels that depend on the Helm release."""
    name = get_chart_value(values, "nameOverride") or "jupyterhub"
    found: dict[str, Any] = {
        "common_labels": {
            "app": name,
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/managed-by": "kubespawner",
        }
    }
    own = get_chart_value(values, "singleuser.extraLabels", default={})
    if isinstance(own, Mapping):
        found["extra_labels"] = {key: value for key, value in {**DEFAULT_LABELS, **own}.items() if value is not None}
    return found


def _build_volumes(values: Mapping[str, Any]) -> dict[str, Any]:
    found = (
        (trait, get_chart_value(values, f"singleuser.storage.{key}"))
        for trait, key in (("volumes", "extraVolumes"), ("volume_mounts", "extraVolumeMounts"))
    )
    return {trait: volumes for trait, volumes in found if volumes}


def _list_pull_secrets(values: Mapping[str, Any]) -> list[Any]:
    listed = (get_chart_value(values, path) for path in ("imagePullSecrets", "singleuser.image.pullSecrets"))
    return [entry for entries in listed if isinstance(entries, list) for entry in entries]


def _get_entries(values: Mapping[str, Any], path: str, *, default: Iterable[Any] = ()) -> list[Any]:
    found = get_chart_value(values, path, default=list(default))
    if found is None:
        return []
    if not isinstance(found, list):
        raise _make_type_error(path, "a list")
    for place, entry in enumerate(found):
        if not isinstance(entry, Mapping):
            raise _make_type_error(f"{path}.{place}", "a mapping")
    return found


def _check_tolerations(tolerations: Any, *, path: str) -> None:
    """Raise an error unless a value is null, or a list or mapping of valid tolerations.

    KubeSpawner accepts a mapping in place of a list, and uses the mapping's values.
    """
    if tolerations is None:
        return
    if not isinstance(tolerations, list | Mapping):
        raise _make_type_error(path, "a list")
    for place, entry in tolerations.items() if isinstance(tolerations, Mapping) else enumerate(tolerations):
        if not isinstance(entry, Mapping):
            raise _make_type_error(f"{path}.{place}", "a mapping")
        for key in ("key", "operator", "value", "effect"):
            if not isinstance(entry.get(key), str | None):
                raise _make_type_error(f"{path}.{place}.{key}", "a text")
        # The API server refuses a pod if a toleration has an operator or effect that _TOLERATION_CHOICES lacks.
        for key, known in _TOLERATION_CHOICES.items():
            if entry.get(key) and entry[key] not in known:
                raise _make_type_error(f"{path}.{place}.{key}", f"one of {', '.join(known)}, not {quote(entry[key])}")


def _make_type_error(path: str, expected: str) -> SettingsError:
    return SettingsError(Problem(field=path, code="wrong_type", message=f"must be {expected}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRequirements:
    """Objects and rights that the hub and its servers need.

    :param pull_secrets: names of the image pull secrets.
    :param wants_claims: whether the hub creates a PersistentVolumeClaim for each user.
    :param storage_class: name of the claims' StorageClass; empty for the cluster's default.
    :param database_class: name of the StorageClass of the hub's database volume; empty for the cluster's default, None
        if the volume needs no StorageClass.
    :param priority_class: name of the PriorityClass of all servers; empty if the configuration names none.
    :param scheduler: name of the scheduler of all servers.
    :param reads_events: whether the hub watches events of starting servers.
    :param has_user_namespaces: whether each user's servers run in the user's own namespace.
    :param privileged: names of the servers' privileged containers, without containers that the chart adds.
    :param environment_sources: kind and name of each ConfigMap or Secret whose keys all become environment variables
        of the notebook container (``envFrom``), such as ``ConfigMap course-env``.
    """

    pull_secrets: tuple[str, ...] = ()
    wants_claims: bool = False
    storage_class: str = ""
    database_class: str | None = None
    priority_class: str = ""
    scheduler: str = _CHART_SCHEDULER
    reads_events: bool = True
    has_user_namespaces: bool = False
    privileged: tuple[str, ...] = ()
    environment_sources: tuple[str, ...] = ()


def read_chart_requirements(values: Mapping[str, Any], config: Config) -> ChartRequirements:
    """Return the objects and rights that the values and the chart's defaults require.

    :param values: the chart's values, without its defaults.
    :param config: the configuration from :func:`gpuspawner.cli.values.chart_config.build_spawner_config`.
    """
    wants_claims = get_configured_trait(config, "storage_pvc_ensure")
    if wants_claims is None:
        wants_claims = get_chart_value(values, "singleuser.storage.type", default="dynamic") == "dynamic"
    storage_class = as_text(get_configured_trait(config, "storage_class"))
    return ChartRequirements(
        pull_secrets=tuple(dict.fromkeys(_list_secret_names(values, config))),
        wants_claims=wants_claims is True,
        storage_class=storage_class or as_text(get_chart_value(values, "singleuser.storage.dynamic.storageClass")),
        database_class=_find_database_class(values),
        priority_class=as_text(get_configured_trait(config, "priority_class_name")),
        scheduler=_find_scheduler(values, config),
        reads_events=get_configured_trait(config, "events_enabled") is not False,
        has_user_namespaces=get_configured_trait(config, "enable_user_namespaces") is True,
        privileged=tuple(_list_privileged(config)),
        environment_sources=tuple(_list_environment_sources(config)),
    )


def _find_scheduler(values: Mapping[str, Any], config: Config) -> str:
    """Return the ``schedulerName`` of servers' pods; by default it is the chart's own scheduler."""
    pod = as_dict(get_configured_trait(config, "extra_pod_config"))
    named = (pod.get("schedulerName"), pod.get("scheduler_name"), get_configured_trait(config, "scheduler_name"))
    if found := next(filter(None, map(as_text, named)), ""):
        return found
    if get_chart_value(values, "scheduling.userScheduler.enabled", default=True) is not True:
        return DEFAULT_SCHEDULER
    return _prefix_name(values, _CHART_SCHEDULER)


_NOTEBOOK = "notebook"
"""Name that KubeSpawner gives to the container in which the user's server runs."""


def _list_privileged(config: Config) -> Iterator[str]:
    notebook = as_dict(get_configured_trait(config, "extra_container_config"))
    contexts = (
        as_dict(get_configured_trait(config, "container_security_context")),
        as_dict(notebook.get("securityContext") or notebook.get("security_context")),
    )
    if get_configured_trait(config, "privileged") is True or any(
        context.get("privileged") is True for context in contexts
    ):
        yield _NOTEBOOK
    pod = as_dict(get_configured_trait(config, "extra_pod_config"))
    for found in (
        *(get_configured_trait(config, trait) for trait in ("extra_containers", "init_containers")),
        *(pod.get(key) for key in ("initContainers", "init_containers")),
    ):
        for container in as_dicts(list(found.values()) if isinstance(found, Mapping) else found):
            context = as_dict(container.get("securityContext") or container.get("security_context"))
            if context.get("privileged") is True:
                yield as_text(container.get("name"))


def _list_environment_sources(config: Config) -> Iterator[str]:
    notebook = as_dict(get_configured_trait(config, "extra_container_config"))
    for source in as_dicts(notebook.get("envFrom") or notebook.get("env_from")):
        for kind, keys in (("ConfigMap", ("configMapRef", "config_map_ref")), ("Secret", ("secretRef", "secret_ref"))):
            for key in keys:
                if name := as_text(as_dict(source.get(key)).get("name")):
                    yield f"{kind} {name}"


def _find_database_class(values: Mapping[str, Any]) -> str | None:
    claim = get_chart_value(values, "hub.db.pvc", default={})
    name = get_chart_value(values, "hub.db.pvc.storageClassName")
    # A claim with a selector or an empty storageClassName binds to an existing volume, so it needs no StorageClass.
    is_static = bool(as_dict(claim).get("selector")) or name == ""
    uses_claim = get_chart_value(values, "hub.db.type", default="sqlite-pvc") == "sqlite-pvc"
    return as_text(name) if uses_claim and not is_static else None


def _list_secret_names(values: Mapping[str, Any], config: Config) -> Iterator[str]:
    yield from _list_names(values.get("imagePullSecrets"))
    yield from _list_names(get_chart_value(values, "singleuser.image.pullSecrets"))
    yield from _list_names(get_configured_trait(config, "image_pull_secrets"))


def _list_names(raw: object) -> Iterator[str]:
    entries: Iterable[object] = raw if isinstance(raw, list) else [raw]
    for entry in entries:
        if name := as_text(entry) or as_text(as_dict(entry).get("name")):
            yield name
