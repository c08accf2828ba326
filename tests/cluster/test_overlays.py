"""Each overlay in ``helm-values`` on a cluster like the one it is for: what is offered starts, and where it should.

The nodes are simulated, with labels and taints as clouds, operators and device plugins set them; the scheduler is real.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import pytest
from kubernetes.client import ApiClient, CoreV1Api, V1Pod

from devcluster import Cluster
from devcluster.hub import CHECKOUT, Hub
from devcluster.hub_config import HubSettings
from gpuspawner.cli.chart import at, spawner_config
from gpuspawner.cli.values import Values, load
from tests.cluster.support import cloud as clouds
from tests.cluster.support.cloud import Cloud, pool_of
from tests.cluster.support.pages import Page, Visitor
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.twins import places_elsewhere
from tests.cluster.support.webhook import KUEUE_QUEUE, asked, gate_queued

FOLDER = CHECKOUT / "helm-values"
BASE = "gpuspawner"
NO_OVERLAYS = {BASE, "rbac", "without-an-image"}
OVERLAYS = sorted({path.stem for path in FOLDER.glob("*.yaml")} - NO_OVERLAYS)
READER = "reader"
"""A user in every group that an overlay knows."""
CPU_ONLY = "cpu-only"
"""A user; those with GPUs are called like their types."""
Gate = Callable[[], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Start a cluster that has only the nodes of a cloud."""
    running = Cluster.up(name=f"test-{os.getpid()}-overlays")
    with running.api_client() as api:
        clouds.without_real_node(running, api)
    yield running
    running.down()


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[ApiClient]:
    with cluster.api_client() as connected:
        yield connected


@pytest.fixture(scope="module", params=[BASE, *OVERLAYS])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def values(name: str) -> Values:
    """Merge an overlay over the base, as ``helm upgrade -f gpuspawner.yaml -f NAME.yaml`` does."""
    files = dict.fromkeys((BASE, name))
    return load([str(FOLDER / f"{file}.yaml") for file in files])


@pytest.fixture(scope="module")
def cloud(cluster: Cluster, api: ApiClient, name: str) -> Cloud:
    found = clouds.load(name)
    clouds.put_up(cluster, api, found.there)
    return found


@pytest.fixture(scope="module")
def hub(cluster: Cluster, api: ApiClient, name: str, cloud: Cloud, values: Values) -> Iterator[Hub]:
    namespace = f"overlay-{name}"
    groups = {group: {"users": [READER]} for group in at(values.settings, "policy.groups") or {}}
    settings = HubSettings(
        namespace=namespace,
        gpuspawner=values.settings,
        spawner_class=at(values.merged, "hub.config.JupyterHub.spawner_class"),
        extra={
            "JupyterHub": {"load_groups": groups},
            "KubeSpawner": spawner_config(values.merged, namespace=namespace)["KubeSpawner"],
        },
    )
    with Hub(cluster, settings) as running:
        yield running
    CoreV1Api(api).delete_collection_namespaced_pod(namespace, grace_period_seconds=0)


@pytest.fixture(scope="module")
def servers(api: ApiClient, hub: Hub) -> Servers:
    return Servers(hub, Pods(api, hub.settings.namespace))


@pytest.fixture(scope="module")
def gate(cluster: Cluster, api: ApiClient, hub: Hub, values: Values, tmp_path_factory: pytest.TempPathFactory) -> Gate:
    """Play the part of Kueue's webhook, where an overlay has servers wait in a queue."""
    if "queue" not in values.settings:
        return nullcontext
    folder = tmp_path_factory.mktemp("webhook")
    return partial(asked, cluster, api, folder, namespace=hub.settings.namespace, review=gate_queued)


@pytest.fixture(scope="module")
def add_nodes(cluster: Cluster, api: ApiClient, cloud: Cloud) -> Callable[[], None]:
    """Play the part of an autoscaler."""
    return partial(clouds.put_up, cluster, api, (*cloud.there, *cloud.added))


@pytest.fixture(scope="module")
def visitor(hub: Hub) -> Visitor:
    visitor = Visitor(hub.url)
    visitor.log_in(READER)
    return visitor


def image_for(page: Page, gpu: str | None) -> str:
    """Return an image of the form that can use a GPU type."""
    slugs = [str(row[0]) for row in page.island()["images"]["rows"]]
    return next(slug for slug in slugs if gpu not in page.misfits(slug))


def begin_all(servers: Servers, cloud: Cloud, page: Page) -> None:
    """Ask for one server of each type and one without a GPU, and wait until each has a pod."""
    for slug, expected in cloud.types.items():
        servers.begin(slug, {"image": image_for(page, slug), "gpu": slug, "gpu_count": expected.count})
    servers.begin(CPU_ONLY, {"image": image_for(page, None), "gpu": None})
    for user in (*cloud.types, CPU_ONLY):
        servers.pods.of(user)


def outcome(visitor: Visitor, page: Page, choice: Mapping[str, object]) -> str:
    """Return what the form says becomes of a choice, over what it stands at."""
    filled = {**page.fields(), "gpu": "", **{key: str(value) for key, value in choice.items()}}
    return str(visitor.get("/hub/spawn", choice=filled).island()["verdict"]["outcome"])


def starts(cloud: Cloud, gpu: str, values: Values) -> str:
    """Return what the form should say of a server."""
    if gpu and "queue" in values.settings:
        return "unknown"  # whose turn it is, Kueue decides
    return "after-scale-up" if gpu and cloud.is_empty(gpu) else "now"


def gpu_limits(pod: V1Pod) -> dict[str, int]:
    limits = pod.spec.containers[0].resources.limits
    return {name: int(amount) for name, amount in limits.items() if "/" in name}


def reasons(pod: V1Pod) -> list[str]:
    return [each.reason for each in pod.status.conditions or [] if each.type == "PodScheduled"]


def let_through(pods: Pods, cloud: Cloud, queue: str) -> None:
    """Check that servers with a GPU wait in a queue, and only these, and do as Kueue does when it is their turn."""
    assert pool_of(pods.wait_bound(CPU_ONLY)) in cloud.cpu
    waiting = {slug: pods.of(slug) for slug in cloud.types}
    assert {slug: (pod.metadata.labels.get(KUEUE_QUEUE), reasons(pod)) for slug, pod in waiting.items()} == {
        slug: (queue, ["SchedulingGated"]) for slug in cloud.types
    }
    for pod in waiting.values():
        pods.core.patch_namespaced_pod(pod.metadata.name, pods.namespace, {"spec": {"schedulingGates": None}})


def test_the_form_offers_the_types_and_says_when_they_start(values: Values, cloud: Cloud, visitor: Visitor) -> None:
    page = visitor.get("/hub/spawn")
    named = {slug for slug, entry in values.settings.get("gpus", {}).items() if entry.get("enabled", True)}

    said = {}
    for slug in page.offered():
        count = cloud.types[slug].count if slug in cloud.types else 1
        said[slug] = outcome(visitor, page, {"image": image_for(page, slug), "gpu": slug, "gpu_count": count})

    assert said == {slug: starts(cloud, slug, values) for slug in cloud.types}
    assert named <= set(said)


def test_every_preset_can_start(values: Values, cloud: Cloud, visitor: Visitor) -> None:
    page = visitor.get("/hub/spawn")
    chosen = ("image", "cpu", "memory", "gpu", "gpu_count", "run_time")
    presets = {
        slug: {key: entry[key] for key in chosen if key in entry}
        for slug, entry in values.settings.get("presets", {}).items()
    }

    said = {slug: outcome(visitor, page, choice) for slug, choice in presets.items()}

    assert said == {slug: starts(cloud, str(choice.get("gpu", "")), values) for slug, choice in presets.items()}


def test_a_server_of_each_type_lands_on_its_nodes_and_can_on_no_others(
    values: Values, cloud: Cloud, servers: Servers, visitor: Visitor, gate: Gate, add_nodes: Callable[[], None]
) -> None:
    pods = servers.pods
    with gate():
        begin_all(servers, cloud, visitor.get("/hub/spawn"))
    if "queue" in values.settings:
        let_through(pods, cloud, values.settings["queue"]["local_queue"])
    for slug in filter(cloud.is_empty, cloud.types):
        pods.wait_unschedulable(slug)
    add_nodes()

    wanted = {**{slug: expected.pools for slug, expected in cloud.types.items()}, CPU_ONLY: cloud.cpu}
    landed = {user: pool_of(pods.wait_bound(user)) for user in wanted}
    assert landed == {user: pool if pool in wanted[user] else wanted[user] for user, pool in landed.items()}
    assert {slug: gpu_limits(pods.of(slug)) for slug in cloud.types} == {
        slug: {expected.resource: expected.count} for slug, expected in cloud.types.items()
    }
    assert places_elsewhere(pods, wanted) == {}
