"""Choices of several cards at once, choices that are gone the next time, and admins who choose for another user."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest
from kubernetes import client
from kubernetes.client import ApiClient, V1Pod
from playwright.async_api import Dialog, Page, expect

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from devcluster.simulated import Pool
from tests.browser.support.person import Person
from tests.cluster.support.fixtures import offer
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADMIN = "boss"
STARTED = (201, 202)
STOPPED = (202, 204)
AFTER_START = re.compile(r"/hub/spawn-pending/|/user/")
PRODUCT = "nvidia.com/gpu.product"
CLASSES = {"gpuspawner-normal": 100, "gpuspawner-low": -10}
GPUS = {
    "large": {"resource": "nvidia.com/gpu", "min_memory": "40G"},
    "cheap": {
        "display_name": "T4",
        "resource": "nvidia.com/gpu",
        "match": {PRODUCT: ["Tesla-T4"]},
        "max_count": 4,
        "spot": True,
    },
}
PRIORITIES = {
    "normal": {"display_name": "Normal", "class": "gpuspawner-normal", "value": 100},
    "low": {"display_name": "Low", "description": "Others come first.", "class": "gpuspawner-low", "value": -10},
}


SHARED = Pool(
    name="t4-shared",
    count=1,
    allocatable={"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "8"},
    labels={
        "nvidia.com/gpu.present": "true",
        PRODUCT: "Tesla-T4-SHARED",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/gpu.memory": "15360",
        "nvidia.com/mig.capable": "false",
    },
)


LEAVING = Pool(
    name="p100",
    count=1,
    allocatable={"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"},
    labels={
        **SHARED.labels,
        PRODUCT: "Tesla-P100-PCIE-16GB",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
    },
)
SITE = """{% extends "gpuspawner/form.html" %}{% block extra %}<p id="ours">Ask us.</p>{% endblock %}"""


@pytest.fixture(scope="module")
def kinds_hub(cluster: Cluster, api: ApiClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    templates = tmp_path_factory.mktemp("templates")
    (templates / "gpuspawner").mkdir()
    (templates / "gpuspawner" / "form.html").write_text(SITE)
    scheduling = client.SchedulingV1Api(api)
    for name, value in CLASSES.items():
        # Without preemption: it would end what keeps the simulated nodes full, for all tests that come after.
        body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
        scheduling.create_priority_class(body)
    settings = HubSettings(
        namespace="kinds",
        gpuspawner=offer(cluster, gpus=GPUS, priorities=PRIORITIES),
        admin_users=(ADMIN,),
        extra={"KubeSpawner": {"additional_profile_form_template_paths": [str(templates)]}},
    )
    core = client.CoreV1Api(api)
    nodes = list(SHARED.nodes())
    try:
        for node in nodes:
            core.create_node(node)
        with Hub(cluster, settings) as running:
            yield running
    finally:
        for node in nodes:
            core.delete_node(node["metadata"]["name"])
        for name in CLASSES:
            scheduling.delete_priority_class(name)


@pytest.fixture
def servers(api: ApiClient, kinds_hub: Hub) -> Servers:
    return Servers(kinds_hub, Pods(api, kinds_hub.settings.namespace))


@pytest.fixture
def chooser(page: Page, kinds_hub: Hub) -> Person:
    return Person(page, kinds_hub.url, "any password")


async def started(chooser: Person, servers: Servers, user: str) -> V1Pod:
    await chooser.start()
    # Whatever page comes: some of these servers only ever wait.
    await chooser.page.wait_for_url(AFTER_START)
    return servers.pods.of(user)


def products(pod: V1Pod) -> set[str]:
    """Return the models that a pod's required node affinity takes."""
    terms = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    return {value for term in terms for each in term.match_expressions if each.key == PRODUCT for value in each.values}


async def test_any_gpu_with_so_much_memory_is_one_choice_and_any_of_them_the_pods(
    chooser: Person, servers: Servers
) -> None:
    await chooser.log_in("ada")
    row = chooser.row("gpu", "large")
    await expect(row).to_contain_text("Any GPU with at least 40 GiB")
    await chooser.pick("gpu", "large")
    await expect(chooser.page.locator("#gpuspawner-sentence")).to_contain_text("1 × Any GPU with at least 40 GiB")
    try:
        pod = await started(chooser, servers, "ada")

        assert pod.spec.containers[0].resources.limits["nvidia.com/gpu"] == "1"
        found = products(pod)
        assert {"NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"} <= found
        assert found.isdisjoint({"Tesla-T4", "NVIDIA-L4", "Tesla-V100-SXM2-16GB"})
    finally:
        servers.stop("ada")


async def test_a_replica_of_a_shared_card_is_called_so_and_one_is_all_there_is_in_a_server(chooser: Person) -> None:
    await chooser.log_in("ada")
    row = chooser.row("gpu", "t4-shared")
    for words in ("T4 (shared)", "15 GiB", "One GPU for up to 4 servers at a time."):
        await expect(row).to_contain_text(words)
    await expect(row).not_to_contain_text("up to 8")

    await chooser.pick("gpu", "t4-shared")

    await expect(chooser.page.locator("#gpuspawner-gpu_count-help")).to_have_text("1 per server")
    await expect(chooser.page.locator("#gpuspawner-gpu_count-help")).to_have_text("1 per server")


async def test_a_spot_type_says_what_that_means(chooser: Person) -> None:
    await chooser.log_in("ada")

    await expect(chooser.row("gpu", "cheap")).to_contain_text("spot")
    await expect(chooser.row("gpu", "cheap")).to_contain_text("a cheaper node that the cloud can take back at any time")


async def test_a_priority_is_in_the_sentence_in_the_pod_and_there_the_next_time(
    chooser: Person, servers: Servers
) -> None:
    await chooser.log_in("patient")
    await chooser.page.locator("#gpuspawner-more > summary").click()
    await chooser.pick("priority", "low")
    await expect(chooser.page.locator("#gpuspawner-sentence")).to_contain_text(" · priority Low")
    try:
        pod = await started(chooser, servers, "patient")
        assert (pod.spec.priority_class_name, pod.spec.priority) == ("gpuspawner-low", -10)
    finally:
        servers.stop("patient")

    await chooser.page.goto(f"{chooser.url}/hub/spawn")
    await expect(chooser.choice("priority", "low")).to_be_checked()
    await expect(chooser.page.locator("#gpuspawner-more")).to_have_attribute("open", "")


async def test_an_admin_chooses_for_another_user(chooser: Person, servers: Servers) -> None:
    servers.hub.client.create_user("grace")
    await chooser.log_in(ADMIN)
    await chooser.page.goto(f"{chooser.url}/hub/spawn/grace")
    await chooser.customise()
    await chooser.pick("gpu", "cheap")
    await chooser.field("gpu_count").fill("2")
    try:
        pod = await started(chooser, servers, "grace")
        assert pod.spec.containers[0].resources.limits["nvidia.com/gpu"] == "2"
        assert servers.pods.find(ADMIN) is None
    finally:
        servers.stop("grace")


async def test_a_link_from_there_is_for_the_user_who_opens_it(chooser: Person, servers: Servers) -> None:
    servers.hub.client.create_user("grace")
    shown: list[str] = []

    async def note(dialog: Dialog) -> None:
        shown.append(dialog.default_value)
        await dialog.dismiss()

    chooser.page.on("dialog", note)
    await chooser.page.add_init_script("delete Navigator.prototype.clipboard")
    await chooser.log_in(ADMIN)
    await chooser.page.goto(f"{chooser.url}/hub/spawn/grace")
    await chooser.customise()
    await chooser.unfold()
    await chooser.page.get_by_role("button", name="Copy link").click()

    assert [link.partition("?")[0] for link in shown] == [f"{chooser.url}/hub/spawn"]


async def test_a_named_server_gets_what_was_chosen_for_it(chooser: Person, servers: Servers) -> None:
    hub_client = servers.hub.client
    await chooser.log_in("twice")
    await chooser.page.goto(f"{chooser.url}/hub/spawn/twice/second")
    await chooser.customise()
    await chooser.field("memory").fill("2")
    try:
        pod = await started(chooser, servers, "twice")
        assert pod.metadata.annotations["hub.jupyter.org/servername"] == "second"
        assert pod.spec.containers[0].resources.limits["memory"] == str(2 << 30)
    finally:
        wait_for(lambda: hub_client.stop_server("twice", name="second").status in STOPPED, "the second server to stop")
        servers.pods.wait_gone("twice")


async def test_a_choice_that_is_gone_is_reported_at_its_field_and_the_others_are_there(
    chooser: Person, servers: Servers, api: ApiClient
) -> None:
    core = client.CoreV1Api(api)
    (node,) = LEAVING.nodes()
    core.create_node(node)
    try:
        await chooser.log_in("loyal")
        wait_for(lambda: servers.ask("loyal", {"gpu": "p100-16gb", "memory": "2G"}).status in STARTED, "a P100")
        servers.stop("loyal")
    finally:
        core.delete_node(node["metadata"]["name"])

    notice = chooser.page.locator("#gpuspawner-gpu-notice")
    async with asyncio.timeout(30):
        while not await notice.count():
            await chooser.page.goto(f"{chooser.url}/hub/spawn")

    told = "The GPU type you had last time (p100-16gb) is no longer offered: no GPU is selected."
    await expect(notice).to_have_text(told)
    await expect(chooser.choice("gpu", "")).to_be_checked()
    await expect(chooser.field("memory")).to_have_value("2")


async def test_a_site_adds_its_own_words_to_the_form(chooser: Person) -> None:
    await chooser.log_in("ada")

    await expect(chooser.page.locator("#ours")).to_have_text("Ask us.")
    await expect(chooser.row("gpu", "cheap")).to_contain_text("T4")
