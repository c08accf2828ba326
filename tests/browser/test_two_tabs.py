"""Whatever a person does in two tabs, neither shows an error page of the hub's, and neither loses the choice.

The sequences are drawn with a seed each, so that one that failed can be run again by its name.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Error, Page, Response

from devcluster.hub import Hub
from tests.browser.support.quick_hub import end_server, sign_in, sign_out

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEQUENCES = 60
# Of so many sequences one has a restart of the hub, which takes a few seconds.
RESTARTED = 8
IN_A_TAB = ("start", "start", "back", "reload")
ELSEWHERE = ("stop", "sign out", "expire", "sign in", "wait")
PATIENCE_S = 15
LOOK_S = 0.05

COME_BACK = "document.dispatchEvent(new Event('visibilitychange'))"
# Until Start is disabled, which is how a look knows that the form is being sent.
PRESS_START = """() => new Promise((resolve) => {
  document.querySelector("#gpuspawner-summary .feedback-container button").click();
  setTimeout(resolve, 1);
})"""
# In one tab the server waits, in the other it runs at once.
CHOICES = (
    {"image": "plain", "cpu": "2", "memory": "3", "gpu": "", "run_time": "2h"},
    {"image": "lab", "cpu": "1", "memory": "2", "gpu": "a100-40gb", "gpu_count": "2", "run_time": "3h"},
)
# As a person does, but all at once: what is typed and picked elsewhere is tested elsewhere.
CHOOSE = """(choice) => {
  for (const [name, value] of Object.entries(choice)) {
    const fields = [...document.querySelectorAll(`#gpuspawner-form input[name=${name}]`)];
    const field = fields.find((each) => each.type !== "radio" || each.value === value);
    if (field.type === "radio") field.checked = true;
    else field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}"""
# The state of a tab in one look: a page that is just being left has none of it, and one that is still loading not all.
LOOK = """() => {
  const has = (selector) => Boolean(document.querySelector(selector));
  const form = document.getElementById("gpuspawner-form");
  const fields = [...(form?.querySelectorAll("input[name]") ?? [])].filter(({ disabled }) => !disabled);
  const picked = fields.filter(({ type, checked }) => type !== "hidden" && (type !== "radio" || checked));
  const start = form?.querySelector("#gpuspawner-summary .feedback-container button");
  return {
    title: document.title,
    is_blank: location.href === "about:blank",
    is_error: has(".error > h1"),
    is_form: Boolean(form),
    is_login: has("input[name=password]"),
    is_about_a_server: /\\/(spawn-pending|user)\\//.test(location.pathname),
    can_be_started_again: has("a[href*='/hub/spawn/']"),
    values: Object.fromEntries(picked.map(({ name, value }) => [name, value])),
    said: document.querySelector(".gs-session")?.textContent ?? "",
    is_ready: Boolean(start) && !start.disabled && start.getAttribute("aria-disabled") !== "true",
    is_sending: Boolean(start?.disabled) || document.readyState !== "complete",
  };
}"""


def draw(seed: int) -> tuple[str, ...]:
    """Return a sequence of 4 to 8 steps: what a person does in one of two tabs, or elsewhere."""
    chance = random.Random(seed)
    steps = [f"{chance.choice('ab')} {chance.choice(IN_A_TAB)}" for _ in range(chance.randint(2, 4))]
    steps += [chance.choice(ELSEWHERE) for _ in range(chance.randint(2, 4))]
    if seed % RESTARTED == 0:
        steps[-1] = "restart"
    chance.shuffle(steps)
    return tuple(steps)


DRAWN = [
    pytest.param(seed, draw(seed), id=f"{seed}: {', '.join(draw(seed))}".replace(" ", "-").replace(",", ""))
    for seed in range(1, SEQUENCES + 1)
]


@dataclass(slots=True)
class Tab:
    """One tab, the choice that was made in it, and the status of the page that it shows."""

    page: Page
    choice: Mapping[str, str]
    status: int = 200

    def note(self, response: Response) -> None:
        if response.request.is_navigation_request() and response.frame == self.page.main_frame:
            self.status = response.status

    async def look(self) -> dict[str, Any]:
        """Return what the tab shows, once it shows a page that is not about to be left."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    seen: dict[str, Any] = await self.page.evaluate(LOOK)
                except Error:  # the page was left meanwhile
                    seen = {"is_sending": True}
                if not seen["is_sending"] and (seen["is_form"] or seen["is_login"] or seen["is_about_a_server"]):
                    return seen
                if not seen["is_sending"] and (seen["is_blank"] or seen["is_error"]):
                    return seen
                await asyncio.sleep(LOOK_S)

    async def check(self) -> None:
        """Fail where the tab shows an error page of the hub's, or a form without the choice."""
        seen = await self.look()
        assert not seen["is_error"], f"an error page: {await self.page.locator('.error').inner_text()}"
        if seen["is_form"]:
            # A form says all it has: fields of what is not picked stay out of it.
            assert {name: seen["values"].get(name) for name in self.choice} == dict(self.choice)
        # JupyterHub says with the status of its page that a server has ended, or that a name or password was wrong.
        may_fail = seen["is_login"] or (seen["is_about_a_server"] and seen["can_be_started_again"])
        assert self.status < HTTPStatus.BAD_REQUEST or may_fail


@dataclass(slots=True)
class Play:
    """Two tabs of one person, and what happens in them and elsewhere."""

    hub: Hub
    user: str
    context: BrowserContext
    tabs: Mapping[str, Tab]

    async def do(self, step: str) -> None:
        """Do one step, and wait until what it leads to is there."""
        name, _, what = step.partition(" ")
        if name in self.tabs and what:
            await getattr(self, f"_{what}")(self.tabs[name])
        else:
            await getattr(self, f"_{step.replace(' ', '_')}")()

    async def check(self) -> None:
        for tab in self.tabs.values():
            await tab.check()

    async def _start(self, tab: Tab) -> None:
        """Do what the page is there for: press Start or follow the banner, sign in, open the form again."""
        seen = await tab.look()
        if seen["is_form"] and seen["is_ready"]:
            # At once: the form may notice meanwhile that it cannot be sent.
            await tab.page.evaluate(PRESS_START)
        elif seen["is_form"] and "Sign in" in seen["said"]:
            async with tab.page.expect_navigation():
                await tab.page.evaluate("document.querySelector('.gs-session a').click()")
            # Where the other tab has signed in meanwhile, the link leads to the form.
            if (await tab.look())["is_login"]:
                await self._sign_in_there(tab)
        elif seen["is_login"]:
            await self._sign_in_there(tab)
        elif seen["can_be_started_again"]:
            await tab.page.locator("a[href*='/hub/spawn/']").first.click()
            await self._take_over(tab)

    async def _sign_in_there(self, tab: Tab) -> None:
        await tab.page.fill("input[name=username]", self.user)
        await tab.page.fill("input[name=password]", "any password")
        await tab.page.locator("input[type=submit], button[type=submit]").first.click()
        await tab.look()

    async def _take_over(self, tab: Tab) -> None:
        """A new form has the choice of the last start, but where there is one that was not sent."""
        seen = await tab.look()
        found = [each for each in CHOICES if each["memory"] == seen["values"].get("memory")]
        assert not seen["is_form"] or found, seen["values"]
        if found:
            tab.choice = found[0]

    async def _back(self, tab: Tab) -> None:
        await tab.page.evaluate("setTimeout(() => history.back())")
        await asyncio.sleep(4 * LOOK_S)
        if (await tab.look())["is_blank"]:
            await tab.page.evaluate("setTimeout(() => history.forward())")
            await asyncio.sleep(4 * LOOK_S)

    async def _reload(self, tab: Tab) -> None:
        await tab.page.reload()

    async def _stop(self) -> None:
        await asyncio.to_thread(end_server, self.hub, self.user)

    async def _restart(self) -> None:
        await asyncio.to_thread(self.hub.restart)

    async def _sign_out(self) -> None:
        await sign_out(self.context, self.hub.url)

    async def _sign_in(self) -> None:
        await sign_in(self.context, self.hub.url, self.user)

    async def _expire(self) -> None:
        await self.context.clear_cookies()

    async def _wait(self) -> None:
        """Let both tabs ask the hub, and compare what forms say with what is so."""
        is_signed_in = "jupyterhub-session-id" in {each["name"] for each in await self.context.cookies()}
        server = self.hub.client.servers(self.user).get("", {})
        if not is_signed_in:
            expected = "signed out"
        else:
            expected = "running" if server.get("ready") else "starting" if server.get("pending") else ""
        for tab in self.tabs.values():
            seen = await tab.look()
            if not seen["is_form"]:
                continue
            await tab.page.evaluate(COME_BACK)
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    seen = await tab.look()
                    if not seen["is_form"] or (expected in seen["said"] and seen["is_ready"] == (not expected)):
                        break
                    await asyncio.sleep(LOOK_S)


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context()
    made.set_default_timeout(PATIENCE_S * 1000)
    yield made
    await made.close()


async def open_form(context: BrowserContext, url: str, choice: Mapping[str, str]) -> Tab:
    """Open the form in a tab and make a choice there."""
    tab = Tab(await context.new_page(), choice)
    tab.page.on("response", lambda response: tab.note(response))  # noqa: PLW0108 - it has no room for attributes
    await tab.page.goto(f"{url}/hub/spawn", wait_until="domcontentloaded")
    await tab.page.evaluate(CHOOSE, dict(choice))
    return tab


@pytest.mark.parametrize(("seed", "steps"), DRAWN)
async def test_no_step_leads_to_an_error_page_or_loses_the_choice(
    quick_hub: Hub, context: BrowserContext, seed: int, steps: tuple[str, ...]
):
    user = f"tabs-{seed}"
    quick_hub.client.create_user(user)
    await sign_in(context, quick_hub.url, user)
    tabs = {name: await open_form(context, quick_hub.url, choice) for name, choice in zip("ab", CHOICES, strict=True)}
    play = Play(quick_hub, user, context, tabs)
    try:
        for number, step in enumerate(steps, 1):
            try:
                await play.do(step)
                await play.check()
            except (AssertionError, TimeoutError, Error) as error:
                shown = {name: (each.page.url, each.status) for name, each in tabs.items()}
                raise AssertionError(f"seed {seed}, step {number} of {steps}: {error!r}; tabs: {shown}") from error
    finally:
        await asyncio.to_thread(end_server, quick_hub, user)


async def test_all_kinds_of_steps_are_drawn():
    done = {step.split(" ", 1)[-1] if step[:2] in {"a ", "b "} else step for each in DRAWN for step in each.values[1]}
    assert done == {*IN_A_TAB, *ELSEWHERE, "restart"}
