// Limits of a person: what is denied is said before all else, and the run time ends with the GPU type.
import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island } from "./load.mjs";

const { boundsOf, endingOf, localVerdict, reasonOf, sentenceOf, shownVerdict, stepped, wrongNumbers } = form;
const WHY = "You may have 2 GPUs at a time. 2 are in use by your other servers.";

function values(changes = {}) {
  return {
    image: "plain", custom_image: "", cpu: "2", memory: "8", gpu: "a100-80gb", gpu_count: "1", run_time: "8h",
    shared_memory: "", priority: "normal", ...changes,
  };
}

const [a100] = island.gpus;
const denied = { ...a100, state: "denied", reason: WHY };
const limited = { ...island, gpus: [denied, ...island.gpus.slice(1)] };

test("a type that is denied never starts, whatever is free of it", () => {
  const verdict = { outcome: "never", sentence: WHY, alternatives: [] };
  assert.deepEqual(localVerdict(values(), limited), verdict);
  assert.deepEqual(shownVerdict(values(), { ...limited, verdict: null }, { isAnswered: true, isAsking: true, age: 1 }), verdict);
  assert.deepEqual(shownVerdict(values(), limited, { isAnswered: false, isAsking: true, age: 600 }), verdict);
});

test("why it is denied comes before the age of counts", () => {
  assert.equal(reasonOf(denied, values(), limited), WHY);
  assert.equal(reasonOf(denied, values(), limited, 600), WHY);
});

test("while nothing may be started nothing can, with a GPU or without", () => {
  const policy = { ...island.policy, blocked: "Your groups could not be read." };
  for (const gpu of ["a100-80gb", ""]) {
    const { outcome, sentence } = localVerdict(values({ gpu }), { ...island, policy });
    assert.deepEqual([outcome, sentence], ["never", policy.blocked]);
  }
  assert.equal(localVerdict(values({ gpu: "" }), island), null);
});

test("an image that the page's data does not hold leaves no choice", () => {
  assert.equal(sentenceOf(values({ image: "lab" }), island), "");
});

for (const [gpu, most] of [["mi210", "24h"], ["a100-80gb", "3d"], ["", "3d"]]) {
  test(`the run time with ${gpu || "no GPU"} ends at ${most}`, () => {
    assert.equal(boundsOf("run_time", values({ gpu }), island).max, most);
    const wrong = most === "24h" ? ["run_time"] : [];
    assert.deepEqual(wrongNumbers(values({ gpu, run_time: "25h" }), island), wrong);
    assert.deepEqual(wrongNumbers(values({ gpu, run_time: "24h" }), island), []);
  });
}

test("steps end where the type does", () => {
  const bounds = boundsOf("run_time", values({ gpu: "mi210" }), island);
  assert.equal(stepped("run_time", "23h50m", 1, bounds), "24h");
  assert.equal(stepped("run_time", "24h", 1, bounds), "24h");
});

test("without limits every field has its own bounds", () => {
  const data = { ...island, policy: null };
  assert.equal(boundsOf("run_time", values({ gpu: "mi210" }), data), data.run_time);
  assert.equal(boundsOf("run_time", values(), { ...data, run_time: null }), null);
  assert.equal(boundsOf("gpu_count", values({ gpu: "" }), data), undefined);
  assert.equal(boundsOf("shared_memory", values(), { ...data, shared_memory: null }), null);
});

test("the end is shown where there is no field for the run time", () => {
  const data = { ...island, run_time: null };
  assert.equal(endingOf(values({ gpu: "mi210" }), data), "Your server is stopped after 24 hours at the latest.");
  assert.equal(endingOf(values(), data), "");
  assert.equal(endingOf(values({ gpu: "mi210" }), island), "");
  assert.equal(endingOf(values({ gpu: "mi210" }), { ...data, policy: null }), "");
});
