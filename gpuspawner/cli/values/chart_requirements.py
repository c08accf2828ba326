"""Objects and rights that the values of zero-to-jupyterhub require of a cluster.

The functions accept any YAML and ignore values of a wrong type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from traitlets.config import Config

from gpuspawner.cli.values.chart_config import get_chart_value, get_configured_trait
from gpuspawner.core.json_access import as_dict, as_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRequirements:
    """Objects and rights that the hub and its servers need.

    :param pull_secrets: names of the image pull secrets.
    :param wants_claims: the hub creates a PersistentVolumeClaim for each user.
    :param storage_class: name of its StorageClass, empty for the cluster's default.
    :param database_class: the same for the volume of the hub's database, None if that needs no new volume.
    :param priority_class: name of the PriorityClass of all servers, or empty.
    :param reads_events: the hub watches events of starting servers.
    :param has_user_namespaces: each user's servers run in a namespace of their own.
    """

    pull_secrets: tuple[str, ...] = ()
    wants_claims: bool = False
    storage_class: str = ""
    database_class: str | None = None
    priority_class: str = ""
    reads_events: bool = True
    has_user_namespaces: bool = False


def read_chart_requirements(values: Mapping[str, Any], config: Config) -> ChartRequirements:
    """Return the requirements of values and the chart's defaults.

    :param values: the chart's values, without its defaults.
    :param config: of :func:`gpuspawner.cli.values.chart_config.build_spawner_config`.
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
        reads_events=get_configured_trait(config, "events_enabled") is not False,
        has_user_namespaces=get_configured_trait(config, "enable_user_namespaces") is True,
    )


def _find_database_class(values: Mapping[str, Any]) -> str | None:
    claim = get_chart_value(values, "hub.db.pvc", default={})
    name = get_chart_value(values, "hub.db.pvc.storageClassName")
    # A selector or an empty class binds the claim to a volume that the admin created.
    is_static = bool(as_dict(claim).get("selector")) or name == ""
    uses_claim = get_chart_value(values, "hub.db.type", default="sqlite-pvc") == "sqlite-pvc"
    return as_text(name) if uses_claim and not is_static else None


def _list_secret_names(values: Mapping[str, Any], config: Config) -> Iterator[str]:
    yield from _list_names(values.get("imagePullSecrets"))
    yield from _list_names(get_chart_value(values, "singleuser.image.pullSecrets"))
    yield from _list_names(get_configured_trait(config, "image_pull_secrets"))


def _list_names(raw: object) -> Iterator[str]:
    entries: Iterable[object] = raw if isinstance(raw, list) else [raw]
    for each in entries:
        if name := as_text(each) or as_text(as_dict(each).get("name")):
            yield name
