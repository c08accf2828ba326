"""Finds traits in ``hub.config`` that replace a list or mapping which the chart gives KubeSpawner.

The chart sets KubeSpawner's traits from its own values first. It then passes the sections of ``hub.config`` on, and a
trait there replaces the chart's value of the same trait as a whole, with the user's home or the label that lets servers
reach the hub: https://github.com/jupyterhub/zero-to-jupyterhub-k8s/blob/4.4.0/jupyterhub/files/hub/jupyterhub_config.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gpuspawner.cli.common.findings import Finding, Severity
from gpuspawner.cli.values.chart_config import (
    CHART_KEYS,
    DEFAULT_LABELS,
    DEFAULT_USER_TOLERATIONS,
    get_chart_value,
)
from gpuspawner.cli.values.helm_values import HUB_CONFIG_PATH, SPAWNER_SECTIONS, HelmValues
from gpuspawner.cli.values.trait_sources import make_finding
from gpuspawner.core.json_access import as_dict
from gpuspawner.core.text.wording import format_list, sanitize_name

_OWN_PATHS: Mapping[str, str] = {
    **{trait: f"singleuser.{key}" for trait, key in CHART_KEYS.items() if trait != "profile_list"},
    "tolerations": "singleuser.extraTolerations",
    "volumes": "singleuser.storage.extraVolumes",
    "volume_mounts": "singleuser.storage.extraVolumeMounts",
    "extra_labels": "singleuser.extraLabels",
    "image_pull_secrets": "singleuser.image.pullSecrets",
}
"""Trait of KubeSpawner → path of the chart value that adds to it and keeps what else the chart gives it."""
_PURPOSE_PATH = "scheduling.userPods.nodeAffinity.matchNodePurpose"


class _Loss(NamedTuple):
    """What a trait in ``hub.config`` takes from the chart's value of the trait.

    :param path: path of the chart value.
    :param names: names of the lost entries.
    :param is_default: whether the loss is of a default of the chart that most servers do without.
    """

    path: str
    names: list[str]
    is_default: bool = False


def find_replaced_lists(values: HelmValues) -> Iterator[Finding]:
    """Yield a finding for each trait in ``hub.config`` that lacks what the chart's value of the trait has."""
    *nearer, _ = SPAWNER_SECTIONS  # The last section is that of a base class, over which the chart's own values win.
    for section in nearer:
        for trait, passed in values.get_chart_section((*HUB_CONFIG_PATH, section)).items():
            losses = _list_losses(values.chart, trait, passed=passed) if isinstance(passed, list | Mapping) else []
            if losses:
                lost = "; ".join(f"{loss.path} ({format_list(loss.names, max_items=3)})" for loss in losses)
                home = _OWN_PATHS[trait]
                yield make_finding(
                    values,
                    (*values.root, *HUB_CONFIG_PATH, section, trait),
                    severity=Severity.HINT if all(loss.is_default for loss in losses) else Severity.WARNING,
                    code="replaced",
                    message=f"replaces what the chart sets. Lost: {lost}. Move this value to {home}, which adds to it",
                    of_key=True,
                )


def _list_losses(chart: Mapping[str, Any], trait: str, *, passed: list[Any] | Mapping[str, Any]) -> list[_Loss]:
    if trait not in _OWN_PATHS:
        return []
    entries = list(passed.values()) if isinstance(passed, Mapping) else passed
    own = get_chart_value(chart, _OWN_PATHS[trait])
    losses = [_Loss(_OWN_PATHS[trait], _list_missing(own, passed, entries=entries))]
    match trait:
        case "tolerations":
            tolerations = get_chart_value(chart, "scheduling.userPods.tolerations", default=DEFAULT_USER_TOLERATIONS)
            usual = list(tolerations) if isinstance(tolerations, list | tuple) else []
            missing = _list_missing(usual, passed, entries=entries)
            losses.append(_Loss("scheduling.userPods.tolerations", missing, tolerations is DEFAULT_USER_TOLERATIONS))
        case "node_affinity_required" | "node_affinity_preferred":
            purpose = get_chart_value(chart, _PURPOSE_PATH, default="prefer")
            if trait == {"require": "node_affinity_required", "prefer": "node_affinity_preferred"}.get(purpose):
                losses.append(_Loss(_PURPOSE_PATH, [purpose], purpose == "prefer"))
        case "extra_labels":
            labels = {**DEFAULT_LABELS, **as_dict(own)}
            losses = [_Loss(_OWN_PATHS[trait], _list_missing(labels, passed, entries=entries))]
        case "init_containers":
            if get_chart_value(chart, "singleuser.cloudMetadata.blockWithIptables", default=True) is True:
                names = ["the container that keeps servers from the cloud's metadata"]
                losses.append(_Loss("singleuser.cloudMetadata.blockWithIptables", names))
        case "image_pull_secrets":
            shared = get_chart_value(chart, "imagePullSecrets")
            losses.append(_Loss("imagePullSecrets", _list_missing(shared, passed, entries=entries)))
        case "volumes" | "volume_mounts":
            losses += _list_lost_storage(chart, trait, entries=entries)
    return [loss for loss in losses if loss.names]


def _list_lost_storage(chart: Mapping[str, Any], trait: str, *, entries: Iterable[Any]) -> Iterator[_Loss]:
    home = get_chart_value(chart, "singleuser.storage.homeMountPath", default="/home/jovyan")
    kept = (
        any("persistentVolumeClaim" in as_dict(entry) for entry in entries)
        if trait == "volumes"
        else any(as_dict(entry).get("mountPath") == home for entry in entries)
    )
    if get_chart_value(chart, "singleuser.storage.type", default="dynamic") in ("dynamic", "static") and not kept:
        yield _Loss("singleuser.storage", ["the home of each user"])
    files = get_chart_value(chart, "singleuser.extraFiles")
    if isinstance(files, Mapping):
        yield _Loss("singleuser.extraFiles", [sanitize_name(name) for name in files])


def _list_missing(expected: object, passed: list[Any] | Mapping[str, Any], *, entries: list[Any]) -> list[str]:
    """Return the names of the entries of a chart's list or mapping that a value in ``hub.config`` lacks.

    :param passed: the value.
    :param entries: the entries of the value, without the keys of a mapping.
    """
    if isinstance(expected, Mapping):
        # A list of KubeSpawner may also be a mapping, whose keys only name the entries.
        kept = [entry for entry in entries if isinstance(entry, Mapping)]
        present = {key: entry for key, entry in expected.items() if entry is not None}
        return [sanitize_name(key) for key, entry in present.items() if key not in passed and entry not in kept]
    return [_name_entry(entry) for entry in expected if entry not in entries] if isinstance(expected, list) else []


def _name_entry(entry: object) -> str:
    names = [as_dict(entry).get(key) for key in ("mountPath", "name", "key")]
    return sanitize_name(next((name for name in names if isinstance(name, str)), entry))
