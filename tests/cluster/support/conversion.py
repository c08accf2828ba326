"""A profile list and what ``gpuspawner convert`` makes of it: two hubs on one cluster with a matching fleet.

Each file in ``profiles`` has four keys:

    cloud: gke                 the fleet: a file in ``clouds``
    starts:                    servers that both hubs start
      - {profile: t4, options: {image: tf}, groups: [students], users: true, pools: [t4]}
    refused: [...]             servers that the converted settings refuse, in the same form, without pools
    values: {...}              the chart's values with the profile list

``users: true`` says that the list allows the user by name.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import ApiClient, CoreV1Api

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from gpuspawner.cli.main import main
from gpuspawner.cli.values.chart_config import build_spawner_config
from gpuspawner.cli.values.helm_values import load_values
from tests.cluster.support import cloud as clouds
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers

PROFILES = Path(__file__).with_name("profiles")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A server that a user asks for.

    :param pools: where it may be; empty for one that is refused.
    """

    user: str
    profile: str
    options: Mapping[str, str]
    groups: tuple[str, ...]
    pools: tuple[str, ...]

    @property
    def old(self) -> dict[str, object]:
        """User options for KubeSpawner's profile list."""
        return {"profile": self.profile, **self.options}

    @property
    def new(self) -> dict[str, object]:
        """User options for the converted settings."""
        return {"preset": self.profile, **({"preset_choices": dict(self.options)} if self.options else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """The two hubs, and what to start in both."""

    starts: tuple[Start, ...]
    refused: tuple[Start, ...]
    old: Servers
    new: Servers


def list_names() -> list[str]:
    """Return the names of the profile lists."""
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


@contextmanager
def converted(cluster: Cluster, api: ApiClient, name: str, folder: Path) -> Iterator[Conversion]:
    """Run a hub with a profile list, and one with the converted settings, on the list's fleet.

    :param folder: for the values files and the hubs' databases.
    """
    document: dict[str, Any] = yaml.safe_load((PROFILES / f"{name}.yaml").read_text(encoding="utf-8"))
    clouds.put_up(cluster, api, (*(cloud := clouds.load(document["cloud"])).there, *cloud.added))
    starts, refused = (tuple(_read_starts(document.get(key, ()), key)) for key in ("starts", "refused"))
    before, after = folder / "old.yaml", folder / "new.yaml"
    before.write_text(yaml.safe_dump(document["values"]))
    out, notes = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(notes):
        status = main(["convert", str(before)])
    assert status in {0, 4}, notes.getvalue()
    after.write_text(out.getvalue())
    groups: dict[str, Any] = {}
    for each in (*starts, *refused):
        for group in each.groups:
            groups.setdefault(group, {"users": []})["users"].append(each.user)
    with (
        Hub(cluster, _settings(f"old-{name}", [before], groups), run_dir=folder / "old") as old,
        Hub(cluster, _settings(f"new-{name}", [before, after], groups), run_dir=folder / "new") as new,
    ):
        yield Conversion(
            starts=starts,
            refused=refused,
            old=Servers(old, Pods(api, f"old-{name}")),
            new=Servers(new, Pods(api, f"new-{name}")),
        )
    for side in ("old", "new"):
        CoreV1Api(api).delete_collection_namespaced_pod(f"{side}-{name}", grace_period_seconds=0)


def _read_starts(entries: list[dict[str, Any]], key: str) -> Iterator[Start]:
    for number, each in enumerate(entries):
        user = f"{each['profile']}-0" if each.get("users") else f"{key}-{number}"
        yield Start(
            user=user,
            profile=each["profile"],
            options=each.get("options", {}),
            groups=tuple(each.get("groups", ())),
            pools=tuple(each.get("pools", ())),
        )


def _settings(namespace: str, files: list[Path], groups: Mapping[str, Any]) -> HubSettings:
    values = load_values([str(path) for path in files])
    kubespawner = build_spawner_config(values.merged, namespace=namespace)["KubeSpawner"]
    return HubSettings(
        namespace=namespace,
        gpuspawner=values.settings,
        spawner_class="gpuspawner.GPUSpawner" if len(files) > 1 else "kubespawner.KubeSpawner",
        extra={"JupyterHub": {"load_groups": groups}, "KubeSpawner": kubespawner},
    )
