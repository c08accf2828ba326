"""What the values of zero-to-jupyterhub want of a cluster besides gpuspawner's own settings. Total over any YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from traitlets.config import Config

from gpuspawner.cli.values.chart_config import get_chart_value, get_configured_trait
from gpuspawner.core.json_access import as_dict, as_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRequirements:
    """What servers need that an admin has to have made.

    :param pull_secrets: names of the secrets that their images are pulled with.
    :param wants_claims: each user gets a volume, from a StorageClass.
    :param storage_class: its name, empty for the cluster's default one.
    :param database_class: the same for the hub's database, None where it needs no new volume.
    :param priority_class: of every server, empty for none.
    :param reads_events: the hub follows what Kubernetes says of servers that start.
    :param has_user_namespaces: servers are started in a namespace for each user.
    """

    pull_secrets: tuple[str, ...] = ()
    wants_claims: bool = False
    storage_class: str = ""
    database_class: str | None = None
    priority_class: str = ""
    reads_events: bool = True
    has_user_namespaces: bool = False


def read_chart_requirements(values: Mapping[str, Any], config: Config) -> ChartRequirements:
    """Return what merged values say; what they leave out is as the chart has it.

    :param config: of spawners, as :func:`gpuspawner.cli.values.chart_config.build_spawner_config` makes it of them.
    """
    claims = get_configured_trait(config, "storage_pvc_ensure")
    own = as_text(get_configured_trait(config, "storage_class"))
    return ChartRequirements(
        pull_secrets=tuple(dict.fromkeys(_list_secret_names(values, config))),
        wants_claims=get_chart_value(values, "singleuser.storage.type", default="dynamic") == "dynamic"
        if claims is None
        else claims is True,
        storage_class=own or as_text(get_chart_value(values, "singleuser.storage.dynamic.storageClass")),
        database_class=_find_database_class(values),
        priority_class=as_text(get_configured_trait(config, "priority_class_name")),
        reads_events=get_configured_trait(config, "events_enabled") is not False,
        has_user_namespaces=get_configured_trait(config, "enable_user_namespaces") is True,
    )


def _find_database_class(values: Mapping[str, Any]) -> str | None:
    volume = get_chart_value(values, "hub.db.pvc", default={})
    named = get_chart_value(values, "hub.db.pvc.storageClassName")
    # With a selector, or with an empty text for its class, the claim goes to a volume that an admin has made.
    is_made = bool(as_dict(volume).get("selector")) or named == ""
    return (
        as_text(named)
        if get_chart_value(values, "hub.db.type", default="sqlite-pvc") == "sqlite-pvc" and not is_made
        else None
    )


def _list_secret_names(values: Mapping[str, Any], config: Config) -> Iterator[str]:
    yield from _list_names(values.get("imagePullSecrets"))
    yield from _list_names(get_chart_value(values, "singleuser.image.pullSecrets"))
    yield from _list_names(get_configured_trait(config, "image_pull_secrets"))


def _list_names(raw: object) -> Iterator[str]:
    entries: Iterable[object] = raw if isinstance(raw, list) else [raw]
    for each in entries:
        if name := as_text(each) or as_text(as_dict(each).get("name")):
            yield name
