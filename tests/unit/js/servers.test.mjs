// The section on the home page: how often its script asks the hub, and what makes it renew the section.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mock, test } from "node:test";

process.env.TZ = "UTC";
const root = new URL("../../../templates/", import.meta.url);
const source = ["language.js", "hub/servers.js"].map((name) => readFileSync(new URL(name, root), "utf8")).join("");
const MINUTE_S = 60;
const WAITS = { ready: false, pending: "spawn", stopped: false };
const RUNS = { ready: true, pending: null, stopped: false };
let pages = 0;

/** Open a page that shows servers in these states, by name, while the hub says `servers` of them. */
async function open(states, servers, { language = "en", times = [] } = {}) {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  const lines = Object.entries(states).map(([server, state]) => ({ dataset: { server, state } }));
  const note = {};
  const rows = { li: lines, time: times };
  const parts = { "#gpuspawner-stop-note": note, "ul": { replaceWith() {} } };
  const section = {
    lang: language,
    dataset: { statusUrl: "/status" },
    addEventListener() {},
    contains: () => false,
    querySelectorAll: (selector) => rows[selector] ?? [],
    querySelector: (selector) => (selector.includes("data-state")
      ? lines.find(({ dataset }) => ["starting", "stopping"].includes(dataset.state))
      : parts[selector]),
  };
  const listeners = {};
  const asked = { status: 0, page: 0 };
  globalThis.document = {
    hidden: false,
    getElementById: () => section,
    addEventListener: (name, listener) => { listeners[name] = listener; },
  };
  Object.defineProperty(globalThis, "navigator", { value: { language }, configurable: true });
  globalThis.window = {};
  globalThis.location = { href: "/home" };
  globalThis.DOMParser = class {
    parseFromString() {
      return document;
    }
  };
  globalThis.fetch = async (address) => {
    asked[address.startsWith("/status") ? "status" : "page"] += 1;
    return { ok: true, json: async () => ({ servers }), text: async () => "" };
  };
  pages += 1; // node imports each address once
  await import(`data:text/javascript,${encodeURIComponent(`${source}// ${pages}`)}`);
  return { asked, look: () => listeners.visibilitychange() };
}

/** Let time pass, and all that is asked meanwhile be answered. */
async function pass(seconds) {
  for (let second = 0; second < seconds; second += 1) {
    mock.timers.tick(1_000);
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  }
}

test("in the first seconds the hub is asked once a second", async () => {
  const { asked } = await open({ "": "starting" }, { "": WAITS });
  await pass(4);
  assert.equal(asked.status, 4);
});

test("a server that waits for long is asked about four times a minute", async () => {
  const { asked } = await open({ "": "starting" }, { "": WAITS });
  await pass(2 * MINUTE_S);
  const before = asked.status;
  await pass(10 * MINUTE_S);
  assert.equal(asked.status - before, 40);
});

test("to come back to the tab many times starts no second loop, and asks soon", async () => {
  const { asked, look } = await open({ "": "starting" }, { "": WAITS });
  await pass(10 * MINUTE_S);
  const before = asked.status;
  for (let times = 0; times < 5; times += 1) look();
  await pass(4);
  assert.equal(asked.status - before, 4);
});

test("while the tab is hidden nothing is asked", async () => {
  const { asked } = await open({ "": "starting" }, { "": WAITS });
  document.hidden = true;
  await pass(MINUTE_S);
  assert.equal(asked.status, 0);
});

test("where no server starts or stops nothing is asked", async () => {
  const { asked } = await open({ "": "running" }, { "": RUNS });
  await pass(MINUTE_S);
  assert.equal(asked.status, 0);
});

for (const [language, expected] of Object.entries({
  en: "Ends at 1:05 AM, in 1 h 5 min",
  "en-GB": "Ends at 01:05, in 1 h 5 min",
  de: "Ends at 01:05, in 1 h 5 min",
  "zh-CN": "Ends at 01:05, in 1 h 5 min",
})) {
  test(`an early end is written as a region writes it: ${language}`, async () => {
    const times = [{ dateTime: "1970-01-01T01:05:00Z" }];
    await open({ "": "running" }, { "": RUNS }, { language, times });
    assert.equal(times[0].textContent, expected);
  });
}

const ofHub = [
  ["that runs", RUNS, "running"],
  ["that starts", WAITS, "starting"],
  ["that stops", { ...WAITS, pending: "stop" }, "stopping"],
  ["that the hub checks after its restart", { ...WAITS, pending: "check" }, "running"],
  ["that is renamed", { ...WAITS, pending: "rename" }, "stopped"],
  ["that is at rest", { ready: false, pending: null, stopped: true }, "stopped"],
  ["of which the hub says nothing", undefined, "stopped"],
];
for (const [what, said, state] of ofHub) {
  for (const shown of ["running", "starting", "stopping", "stopped"]) {
    test(`a server ${what} and is shown as ${shown}`, async () => {
      const { asked, look } = await open({ "": shown }, { "": said });
      look();
      await pass(1);
      assert.deepEqual(asked, { status: 1, page: Number(shown !== state) });
    });
  }
}

const ofOthers = [
  ["that starts", WAITS, 1],
  ["that runs", RUNS, 1],
  ["that is renamed", { ...WAITS, pending: "rename" }, 0],
];
for (const [what, said, renewed] of ofOthers) {
  test(`a server ${what} and is not shown yet`, async () => {
    const { asked, look } = await open({ "": "running" }, { "": RUNS, lab: said });
    look();
    await pass(1);
    assert.deepEqual(asked, { status: 1, page: renewed });
  });
}
