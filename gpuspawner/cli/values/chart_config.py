"""From the values of zero-to-jupyterhub to the configuration that a hub of it gives its spawners.

What matters for where a server may run, and for how much it asks for, is carried over as the chart does it; what the
chart makes of the rest is named, so that nobody takes a pod shown here for the whole truth.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from traitlets.config import Config

from gpuspawner.cli.values.helm_values import SPAWNER_SECTIONS
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.text.quoting import quote

_SECTIONS = tuple(reversed(SPAWNER_SECTIONS))
"""Of ``hub.config``, in the order in which a later one wins."""

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
"""Traits of KubeSpawner, and what they are called below ``singleuser``."""

BASE_CHART_KEYS = {"cmd": "cmd", "default_url": "defaultUrl"}
"""The same of JupyterHub's Spawner: here sections of ``hub.config`` count that do not for the traits above."""

_OTHER_CHART_PATHS = (
    "singleuser.image.name",
    "singleuser.extraTolerations",
    "singleuser.storage.extraVolumes",
    "scheduling.userPods.tolerations",
    "scheduling.userPods.nodeAffinity.matchNodePurpose",
    "prePuller.hook.enabled",
    "prePuller.continuous.enabled",
    "prePuller.extraImages.*",
)
"""What else is read of the chart's values."""

_DEFAULTS: Mapping[str, Any] = {
    "mem_guarantee": "1G",
    "allow_privilege_escalation": False,
    "uid": 1000,
    "fs_gid": 100,
    "start_timeout": 300,
    "events_enabled": True,
    "cmd": "jupyterhub-singleuser",
    # Nothing, and yet it takes the place of what a section of JupyterHub's Spawner says.
    **{f"pod_{kind}_{how}": [] for kind in ("affinity", "anti_affinity") for how in ("required", "preferred")},
    **{trait: [] for trait in ("extra_containers", "init_containers", "profile_list")},
    **{trait: {} for trait in ("node_selector", "extra_annotations", "environment", "lifecycle_hooks")},
    **{trait: {} for trait in ("extra_pod_config", "extra_resource_limits", "extra_resource_guarantees")},
}
"""What the chart itself says. A null in values takes it away."""

_LABELS = {"hub.jupyter.org/network-access-hub": "true"}
_IMAGE = "quay.io/jupyterhub/k8s-singleuser-sample"
DEFAULT_HUB_ACCOUNT = "hub"
"""Name of the ServiceAccount that the chart makes for the hub, unless it is told to put something before all names."""

_NODE_PURPOSE_TERM: Mapping[str, Any] = {"key": "hub.jupyter.org/node-purpose", "operator": "In", "values": ["user"]}
"""What a node's labels say that is for users' servers."""
_TOLERATIONS_PATH = "singleuser.extraTolerations"
_TOLERATION_CHOICES: Mapping[str, tuple[str, ...]] = {
    "operator": ("Exists", "Equal"),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
}
_DEFAULT_USER_TOLERATIONS: tuple[Mapping[str, Any], ...] = tuple(
    {"key": key, "operator": "Equal", "value": "user", "effect": "NoSchedule"}
    for key in ("hub.jupyter.org/dedicated", "hub.jupyter.org_dedicated")
)
"""What servers tolerate where values say nothing (the chart's scheduling.userPods.tolerations)."""


def build_spawner_config(values: Mapping[str, Any], *, namespace: str) -> Config:
    """Return the configuration of spawners.

    :param values: the chart's, as an admin wrote them.
    :param namespace: where servers are started.
    :raises SettingsError: a section is no mapping, or something that the chart puts together no list, or no text.
    """
    _check_sections(values)
    traits: dict[str, Any] = {"namespace": namespace, **_build_chart_traits(values)}
    config = Config({"Spawner": _collect_traits(values, BASE_CHART_KEYS), "KubeSpawner": traits})
    for section in _SECTIONS:
        written = get_chart_value(values, f"hub.config.{section}")
        if isinstance(written, Mapping):
            # The files are on the hub, not here: see unread_settings.
            here = {name: value for name, value in written.items() if name != "settings_files"}
            config.setdefault(section, Config()).update(here)
    # These are used before KubeSpawner gets to look at them.
    for section in _SECTIONS:
        written = config.get(section, {})
        _check_tolerations(written.get("tolerations"), path=f"hub.config.{section}.tolerations")
        if not isinstance(written.get("image"), str | None):
            raise _make_type_error(f"hub.config.{section}.image", "a text")
    return config


def get_configured_trait(config: Config, trait: str) -> Any:
    """Return what a configuration says of a trait of the spawner, None where it says nothing."""
    said = (config[section][trait] for section in reversed(_SECTIONS) if trait in config.get(section, {}))
    return next(said, None)


def list_omissions(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of a hub's pods is not in :func:`build_spawner_config`, in sentences."""
    yield "Addresses, tokens and labels are left out that only a running hub knows."
    if get_chart_value(values, "singleuser.storage.type", default="dynamic") in ("dynamic", "static"):
        yield "The home volume is left out (singleuser.storage); one that exists may bind a server to a zone."
    if get_chart_value(values, "scheduling.podPriority.enabled"):
        yield "The priority class that the chart makes is left out (scheduling.podPriority)."
    if get_chart_value(values, "scheduling.userScheduler.enabled", default=True):
        yield "The chart's own scheduler is left out (scheduling.userScheduler); what it lets through is the same."
    if get_chart_value(values, "singleuser.cloudMetadata.blockWithIptables", default=True):
        yield "The init container that blocks the cloud's metadata is left out (singleuser.cloudMetadata)."
    yield from _list_chart_objects(values)
    if get_chart_value(values, "singleuser.extraFiles"):
        yield "Files are left out (singleuser.extraFiles)."
    yield from list_unread_settings(values)
    if get_chart_value(values, "hub.extraConfig"):
        yield "Python is not run (hub.extraConfig): what it sets, and its hooks, are left out."
    kind = get_chart_value(values, "hub.config.JupyterHub.spawner_class")
    if kind is not None and kind not in ("gpuspawner.GPUSpawner", "gpu"):
        yield f"The hub starts servers with {kind}, which is not asked here."


def _list_chart_objects(values: Mapping[str, Any]) -> Iterator[str]:
    if needs_chart_tag(values):
        yield "The tag that the chart puts behind singleuser.image.name is left out: its own version."
    if get_chart_value(values, "imagePullSecret.create"):
        yield "The secret that the chart makes to pull images with is left out (imagePullSecret)."
    if get_chart_value(values, "debug.enabled"):
        yield "What has servers say more in their logs is left out (debug.enabled)."


def list_unread_settings(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield that a hub has more settings than the values."""
    if any(get_chart_value(values, f"hub.config.{section}.settings_files") for section in _SECTIONS):
        yield "Settings in files on the hub are not read (settings_files): name them with -f, as Helm values."


def find_chart_path(values: Mapping[str, Any], trait: str) -> str:
    """Return the path in values by which the chart sets a trait of KubeSpawner, empty where it leaves it alone.

    What it sets takes the place of what ``hub.config.Spawner`` says, however little it is.
    """
    if trait == "tolerations":
        said = (
            get_chart_value(values, "scheduling.userPods.tolerations", default=_DEFAULT_USER_TOLERATIONS),
            get_chart_value(values, _TOLERATIONS_PATH),
        )
        return _TOLERATIONS_PATH if any(said) else ""
    if trait not in CHART_KEYS:
        return ""
    path = f"singleuser.{CHART_KEYS[trait]}"
    return path if get_chart_value(values, path, default=_DEFAULTS.get(trait)) is not None else ""


def needs_chart_tag(values: Mapping[str, Any]) -> bool:
    """Tell whether an image is named without a tag, so that the chart puts its own version behind the name."""
    image = get_chart_value(values, "singleuser.image", default={})
    return isinstance(image, Mapping) and "tag" not in image and image.get("name") not in (None, "", _IMAGE)


def find_hub_account(values: Mapping[str, Any]) -> str:
    """Return the name of the hub's ServiceAccount, as far as values tell it."""
    prefix = get_chart_value(values, "fullnameOverride", default="")
    named = get_chart_value(values, "hub.serviceAccount.name")
    if not named and get_chart_value(values, "hub.serviceAccount.create", default=True) is False:
        return "default"  # the one of a pod that names none
    return (
        str(named)
        if named
        else f"{prefix}-{DEFAULT_HUB_ACCOUNT}"
        if prefix and isinstance(prefix, str)
        else DEFAULT_HUB_ACCOUNT
    )


def get_chart_value(values: Mapping[str, Any], path: str, *, default: Any = None) -> Any:
    """Return what stands at a path of keys with dots between them.

    :param default: the chart's, which holds where nothing is said; null at the path or above it takes it away.
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
    name, tag = get_chart_value(values, "singleuser.image.name"), get_chart_value(values, "singleuser.image.tag")
    if tag:
        found["image"] = f"{name or _IMAGE}:{tag}"
    elif name:
        found["image"] = name
    found |= _build_labels(values) | _build_volumes(values)
    if secrets := _list_pull_secrets(values):
        found["image_pull_secrets"] = secrets
    of_pods = _get_entries(values, "scheduling.userPods.tolerations", default=_DEFAULT_USER_TOLERATIONS)
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
    said = (
        (trait, get_chart_value(values, f"singleuser.{key}", default=_DEFAULTS.get(trait)))
        for trait, key in traits.items()
    )
    return {trait: copy.deepcopy(value) for trait, value in said if value not in (None, "")}


def _build_labels(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels of servers, without those that say which release they are of."""
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
        found["extra_labels"] = {key: value for key, value in {**_LABELS, **own}.items() if value is not None}
    return found


def _build_volumes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is mounted besides the home, which the chart takes as a list or by names of the admin's."""
    found = {}
    for trait, key in (("volumes", "extraVolumes"), ("volume_mounts", "extraVolumeMounts")):
        path = f"singleuser.storage.{key}"
        written = get_chart_value(values, path)
        if isinstance(written, Mapping):
            for name, entry in written.items():
                _check_named(entry, path=f"{path}.{name}")
        else:
            for place, entry in enumerate(_get_entries(values, path)):
                _check_named(entry, path=f"{path}.{place}")
        if written:
            found[trait] = written
    return found


def _check_named(entry: Any, *, path: str) -> None:
    if not isinstance(entry, Mapping):
        raise _make_type_error(path, "a mapping")
    if not isinstance(entry.get("name"), str):
        raise _make_type_error(f"{path}.name", "a text")


def _list_pull_secrets(values: Mapping[str, Any]) -> list[Any]:
    listed = (get_chart_value(values, path) for path in ("imagePullSecrets", "singleuser.image.pullSecrets"))
    return [entry for entries in listed if isinstance(entries, list) for entry in entries]


def _check_sections(values: Mapping[str, Any]) -> None:
    """Refuse what is no mapping where one is read: all of it would be taken for not said."""
    read = (*(f"singleuser.{key}" for key in CHART_KEYS.values()), *_OTHER_CHART_PATHS)
    paths = {path[:end] for path in read for end, character in enumerate(path) if character == "."}
    found = {path: get_chart_value(values, path) for path in sorted(paths)}
    wrong = [path for path, value in found.items() if not isinstance(value, Mapping | None)]
    if wrong:
        raise SettingsError(*(problem for path in wrong for problem in _make_type_error(path, "a mapping").problems))


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


def _check_tolerations(given: Any, *, path: str) -> None:
    """Refuse what no toleration is; KubeSpawner takes a list of them or a dict."""
    if given is None:
        return
    if not isinstance(given, list | Mapping):
        raise _make_type_error(path, "a list")
    for place, entry in given.items() if isinstance(given, Mapping) else enumerate(given):
        if not isinstance(entry, Mapping):
            raise _make_type_error(f"{path}.{place}", "a mapping")
        for key in ("key", "operator", "value", "effect"):
            if not isinstance(entry.get(key), str | None):
                raise _make_type_error(f"{path}.{place}.{key}", "a text")
        # Anything else the API server refuses, with the pod.
        for key, known in _TOLERATION_CHOICES.items():
            if entry.get(key) and entry[key] not in known:
                raise _make_type_error(f"{path}.{place}.{key}", f"one of {', '.join(known)}, not {quote(entry[key])}")


def _make_type_error(path: str, wanted: str) -> SettingsError:
    return SettingsError(Problem(field=path, code="wrong_type", message=f"must be {wanted}"))
