"""Image meets GPU: an image that cannot use the picked GPU is dimmed with its reason; no image closes a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.async_api import Page, expect

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.browser.support.person import Person
from tests.cluster.support.fixtures import offer

pytestmark = pytest.mark.asyncio(loop_scope="session")

CUDA13 = "quay.io/acme/cuda:13"
OLD = "CUDA 13.0 needs driver 580 or newer; these nodes have 570."


@pytest.fixture(scope="module")
def images_hub(cluster: Cluster) -> Iterator[Hub]:
    settings = offer(cluster, custom_images={"allowed": True})
    settings["images"]["cuda13"]["image"] = CUDA13
    with Hub(cluster, HubSettings(namespace="images", gpuspawner=settings)) as running:
        yield running


@pytest.fixture
def chooser(page: Page, images_hub: Hub) -> Person:
    return Person(page, images_hub.url, "any password")


async def test_picking_an_image_says_nothing_at_the_types_which_come_before_it(chooser: Person) -> None:
    await chooser.log_in("ada")
    await chooser.pick("gpu", "h100-80gb")

    await chooser.pick("image", "cuda13")

    row = chooser.row("gpu", "v100-16gb")
    await expect(row).not_to_contain_text(OLD)
    await expect(chooser.choice("gpu", "v100-16gb")).to_be_enabled()


async def test_picking_a_type_says_which_images_cannot_use_it(chooser: Person) -> None:
    await chooser.log_in("ada")

    await chooser.pick("gpu", "t4")

    await expect(chooser.row("image", "cuda13").locator(".gs-reason")).to_have_text(f"Can't be used with T4. {OLD}")
    await expect(chooser.row("image", "lab").locator(".gs-reason")).to_be_hidden()


async def test_both_stay_pickable_and_the_summary_says_what_is_wrong(chooser: Person) -> None:
    await chooser.log_in("ada")
    await chooser.pick("image", "cuda13")
    await chooser.pick("gpu", "t4")

    await expect(chooser.page.locator("#gpuspawner-sentence")).to_have_text(
        "This image and this GPU can't be used together."
    )
    await expect(chooser.page.locator("#gpuspawner-hint")).to_have_text(OLD)
    await expect(chooser.page.locator("#gpuspawner-verdict-text")).to_have_text(
        "This image and this GPU can't be used together."
    )
    await expect(chooser.row("image", "cuda13").locator(".gs-reason")).to_have_text(f"Can't be used with T4. {OLD}")


@pytest.mark.window(java_script_enabled=False)
async def test_without_javascript_the_refusal_says_the_same_at_the_field(chooser: Person) -> None:
    await chooser.log_in("ada")
    await chooser.pick("image", "cuda13")
    await chooser.pick("gpu", "t4")

    await chooser.start()

    await expect(chooser.page.locator("#gpuspawner-gpu-error")).to_contain_text(OLD)
    await expect(chooser.choice("image", "cuda13")).to_be_checked()


async def test_the_reference_of_a_listed_image_gets_what_the_listed_image_gets(chooser: Person) -> None:
    await chooser.log_in("ada")
    await chooser.pick("gpu", "t4")
    await chooser.pick("image", "")

    await chooser.field("custom_image").fill(CUDA13)

    await expect(chooser.page.locator("#gpuspawner-hint")).to_have_text(OLD)
    await expect(chooser.page.locator("#gpuspawner-verdict-text")).to_have_text(
        "This image and this GPU can't be used together."
    )

    await chooser.field("custom_image").fill("quay.io/acme/cuda:12")
    await expect(chooser.page.locator("#gpuspawner-hint")).to_be_hidden()
    await expect(chooser.page.locator("#gpuspawner-sentence")).to_contain_text("quay.io/acme/cuda:12 ·")


async def test_a_link_to_the_reference_of_a_listed_image_promises_no_start(chooser: Person) -> None:
    await chooser.log_in("ada")

    await chooser.page.goto(f"{chooser.url}/hub/spawn?opt-gpu=t4&opt-custom_image={CUDA13}")

    await expect(chooser.page.locator("#gpuspawner-gpu-error")).to_contain_text(OLD)
    await expect(chooser.page.locator("#gpuspawner-verdict-text")).to_have_text(
        "This image and this GPU can't be used together."
    )
