// A user's servers on JupyterHub's home page: local times, and the button that stops a server and opens the form.

const TICK_MS = 20_000;
const POLL_MS = 1_000;
const MINUTE_MS = 60_000;
// How many times in a row the hub may not answer before the page says so.
const MISSES = 5;
// How long a server may take to show that it stops; after that, the hub is asked ever less often.
const SETTLE_MS = 5_000;
const SLOWEST_MS = 15_000;
// What JupyterHub's pending kinds mean for users: after its restart it checks what runs, and it renames what is stopped.
const STATES = { spawn: "starting", stop: "stopping", check: "running", rename: "stopped" };
const CHANGING = "[data-state=starting], [data-state=stopping]";

const section = document.getElementById("gpuspawner-servers");
// The page's language as the browser's region writes it: British times in a page in English, for example.
const language = [section.lang, navigator.language].findLast((tag) => tag.split("-")[0] === section.lang.split("-")[0]);

/** The time that is left as the hub writes it; at least a minute. */
function timeLeft(ms) {
  const minutes = Math.floor(ms / MINUTE_MS);
  const hours = Math.floor(minutes / 60);
  if (!hours) return t("{minutes} min", { minutes });
  if (hours < 48) return t("{hours} h {minutes} min", { hours, minutes: minutes % 60 });
  return t("{days} d {hours} h", { days: Math.floor(hours / 24), hours: hours % 24 });
}

/** The end of a server's run time, in the browser's time zone. */
function sentenceOf(end, now) {
  const ms = end - now;
  if (ms <= 0) return t("Its time is over, so it ends now.");
  if (ms < MINUTE_MS) return t("Ends in less than a minute.");
  const time = end.toLocaleTimeString(language, { timeStyle: "short" });
  if (end.toDateString() === now.toDateString()) return t("Ends at {time}, in {left}", { time, left: timeLeft(ms) });
  const date = end.toLocaleDateString(language, { weekday: "short", day: "numeric", month: "short" });
  return t("Ends on {date} at {time}, in {left}", { date, time, left: timeLeft(ms) });
}

function showTimes() {
  for (const element of section.querySelectorAll("time")) {
    const text = sentenceOf(new Date(element.dateTime), new Date());
    if (element.textContent !== text) element.textContent = text;
  }
}

/** A request to the hub's REST API, as JupyterHub's own scripts make it. */
function ask(url, method) {
  const query = new URLSearchParams({ _xsrf: window.jhdata?.xsrf_token ?? "" });
  return fetch(`${url}?${query}`, { method, credentials: "same-origin", cache: "no-store" });
}

/** What the hub says of the user's servers: those that run, start or stop, by name. */
async function serversNow() {
  const answer = await ask(section.dataset.statusUrl, "GET");
  if (!answer.ok) throw new Error(String(answer.status));
  return (await answer.json()).servers;
}

function wait(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Wait until the hub has stopped a server. A hub that is away for a moment is asked again. */
async function untilStopped(name) {
  for (let missed = 0; missed < MISSES; await wait(POLL_MS)) {
    try {
      const server = (await serversNow())[name];
      if (!server || server.stopped) return true;
      missed = 0;
      // The hub tried, and could not: the server runs on.
      if (server.ready && !server.pending) return false;
    } catch {
      missed += 1;
    }
  }
  return false;
}

/** Stop the server of a button, then open the form, which fills in the last choice. */
async function stopAndChange(button) {
  if (button.getAttribute("aria-disabled") === "true") return;
  const card = button.closest("li");
  const says = card.querySelector(".gs-says");
  button.setAttribute("aria-disabled", "true");
  says.textContent = t("Stopping. The form opens next.");
  try {
    const answer = await ask(button.dataset.apiUrl, "DELETE");
    if (answer.status === 403) throw new Error(t("You've been signed out. Reload the page to sign in again."));
    // 404: the server is gone already.
    if (!answer.ok && answer.status !== 404) throw new Error(t("The hub can't stop the server now. Try again."));
    if (!(await untilStopped(card.dataset.server))) throw new Error(t("The server is still running. Try again."));
    location.assign(button.dataset.formUrl);
  } catch (error) {
    button.removeAttribute("aria-disabled");
    says.textContent = error instanceof TypeError ? t("The hub doesn't answer. Try again.") : error.message;
  }
}

/** The state of a server as gpuspawner.hub.form.home_page writes it into the section. */
function stateOf({ ready, pending, stopped } = { stopped: true }) {
  if (stopped) return "stopped";
  return STATES[pending] ?? (ready ? "running" : "starting");
}

/** Whether the hub says something else than this page, also of servers that the page does not list. */
function isOld(servers) {
  const shown = new Map([...section.querySelectorAll("li")].map(({ dataset: { server, state } }) => [server, state]));
  const names = new Set([...shown.keys(), ...Object.keys(servers)]);
  return [...names].some((name) => stateOf(servers[name]) !== (shown.get(name) ?? "stopped"));
}

/** Show the section as the hub has it now, when a server has changed; not while a button here is at work. */
async function renew() {
  try {
    if (!isOld(await serversNow()) || section.querySelector("[aria-disabled=true]")) return;
    const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("gpuspawner-servers");
    const isHome = answer.ok && !answer.redirected;
    if (!isHome || section.querySelector("[aria-disabled=true]")) return;
    const focused = section.contains(document.activeElement) && document.activeElement.closest("li")?.dataset.server;
    // Without a server and a last choice, the page has no section.
    section.hidden = !fresh;
    section.querySelector("ul").replaceChildren(...(fresh?.querySelector("ul").children ?? []));
    begin();
    if (typeof focused === "string") {
      section.querySelector(`li[data-server="${CSS.escape(focused)}"] :is(a, button)`)?.focus();
    }
  } catch {
    // The hub is away: the page stays as it is, and is renewed when the user looks at it again.
  }
}

let [since, timer] = [0, 0];

/** Renew the section for a few seconds, and then ever less often until no server starts or stops any more. */
function renewUntilSettled() {
  since = Date.now();
  renewAfter(POLL_MS);
}

/** Renew the section after a pause. There is one timer: to set it anew ends the earlier pause. */
function renewAfter(pause) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    if (document.hidden) return; // it begins anew when the user looks at the page again
    await renew();
    const elapsed = Date.now() - since;
    const next = Math.min(SLOWEST_MS, Math.max(POLL_MS, (POLL_MS * elapsed) / SETTLE_MS));
    if (elapsed < SETTLE_MS || section.querySelector(CHANGING)) renewAfter(next);
  }, pause);
}

function begin() {
  const buttons = section.querySelectorAll("button");
  for (const button of buttons) button.hidden = false;
  section.querySelector("#gpuspawner-stop-note").hidden = !buttons.length;
  showTimes();
}

section.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button) stopAndChange(button);
});
// JupyterHub's own buttons on this page stop servers, too.
document.addEventListener("click", ({ target }) => {
  if (target.closest("#stop, .stop-server, .delete-server")) renewUntilSettled();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) renewUntilSettled();
});
setInterval(showTimes, TICK_MS);
begin();
if (section.querySelector(CHANGING)) renewUntilSettled();
