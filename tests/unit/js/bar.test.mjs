import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island } from "./load.mjs";

const { fittingImage, suggestionOf, suggestionText } = form;

function values(changes = {}) {
  return {
    image: "pytorch", custom_image: "", cpu: "2", memory: "8", gpu: "a100-80gb", gpu_count: "1", run_time: "8h",
    shared_memory: "", priority: "normal", ...changes,
  };
}

test("the share of the node is suggested in the fields' own units and steps", () => {
  assert.deepEqual(suggestionOf(values(), island), { cpu: "7.5", memory: "60" });
  assert.deepEqual(suggestionOf(values({ gpu_count: "3" }), island), { cpu: "22.5", memory: "180" });
  assert.equal(suggestionText(values(), island), "Suggested for 1 × A100 80 GB: 7.5 CPUs · 60 GiB RAM (share of the node)");
});

test("the suggestion is no more than may be asked for, and left out where it is less", () => {
  const narrow = { ...island, cpu: { ...island.cpu, max: "4" }, memory: { ...island.memory, min: "64" } };
  assert.deepEqual(suggestionOf(values(), narrow), { cpu: "4" });
  assert.equal(suggestionText(values(), narrow), "Suggested for 1 × A100 80 GB: 4 CPUs (share of the node)");
});

for (const [name, changes] of Object.entries({
  "no GPU": { gpu: "" },
  "a GPU whose nodes are unknown": { gpu: "mi210" },
  "a wrong number of GPUs": { gpu_count: "lots" },
})) {
  test(`with ${name} nothing is suggested`, () => {
    assert.deepEqual(suggestionOf(values(changes), island), {});
    assert.equal(suggestionText(values(changes), island), "");
  });
}

test("a choice that the fields hold already is not suggested, however it is written", () => {
  assert.equal(suggestionText(values({ cpu: "7500m", memory: "60 GiB" }), island), "");
  assert.notEqual(suggestionText(values({ cpu: "", memory: "60" }), island), "");
});

test("fields that the form does not have are not suggested", () => {
  const without = { ...island, cpu: null };
  assert.deepEqual(suggestionOf(values({ cpu: "" }), without), { memory: "60" });
  assert.equal(suggestionText(values({ cpu: "" }), without), "Suggested for 1 × A100 80 GB: 60 GiB RAM (share of the node)");
});

test("an image that can use the GPU takes the place of one that cannot", () => {
  assert.equal(fittingImage(values({ gpu: "mi210" }), island).slug, "plain");
  assert.equal(fittingImage(values(), island), undefined);
  const misfits = [{ text: "No GPU.", gpus: ["mi210"] }];
  const none = { ...island, images: island.images.map((image) => ({ ...image, misfits })) };
  assert.equal(fittingImage(values({ gpu: "mi210" }), none), undefined);
});
