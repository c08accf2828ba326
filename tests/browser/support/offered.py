"""A form with 24 GPU types and 20 images from a small site of the tests, with verdicts as a test wants them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Locator, Page, expect

from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image, Preset
from gpuspawner.core.catalog.policy_model import Access, Policy
from gpuspawner.core.catalog.policy_model import Person as User
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.errors import Problem
from gpuspawner.core.form.build import LiveState, build_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.wording import list_facts
from gpuspawner.core.policy.allowance import resolve_allowance
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.request.selection import validate
from gpuspawner.core.text.i18n import ENGLISH, use_language
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.hub.form.rendering import render
from gpuspawner.hub.request.languages import load_languages
from tests.browser.support.site import PAGE, STYLE, answer_posts

# Bootstrap scrolls pages smoothly unless motion is reduced: boxes are measured once they have arrived.
STILL = {"reduced_motion": "reduce"}
WIDE = pytest.mark.window(viewport={"width": 1280, "height": 720}, **STILL)
FINGER_PX = 44
GIB = 1 << 30
PRODUCT = "nvidia.com/gpu.product"
TYPES = {
    f"gpu-{number}": GPUType(
        slug=f"gpu-{number}",
        display_name=f"GPU {number}",
        resource=f"{'amd' if number > 18 else 'nvidia'}.com/gpu",
        vendor="amd" if number > 18 else "nvidia",
        match={PRODUCT: (str(number),)},
        max_count=8,
        memory_bytes=(16 + number) * GIB,
        new_nodes=False,
    )
    for number in range(1, 25)
}
IMAGES = {
    "no-gpu": Image(slug="no-gpu", display_name="Without GPU tools", image="i", description="For a look.", vendors=()),
    **{
        f"image-{number}": Image(
            slug=f"image-{number}", display_name=f"Image {number}", image="i", description="Python and libraries."
        )
        for number in range(1, 20)
    },
}
PRESETS = {
    each.slug: each
    for each in (
        Preset(slug="staff", display_name="Staff", options={"cpu": 8}),
        Preset(slug="look", display_name="Look around", options={"image": "no-gpu", "cpu": 1, "memory": "1G"}),
        Preset(slug="one", display_name="One GPU", options={"image": "image-1", "gpu": "gpu-2", "cpu": 4}),
        Preset(slug="many", display_name="Many GPUs", options={"image": "image-1", "gpu": "gpu-2", "gpu_count": 8}),
    )
}
CATALOG = Catalog(
    images=IMAGES,
    cpu=Bounds(min=500, max=96_000, step=500, default=2000),
    memory=Bounds(min=GIB, max=1000 * GIB, step=GIB, default=8 * GIB),
    gpus=TYPES,
    run_time=Bounds(min=900, max=86_400, step=900, default=8 * 3600),
    shared_memory=Bounds(min=GIB, max=64 * GIB, step=GIB, default=GIB),
)
WITH_PRESETS = replace(
    CATALOG, presets=PRESETS, policy=Policy(access={("preset", "staff"): Access(users=frozenset({"bob"}))})
)
# 95 of 100 CPUs and 950 of 1000 GiB are shared by 8 GPUs.
NODES = [
    Node(name=slug, labels={PRODUCT: slug.removeprefix("gpu-")}, allocatable=amounts, capacity=amounts)
    for slug, gpu in TYPES.items()
    for amounts in [{"cpu": 100_000, "memory": 1000 * GIB, "pods": 100, gpu.resource: 8}]
]
EARLIER = {"v": 1, "image": "image-1", "gpu": "gpu-2", "gpu_count": 2, "cpu": 4, "memory": "8G"}


@dataclass
class Site:
    """Answers as the hub does, with the verdict that the test wants."""

    catalog: Catalog = CATALOG
    nodes: list[Node] = field(default_factory=lambda: NODES)
    options: dict[str, Any] | None = None
    link: dict[str, str] | None = None
    asks: bool = False
    problems: tuple[Problem, ...] = ()
    outcome: Outcome = Outcome.NOW
    reason: str = ""
    language: str = "en"
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        with use_language(ENGLISH if self.language == "en" else load_languages()[self.language]):
            return web.Response(text=self.form(), content_type="text/html")

    def form(self) -> str:
        allowance = resolve_allowance(self.catalog, User(name="ada"), usage=Usage())
        filled = fill_fields(
            self.catalog, options=self.options, typed=self.link, is_link=self.link is not None, allowance=allowance
        )
        waits = self.outcome is not Outcome.NOW
        live = LiveState(
            verdict=Verdict(outcome=self.outcome, reason=self.reason),
            alternatives=(validate({"gpu": "gpu-5", "image": "image-1"}, CATALOG),) if waits else (),
            presets={
                "look": Verdict(outcome=Outcome.NOW, places=3),
                "one": Verdict(outcome=Outcome.AFTER_SCALE_UP),
                "many": Verdict(outcome=Outcome.NEVER),
            },
        )
        inventory = Inventory(occupancy=Occupancy.build(self.nodes, ()), age_s=0.0)
        view = build_view(
            self.catalog, inventory, filled=filled, problems=self.problems, live=live, allowance=allowance
        )
        if self.asks and filled.selection is not None:
            view = replace(view, asked="", facts=list_facts(filled.selection, allowance))
        return PAGE.format(STYLE, render(view))


@dataclass
class Form:
    """The form in a browser window, and what the window has sent."""

    page: Page
    site: Site
    sent: list[dict[str, list[str]]] = field(default_factory=list)

    async def open(self, size: tuple[int, int] | None = None) -> None:
        if size is not None:
            await self.page.set_viewport_size({"width": size[0], "height": size[1]})
        await answer_posts(self.page, self.sent)
        await self.page.goto(self.site.url)
        await expect(self.start).to_be_visible()

    def part(self, name: str) -> Locator:
        return self.page.locator(f"#gpuspawner-{name}")

    @property
    def start(self) -> Locator:
        return self.page.locator(".feedback-container button")

    @property
    def bar(self) -> Locator:
        return self.part("summary")

    def radio(self, name: str, value: str) -> Locator:
        return self.page.locator(f"input[name={name}][value='{value}']")

    async def box(self, found: Locator) -> dict[str, float]:
        box = await found.bounding_box()
        assert box is not None
        return {"top": box["y"], "bottom": box["y"] + box["height"], "height": box["height"], "width": box["width"]}
