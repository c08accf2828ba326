"""A hub with an admin's values, on simulated nodes like those the values are for; the scheduler is real."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from kubernetes.client import ApiClient, CoreV1Api, V1Pod

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from gpuspawner.cli.values.chart_config import build_spawner_config, get_chart_value
from gpuspawner.cli.values.helm_values import HelmValues
from tests.cluster.support import cloud as clouds
from tests.cluster.support.cloud import Cloud, pool_of
from tests.cluster.support.pages import Page, Visitor, visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.twins import places_elsewhere
from tests.cluster.support.webhook import KUEUE_QUEUE, asked, gate_queued

READER = "reader"
"""A user who looks at the form."""
_SHORT = "1h"
CPU_ONLY = "cpu-only"
"""A user; those with GPUs are called like their types."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Start a cluster that has only the nodes of a cloud."""
    name = f"test-{os.getpid()}-clouds"
    try:
        running = Cluster.up(name=name)
        with running.api_client() as api:
            clouds.without_real_node(running, api)
        yield running
    finally:  # also when Ctrl-C comes while the cluster starts
        Cluster.remove(name)


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[ApiClient]:
    with cluster.api_client() as connected:
        yield connected


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A hub that runs, and what must become of its servers.

    :param gate: plays the part of Kueue's webhook inside the block, where servers have to wait in a queue.
    :param add_nodes: plays the part of an autoscaler.
    """

    values: HelmValues
    cloud: Cloud
    visitor: Visitor
    servers: Servers
    gate: Callable[[], AbstractContextManager[None]]
    add_nodes: Callable[[], None]

    def form(self) -> Page:
        """Open the form."""
        return self.visitor.get("/hub/spawn")

    def outcome(self, page: Page, choice: Mapping[str, object]) -> str:
        """Return the form's verdict on a choice, over the form's own values."""
        filled = {**page.fields(), "gpu": "", **{key: str(value) for key, value in choice.items()}}
        if "run_time" in filled and "run_time" not in choice:
            filled["run_time"] = _SHORT  # the script keeps it within what a GPU type allows
        return str(self.visitor.get("/hub/spawn", choice=filled).island()["verdict"]["outcome"])

    def outcomes(self, page: Page) -> dict[str, str]:
        """Return what the form says of each type that is expected and offered."""
        return {
            slug: self.outcome(page, self._choice(page, slug)) for slug in self.cloud.types if slug in page.offered()
        }

    def presets(self) -> dict[str, dict[str, object]]:
        """Return what each preset of the values chooses."""
        chosen = ("image", "cpu", "memory", "gpu", "gpu_count", "run_time")
        presets = (self.values.settings.get("presets") or {}).items()
        return {slug: {key: entry[key] for key in chosen if key in entry} for slug, entry in presets if entry}

    def preset_outcomes(self, page: Page) -> dict[str, str]:
        """Return what the form says of each preset's choice."""
        images = page.preset_images()
        return {slug: self.outcome(page, {**choice, "image": images[slug]}) for slug, choice in self.presets().items()}

    def starts(self, gpu: str) -> str:
        """Return what the form should say of a server."""
        if gpu and "queue" in self.values.settings:
            return "unknown"  # whose turn it is, Kueue decides
        return "after-scale-up" if gpu and self.cloud.is_empty(gpu) else "now"

    def start_all(self) -> dict[str, str]:
        """Start a server of each type and one without a GPU, and return whose landed in which pool."""
        with self.gate():
            self._begin_all(self.form())
        if "queue" in self.values.settings:
            self._let_through(self.values.settings["queue"]["local_queue"])
        for slug in filter(self.cloud.is_empty, self.cloud.types):
            self.servers.pods.wait_unschedulable(slug)
        self.add_nodes()
        return {user: pool_of(self.servers.pods.wait_bound(user)) for user in self.places()}

    def places(self) -> dict[str, tuple[str, ...]]:
        """Return whose server may be in which pools."""
        return {**{slug: expected.pools for slug, expected in self.cloud.types.items()}, CPU_ONLY: self.cloud.cpu}

    def check_places(self) -> None:
        """Start servers, and check that they are on their nodes, have their GPUs, and could be on no other empty node.

        They are gone afterwards.
        """
        wanted = self.places()
        landed = self.start_all()
        assert landed == {user: pool if pool in wanted[user] else wanted[user] for user, pool in landed.items()}
        pods = self.servers.pods
        assert {slug: gpu_limits(pods.of(slug)) for slug in self.cloud.types} == {
            slug: {expected.resource: expected.count} for slug, expected in self.cloud.types.items()
        }
        assert places_elsewhere(pods, wanted) == {}

    def _begin_all(self, page: Page) -> None:
        for slug in self.cloud.types:
            self.servers.begin(slug, self._choice(page, slug))
        self.servers.begin(CPU_ONLY, self._choice(page, None))
        for user in (*self.cloud.types, CPU_ONLY):
            self.servers.pods.of(user)

    def _choice(self, page: Page, gpu: str | None) -> dict[str, object]:
        """Return what a user sends to have a server with a GPU type, or one without a GPU."""
        number = {} if gpu is None else {"gpu_count": self.cloud.types[gpu].count}
        return {"image": image_for(page, gpu), "gpu": gpu, **number}

    def _let_through(self, queue: str) -> None:
        """Check that servers with a GPU wait in a queue, and only these, and do as Kueue does at their turn."""
        pods = self.servers.pods
        assert pool_of(pods.wait_bound(CPU_ONLY)) in self.cloud.cpu
        waiting = {slug: pods.of(slug) for slug in self.cloud.types}
        assert {slug: (pod.metadata.labels.get(KUEUE_QUEUE), _reasons(pod)) for slug, pod in waiting.items()} == {
            slug: (queue, ["SchedulingGated"]) for slug in self.cloud.types
        }
        for pod in waiting.values():
            pods.core.patch_namespaced_pod(pod.metadata.name, pods.namespace, {"spec": {"schedulingGates": None}})


@contextmanager
def on_trial(
    cluster: Cluster, api: ApiClient, *, namespace: str, values: HelmValues, cloud: Cloud, folder: Path
) -> Iterator[Trial]:
    """Run a hub with these values on these nodes.

    :param folder: for the hub's database, and for keys of a webhook.
    """
    clouds.put_up(cluster, api, cloud.there)
    with Hub(cluster, _settings(namespace, values=values, cloud=cloud), run_dir=folder / "hub") as hub:
        visitor = visit(hub.url, READER)
        is_queued = "queue" in values.settings
        review = partial(asked, cluster, api, folder, namespace=namespace, review=gate_queued)
        yield Trial(
            values=values,
            cloud=cloud,
            visitor=visitor,
            servers=Servers(hub, Pods(api, namespace)),
            gate=review if is_queued else nullcontext,
            add_nodes=partial(clouds.put_up, cluster, api, (*cloud.there, *cloud.added)),
        )
    CoreV1Api(api).delete_collection_namespaced_pod(namespace, grace_period_seconds=0)


def _settings(namespace: str, *, values: HelmValues, cloud: Cloud) -> HubSettings:
    """Return the values as the chart would hand them on.

    All users are members of all groups that the values name, but not of those with ``deny``.
    """
    policy = get_chart_value(values.settings, "policy.groups") or {}
    known = {group for group, rule in policy.items() if not rule.get("deny")}
    known |= {group for pool in (values.settings.get("pools") or {}).values() for group in pool.get("groups", ())}
    known |= set(_allowed_groups(values.settings))
    all_users = [READER, CPU_ONLY, *cloud.types]
    return HubSettings(
        namespace=namespace,
        gpuspawner=values.settings,
        spawner_class=get_chart_value(values.merged, "hub.config.JupyterHub.spawner_class") or "gpuspawner.GPUSpawner",
        extra={
            "JupyterHub": {"load_groups": {group: {"users": all_users} for group in sorted(known)}},
            "KubeSpawner": build_spawner_config(values.merged, namespace=namespace)["KubeSpawner"],
        },
    )


def _allowed_groups(settings: object) -> Iterator[str]:
    """Return the groups that images, GPU types and presets are for."""
    if isinstance(settings, Mapping):
        yield from settings.get("allowed_groups", ())
        for value in settings.values():
            yield from _allowed_groups(value)


def image_for(page: Page, gpu: str | None) -> str:
    """Return an image of the form that can use a GPU type."""
    slugs = [str(image["slug"]) for image in page.island()["images"]]
    return next(slug for slug in slugs if gpu not in page.misfits(slug))


def gpu_limits(pod: V1Pod) -> dict[str, int]:
    """Return how many of which GPUs a server has."""
    limits = pod.spec.containers[0].resources.limits or {}
    return {name: int(amount) for name, amount in limits.items() if "/" in name}


def _reasons(pod: V1Pod) -> list[str]:
    return [each.reason for each in pod.status.conditions or [] if each.type == "PodScheduled"]
