"""What the values of zero-to-jupyterhub want of a cluster besides gpuspawner's own settings. Total over any YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from traitlets.config import Config

from gpuspawner.cli.values.chart import at, configured
from gpuspawner.core.rawjson import mapping, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
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


def read_wishes(values: Mapping[str, Any], config: Config) -> Wishes:
    """Return what merged values say; what they leave out is as the chart has it.

    :param config: of spawners, as :func:`gpuspawner.cli.values.chart.spawner_config` makes it of them.
    """
    claims = configured(config, "storage_pvc_ensure")
    own = text(configured(config, "storage_class"))
    return Wishes(
        pull_secrets=tuple(dict.fromkeys(_pull_secrets(values, config))),
        wants_claims=at(values, "singleuser.storage.type", default="dynamic") == "dynamic"
        if claims is None
        else claims is True,
        storage_class=own or text(at(values, "singleuser.storage.dynamic.storageClass")),
        database_class=_database_class(values),
        priority_class=text(configured(config, "priority_class_name")),
        reads_events=configured(config, "events_enabled") is not False,
        has_user_namespaces=configured(config, "enable_user_namespaces") is True,
    )


def _database_class(values: Mapping[str, Any]) -> str | None:
    volume = at(values, "hub.db.pvc", default={})
    named = at(values, "hub.db.pvc.storageClassName")
    # With a selector, or with an empty text for its class, the claim goes to a volume that an admin has made.
    is_made = bool(mapping(volume).get("selector")) or named == ""
    return text(named) if at(values, "hub.db.type", default="sqlite-pvc") == "sqlite-pvc" and not is_made else None


def _pull_secrets(values: Mapping[str, Any], config: Config) -> Iterator[str]:
    yield from _names(values.get("imagePullSecrets"))
    yield from _names(at(values, "singleuser.image.pullSecrets"))
    yield from _names(configured(config, "image_pull_secrets"))


def _names(raw: object) -> Iterator[str]:
    entries: Iterable[object] = raw if isinstance(raw, list) else [raw]
    for each in entries:
        if name := text(each) or text(mapping(each).get("name")):
            yield name
