import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island } from "./load.mjs";

const { ageText, headerOf, linkOf, localVerdict, reasonOf, sentValues, shownVerdict } = form;
const GIB = 1024; // MiB
const NOW = { isAnswered: false, isAsking: true, age: 0 };

function values(changes = {}) {
  return {
    image: "plain", custom_image: "", cpu: "2", memory: "8", gpu: "a100-80gb", gpu_count: "1", run_time: "8h",
    shared_memory: "", priority: "normal", ...changes,
  };
}

function withGpu(changes) {
  return { ...island, gpus: [{ ...island.gpus[0], ...changes }, ...island.gpus.slice(1)] };
}

// Nodes with eight cards: one has two left with little CPU, another one left with much.
const nodes = withGpu({
  total: 16,
  free: 3,
  max_count: 16,
  state: "free",
  reason: "",
  shapes: [[2000, 8 * GIB, 2], [16000, 64 * GIB, 1]],
  largest_shapes: [[32000, 256 * GIB, 8]],
});

for (const [asked, outcome, sentence] of [
  [{}, "now", "Starts now."],
  [{ gpu_count: "2" }, "now", "Starts now."],
  [{ gpu_count: "3" }, "waits", "Will wait: no node has more than 2 of them free."],
  [{ gpu_count: "4" }, "waits", "Will wait: only 3 of 16 are free."],
  [{ gpu_count: "2", cpu: "4" }, "waits", "Will wait: no node with them has enough CPU and memory free."],
  [{ gpu_count: "9" }, "never", "Can't start: no node has more than 8 of them."],
  [{ cpu: "32", memory: "256" }, "waits", "Will wait: no node with them has enough CPU and memory free."],
]) {
  test(`${JSON.stringify(asked)} on these nodes: ${outcome}, ${JSON.stringify(sentence)}`, () => {
    assert.deepEqual(localVerdict(values(asked), nodes), { outcome, sentence, alternatives: [] });
  });
}

test("more CPU and memory than any node has never fits", () => {
  const data = withGpu({ ...nodes.gpus[0], shapes: [], largest_shapes: [[4000, 16 * GIB, 8]] });
  const sentence = "Can't start: no node with them has that much CPU and memory.";
  assert.deepEqual(localVerdict(values({ cpu: "8" }), data), { outcome: "never", sentence, alternatives: [] });
});

test("only the guaranteed part has to be free", () => {
  const data = { ...nodes, cpu: { ...island.cpu, guarantee: 0.5 } };
  assert.equal(localVerdict(values({ gpu_count: "2", cpu: "4" }), data).outcome, "now");
});

test("none free is said so", () => {
  const data = withGpu({ ...nodes.gpus[0], free: 0, shapes: [], state: "busy" });
  assert.deepEqual(localVerdict(values(), data), {
    outcome: "waits", sentence: "Will wait: none of the 16 is free.", alternatives: [],
  });
});

test("a type whose GPUs are in use is waited for, also where other nodes may be added", () => {
  const data = withGpu({ ...nodes.gpus[0], free: 0, shapes: [], state: "busy", new_nodes: true });
  assert.equal(localVerdict(values(), data).outcome, "waits");
});

test("unknown counts give an unknown verdict and no other", () => {
  const data = withGpu({ total: 4, free: null, state: "unknown", reason: "", shapes: [] });
  assert.equal(localVerdict(values(), data).sentence, "Availability unknown: the hub can't read what is free.");
});

for (const [what, data, asked] of [
  ["a choice without a GPU", nodes, { gpu: "" }],
  ["a wrong number", nodes, { cpu: "lots" }],
  ["a type that may get a new node", withGpu({ ...nodes.gpus[0], scales: true }), { gpu_count: "4" }],
  ["more GPUs than any node has, where nodes may be added", withGpu({ ...nodes.gpus[0], new_nodes: true }), { gpu_count: "9" }],
  ["a form that does not know the CPU and memory", { ...nodes, cpu: null }, {}],
  ["nodes that take no pods at all", withGpu({ state: "none", total: 4, free: 0, shapes: [], largest_shapes: [] }), {}],
]) {
  test(`${what} is for the server to judge`, () => assert.equal(localVerdict(values(asked), data), null));
}

test("too many GPUs are known not to fit also where CPU and memory are not in the form", () => {
  assert.equal(localVerdict(values({ gpu_count: "4" }), { ...nodes, cpu: null }).outcome, "waits");
});

test("a type says that it cannot go with so much CPU", () => {
  assert.equal(reasonOf(nodes.gpus[0], values({ cpu: "20" }), nodes), "Not with this much CPU and memory right now.");
  assert.equal(
    reasonOf({ ...nodes.gpus[0], largest_shapes: [[4000, GIB, 8]] }, values({ cpu: "20" }), nodes),
    "Its nodes are too small for this much CPU and memory.",
  );
  assert.equal(reasonOf(nodes.gpus[0], values({ cpu: "20", gpu: "" }), { ...nodes, memory: null }), "");
});

test("a type whose GPUs are all in use says that whatever else is asked for", () => {
  const busy = { ...nodes.gpus[0], state: "busy", reason: "None is free right now.", shapes: [] };
  assert.equal(reasonOf(busy, values({ cpu: "lots" }), nodes), "None is free right now.");
});

test("of counts that are too old only those that can never start are shown", () => {
  const [busy, gone] = ["busy", "never"].map((state) => ({ ...nodes.gpus[0], state, reason: state }));
  assert.deepEqual([busy, gone].map((gpu) => reasonOf(gpu, values(), nodes, 61)), ["", "never"]);
});

const told = { outcome: "now", sentence: "Starts now: room for 3 like this.", alternatives: [] };

test("the server's verdict on these values wins", () => {
  const shown = shownVerdict(values({ gpu_count: "9" }), { ...nodes, verdict: told }, { ...NOW, isAnswered: true });
  assert.deepEqual(shown, told);
});

test("the server's verdict on other values is not shown", () => {
  const shown = shownVerdict(values({ gpu_count: "9" }), { ...nodes, verdict: told }, NOW);
  assert.equal(shown.outcome, "never");
});

test("a verdict that only the server knows is being checked while it is asked", () => {
  assert.equal(shownVerdict(values({ gpu: "" }), nodes, NOW).outcome, "checking");
  assert.equal(shownVerdict(values({ gpu: "" }), nodes, { ...NOW, isAsking: false }).outcome, "unknown");
});

test("where the server has no verdict there is none", () => {
  assert.equal(shownVerdict(values({ gpu: "" }), { ...nodes, verdict: null }, { ...NOW, isAnswered: true }), null);
});

test("a choice that is wrong has no verdict", () => {
  assert.equal(shownVerdict(values({ cpu: "lots" }), { ...nodes, verdict: told }, { ...NOW, isAnswered: true }), null);
});

test("old counts make every verdict unknown but never", () => {
  const old = { ...NOW, age: 61 };
  assert.equal(shownVerdict(values(), nodes, old).outcome, "unknown");
  assert.equal(shownVerdict(values({ gpu: "" }), nodes, old).outcome, "unknown");
  assert.equal(shownVerdict(values(), { ...nodes, verdict: told }, { ...old, isAnswered: true }).outcome, "unknown");
  assert.equal(shownVerdict(values({ gpu_count: "9" }), nodes, old).outcome, "never");
});

test("counts of unknown age leave the verdict to the server", () => {
  const unknown = { outcome: "unknown", sentence: "Availability unknown: the hub can't read the cluster's nodes.", alternatives: [] };
  const state = { ...NOW, age: null };
  assert.equal(shownVerdict(values(), nodes, state).outcome, "unknown");
  assert.equal(shownVerdict(values(), { ...nodes, verdict: null }, { ...state, isAnswered: true }), null);
  assert.equal(shownVerdict(values(), { ...nodes, verdict: unknown }, { ...state, isAnswered: true }), unknown);
});

for (const [seconds, text] of [
  [null, ""], [0, ""], [60, ""], [60.5, "as of 60 s ago"], [179, "as of 2 min ago"],
  [5399, "as of 89 min ago"], [5400, "as of 1 h ago"], [90000, "as of 25 h ago"],
]) {
  test(`counts of ${seconds} s are ${JSON.stringify(text)}`, () => assert.equal(ageText(seconds), text));
}

test("the values are sent as the form would send them", () => {
  const more = { run_time: "8h", shared_memory: "", priority: "normal" };
  const sent = { image: "plain", cpu: "2", memory: "8", ...more, gpu: "a100-80gb", gpu_count: "1" };
  assert.deepEqual(sentValues(values({ cpu: " 2 ", gpu_count: "" }), island), sent);
  assert.deepEqual(sentValues(values({ gpu: "", gpu_count: "7" }), { ...island, cpu: null, run_time: null, shared_memory: null, choices: [] }), {
    image: "plain", memory: "8", gpu: "",
  });
});

test("a reference is sent where no other image is picked", () => {
  const own = { image: "", custom_image: " quay.io/x " };
  assert.deepEqual(sentValues(values({ ...own, gpu: "" }), island), {
    image: "", cpu: "2", memory: "8", run_time: "8h", shared_memory: "", gpu: "", custom_image: "quay.io/x", priority: "normal",
  });
  assert.equal("custom_image" in sentValues(values({ ...own, image: "plain" }), island), false);
  assert.equal("custom_image" in sentValues(values(own), { ...island, custom_image: null }), false);
});

test("of a text that is too long for a reference as much is sent as the server needs to say so", () => {
  const sent = sentValues(values({ image: "", custom_image: "x".repeat(900) }), island);
  assert.equal(sent.custom_image.length, 521);
});

test("a header holds whatever was typed, in plain ASCII", () => {
  const sent = { cpu: "٣ 🙂\n\u007f\"" };
  assert.match(headerOf(sent), /^[\x20-\x7e]*$/);
  assert.deepEqual(JSON.parse(headerOf(sent)), sent);
});

test("an image that cannot use a type is no reason against the type, which comes before it", () => {
  const amd = { ...island.gpus[1], slug: "mi210", state: "free", reason: "", shapes: [[16000, 68719476736, 2]] };
  assert.equal(reasonOf(amd, values({ image: "pytorch" }), island), "");
  assert.equal(reasonOf({ ...amd, state: "busy", reason: "None is free right now." }, values(), island), "None is free right now.");
});

for (const prefix of ["", "opt-"]) {
  test(`a link names what the form would send, with the prefix ${JSON.stringify(prefix)}`, () => {
    const data = { ...island, link_prefix: prefix };
    const link = new URL(linkOf(values({ image: "a&b=c#d", gpu_count: "" }), data, "https://hub.example/hub/spawn/ada?next=x#top"));
    assert.equal(link.origin + link.pathname + link.hash, "https://hub.example/hub/spawn");
    const more = { run_time: "8h", shared_memory: "" };
    const wanted = { image: "a&b=c#d", cpu: "2", memory: "8", ...more, gpu: "a100-80gb", priority: "normal", gpu_count: "1" };
    assert.deepEqual([...link.searchParams], Object.entries(wanted).map(([name, text]) => [prefix + name, text]));
  });
}

test("a link may name an image by its reference", () => {
  const link = new URL(linkOf(values({ image: "", custom_image: "quay.io/x:1@sha256:ab" }), island, "https://hub.example/hub/spawn"));
  assert.deepEqual([link.searchParams.get("image"), link.searchParams.get("custom_image")], ["", "quay.io/x:1@sha256:ab"]);
});

test("a link is for the user who opens it, not for the user of the page", () => {
  for (const about of ["", "/ada", "/ada/", "/ada/second%20server"]) {
    const link = new URL(linkOf(values(), island, `https://hub.example/base/hub/spawn${about}?next=x#y`));
    assert.deepEqual([link.pathname, link.hash, link.searchParams.has("next")], ["/base/hub/spawn", "", false]);
  }
});

test("a link to a choice without a GPU says so", () => {
  const link = new URL(linkOf(values({ gpu: "", gpu_count: "3" }), island, "https://hub.example/hub/spawn"));
  assert.deepEqual([link.searchParams.get("gpu"), link.searchParams.has("gpu_count")], ["", false]);
});

test("KubeSpawner's guarantee has to be free, and nothing where it guarantees nothing", () => {
  const ask = (own, asked) => localVerdict(values({ gpu_count: "2", ...asked }), { ...nodes, ...own }).outcome;
  const cpu = { ...island.cpu, is_optional: true };
  assert.equal(ask({ cpu: { ...cpu, request: "1" } }, { cpu: "32" }), "now");
  assert.equal(ask({ cpu: { ...cpu, request: "4" } }, { cpu: "1" }), "now");
  assert.equal(ask({ cpu: { ...cpu, request: "4" } }, { cpu: "" }), "waits");
  assert.equal(ask({ cpu }, { cpu: "" }), "now");
  assert.equal(ask({ cpu }, { cpu: "32" }), "waits");
});
