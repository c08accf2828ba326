import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island } from "./load.mjs";

const { complaintOfReference, hintOf, holdsPreset, sentenceOf, sharedBounds, totalOf, troubleOf, wrongFields, wrongNumbers } = form;
const [train, small] = island.presets;

function values(changes = {}) {
  return {
    image: "pytorch", custom_image: "", cpu: "4", memory: "16", gpu: "a100-80gb", gpu_count: "1", run_time: "8h",
    shared_memory: "", priority: "normal", ...changes,
  };
}

test("fields that the form does not have are not in the sentence", () => {
  const without = { ...island, cpu: null, memory: null, run_time: null };
  assert.equal(sentenceOf(values({ cpu: "", memory: "", run_time: "" }), without), "PyTorch · 1 × A100 80 GB");
});

// What the server said of a reference the last time it was asked.
function answered(reference, complaint, misfits = []) {
  return { ...island, values: values({ image: "", custom_image: reference }), custom_image: { complaint, misfits } };
}

test("a reference that the server does not take is not asked for", () => {
  const data = answered("no image", "Not so.");
  const written = values({ image: "", custom_image: " no image " });
  assert.equal(complaintOfReference(written, data), "Not so.");
  assert.equal(sentenceOf(written, data), "");
  assert.equal(troubleOf(written, data), "Fix 1 field above to continue.");
});

test("the server's complaint is about that reference alone", () => {
  const data = answered("no image", "Not so.");
  const written = values({ image: "", custom_image: "quay.io/x" });
  assert.equal(complaintOfReference(written, data), "");
  assert.match(sentenceOf(written, data), /^quay.io\/x · 4 CPUs · 16 GiB RAM · 1 × A100 80 GB/);
});

test("a reference goes with every GPU that the server does not say otherwise of", () => {
  const data = answered("quay.io/x", "", [{ text: "Made for NVIDIA GPUs.", gpus: ["mi210"] }]);
  const written = (reference, gpu) => values({ image: "", custom_image: reference, gpu });
  assert.equal(hintOf(written("quay.io/x", "mi210"), data), "Made for NVIDIA GPUs.");
  assert.equal(sentenceOf(written("quay.io/x", "mi210"), data), "");
  assert.equal(troubleOf(written("quay.io/x", "mi210"), data), "This image and this GPU can't be used together.");
  assert.equal(hintOf(written("quay.io/x", "a100-80gb"), data), "");
  assert.equal(hintOf(written("quay.io/other", "mi210"), data), "");
});

test("where only offered images are allowed there is no other", () => {
  const data = { ...island, custom_image: null };
  assert.equal(complaintOfReference(values(), data), "");
  assert.equal(sentenceOf(values({ image: "", custom_image: "quay.io/x" }), data), "");
});

test("where servers run on, no run time is wrong", () => {
  assert.deepEqual(wrongNumbers(values({ run_time: "x" }), island), ["run_time"]);
  assert.deepEqual(wrongNumbers(values({ run_time: "x" }), { ...island, run_time: null }), []);
});

test("shared memory is bounded by the memory that is asked for", () => {
  const bounds = (memory, data = island) => sharedBounds(values({ memory }), data).max;
  assert.deepEqual(["16", "8192M", "256", "lots", ""].map((memory) => bounds(memory)), ["16", "8", "64", "64", "64"]);
  assert.equal(bounds("1", { ...island, memory: null }), "64");
  assert.deepEqual(wrongNumbers(values({ shared_memory: "16" }), island), []);
  assert.deepEqual(wrongNumbers(values({ shared_memory: "16.25" }), island), ["shared_memory"]);
});

test("shared memory may be left empty, and is nothing without a field for it", () => {
  assert.deepEqual(wrongNumbers(values({ shared_memory: " " }), island), []);
  assert.deepEqual(wrongNumbers(values({ shared_memory: "x" }), { ...island, shared_memory: null }), []);
});

test("a preset with shared memory is held with as much", () => {
  const preset = { ...train, shared_memory: "2" };
  assert.equal(holdsPreset({ ...preset, shared_memory: "2048M" }, preset, island), true);
  assert.equal(holdsPreset({ ...preset, shared_memory: "" }, preset, island), false);
});

test("an empty number of GPUs means one", () => {
  assert.deepEqual(wrongNumbers(values({ gpu_count: " " }), island), []);
  const data = { ...island, gpus: [{ ...island.gpus[0], display_name: "A100" }] };
  assert.equal(totalOf(values({ gpu_count: "" }), data), "80 GiB GPU memory");
});

test("the number of GPUs does not matter without a GPU", () => {
  assert.deepEqual(wrongNumbers(values({ gpu: "", gpu_count: "99" }), island), []);
});

test("the total multiplies the memory of one GPU", () => {
  assert.equal(totalOf(values({ gpu_count: "2" }), island), "160 GiB GPU memory");
});

test("a total that the GPU's name tells is not told again", () => {
  assert.equal(island.gpus[0].display_name, "A100 80 GB");
  assert.equal(totalOf(values({ gpu_count: "1" }), island), "");
});

test("the number of fields to fix is shown", () => {
  const told = (changed) => troubleOf(values(changed), island);
  assert.equal(told({ cpu: "0.7" }), "Fix 1 field above to continue.");
  assert.equal(told({ cpu: "0.7", memory: "many" }), "Fix 2 fields above to continue.");
  assert.equal(told({ image: "gone", gpu: "gone", cpu: "0.7" }), "Fix 3 fields above to continue.");
});

test("memory that is no round number of GiB is shown to two decimals", () => {
  const data = { ...island, gpus: [{ ...island.gpus[0], memory_gib: 11441 / 1024 }] };
  assert.equal(totalOf(values({ gpu_count: "2" }), data), "22.35 GiB GPU memory");
});

test("there is no total without a GPU, without its memory, or with a wrong number", () => {
  assert.equal(totalOf(values({ gpu: "" }), island), "");
  assert.equal(totalOf(values({ gpu: "mi210" }), island), "");
  assert.equal(totalOf(values({ gpu_count: "9" }), island), "");
});

test("an image that cannot use the GPU is said so, in the server's words", () => {
  assert.equal(hintOf(values({ gpu: "mi210" }), island), "PyTorch is made for NVIDIA GPUs.");
  assert.equal(troubleOf(values({ gpu: "mi210" }), island), "This image and this GPU can't be used together.");
});

test("an image that can use the GPU, or needs none, goes with it", () => {
  for (const change of [{ image: "plain", gpu: "mi210" }, { gpu: "" }, { image: "", gpu: "mi210" }]) {
    assert.equal(hintOf(values(change), island), "");
  }
});

test("a preset is held however its numbers are written", () => {
  assert.equal(holdsPreset({ ...train, cpu: "8000m", memory: "65536M", run_time: "480 min" }, train, island), true);
});

for (const change of [
  ...[{ image: "plain" }, { cpu: "7" }, { memory: "x" }, { gpu: "" }, { gpu_count: "1" }],
  ...[{ run_time: "4h" }, { run_time: "" }, { shared_memory: "1" }, { shared_memory: "x" }, { priority: "low" }],
]) {
  test(`a preset is not held with ${JSON.stringify(change)}`, () => {
    assert.equal(holdsPreset({ ...train, ...change }, train, island), false);
  });
}

test("a preset without a GPU is held whatever the number of GPUs was", () => {
  assert.equal(holdsPreset({ ...small, gpu_count: "3" }, small, island), true);
});

const UNANSWERED = "?";

test("a choice of which nothing is picked is to be made first", () => {
  const trouble = (changes) => [troubleOf(values(changes), island), sentenceOf(values(changes), island), wrongFields(values(changes), island)];
  assert.deepEqual(trouble({ gpu: UNANSWERED }), ["Choose a GPU.", "", ["gpu"]]);
  assert.deepEqual(trouble({ image: UNANSWERED }), ["Choose an image.", "", ["image"]]);
  assert.deepEqual(trouble({ priority: UNANSWERED }), ["Fix 1 field above to continue.", "", ["priority"]]);
});
