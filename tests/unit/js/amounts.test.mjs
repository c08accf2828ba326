import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island } from "./load.mjs";

const { commonAmounts, followedOf, suggestionOf, suggestionText } = form;

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

test("nothing below the default or the present value is suggested", () => {
  assert.deepEqual(suggestionOf(values({ cpu: "8" }), island), { memory: "60" });
  assert.deepEqual(suggestionOf(values({ cpu: "8", memory: "64" }), island), {});
  const larger = { ...island, cpu: { ...island.cpu, default: "8" }, memory: { ...island.memory, default: "60" } };
  assert.deepEqual(suggestionOf(values({ cpu: "1", memory: "1" }), larger), { memory: "60" });
});

test("an empty field that stands for no limit is more than each share", () => {
  const open = { ...island, cpu: { ...island.cpu, is_optional: true } };
  assert.deepEqual(suggestionOf(values({ cpu: "" }), open), { memory: "60" });
});

const BOTH = ["cpu", "memory"];

test("CPU and memory follow the GPU with its share, no less than the default", () => {
  const followed = (changes, data = island) => followedOf(values(changes), data, BOTH);
  assert.deepEqual(followed({ gpu: "mi210" }), { cpu: "2", memory: "8" });
  assert.deepEqual(followed({ gpu: "" }), { cpu: "2", memory: "8" });
  const { share, ...others } = island.gpus.find(({ slug }) => slug === "a100-80gb");
  const withShapes = (...shapes) => ({ ...island, gpus: [{ ...others, share, shapes }] });
  const free = [64_000, 512 * 1024, 8];
  assert.deepEqual(followed({}, withShapes(free)), { cpu: "7.5", memory: "60" });
  assert.deepEqual(followed({ gpu_count: "2" }, withShapes(free)), { cpu: "15", memory: "120" });
  assert.deepEqual(followedOf(values({ memory: "1" }), withShapes(free), ["cpu"]), { cpu: "7.5" });
});

test("a GPU that is free does not wait for what follows it", () => {
  const { share, ...others } = island.gpus.find(({ slug }) => slug === "a100-80gb");
  const followed = (...shapes) => followedOf(values(), { ...island, gpus: [{ ...others, share, shapes }] }, BOTH);
  assert.deepEqual(followed([4000, 512 * 1024, 8]), { cpu: "3.5", memory: "30" });
  assert.deepEqual(followed([64_000, 9 * 1024, 8]), { cpu: "2", memory: "8" });
  // Where it waits for the GPU itself, it gets all of its share.
  assert.deepEqual(followed(), { cpu: "7.5", memory: "60" });
});

test("what a quota leaves is taken by no amount that follows the GPU", () => {
  const gpus = island.gpus.map((each) => ({ ...each, shapes: [[64_000, 512 * 1024, 8]] }));
  const left = (max) => ({ ...island, gpus, cpu: { ...island.cpu, max, is_left_by_quota: true } });
  assert.deepEqual(followedOf(values(), left("7"), BOTH), { cpu: "2", memory: "60" });
  assert.deepEqual(followedOf(values(), left("7.5"), BOTH), { cpu: "2", memory: "60" });
  assert.deepEqual(followedOf(values(), left("10"), BOTH), { cpu: "7.5", memory: "60" });
  assert.deepEqual(followedOf(values({ gpu_count: "2" }), left("10"), BOTH), { cpu: "2", memory: "120" });
  // A user who asks for it gets it.
  assert.deepEqual(suggestionOf(values(), left("7")), { cpu: "7", memory: "60" });
});

test("a choice that the fields hold already is not suggested, however it is written", () => {
  assert.equal(suggestionText(values({ cpu: "7500m", memory: "60 GiB" }), island), "");
  assert.notEqual(suggestionText(values({ cpu: "", memory: "60" }), island), "");
});

test("fields that the form does not have are not suggested", () => {
  const without = { ...island, cpu: null };
  assert.deepEqual(suggestionOf(values({ cpu: "" }), without), { memory: "60" });
  assert.equal(suggestionText(values({ cpu: "" }), without), "Suggested for 1 × A100 80 GB: 60 GiB RAM (share of the node)");
});

const CORES = { min: "0.5", max: "64", step: "0.5", default: "2", is_optional: false };

for (const [name, field, changes, expected] of [
  ["the default and its doubles", "cpu", {}, ["2", "4", "8", "16", "32", "64"]],
  ["no more than the most", "cpu", { max: "31" }, ["2", "4", "8", "16"]],
  ["none where there are only two", "cpu", { max: "4" }, []],
  ["the same where the field may be empty", "cpu", { is_optional: true, max: "8" }, ["2", "4", "8"]],
  ["none that would be refused", "cpu", { min: "3", step: "3", default: "3", max: "50" }, ["3", "6", "12", "24", "48"]],
  ["a default between two steps does not make its doubles right", "cpu", { step: "1", min: "1", default: "1.5", max: "8" }, ["1.5", "3", "6"]],
  ["the default and the seven largest of many", "memory", { min: "1", step: "1", default: "1", max: "1024" }, ["1", "16", "32", "64", "128", "256", "512", "1024"]],
  ["parts of a core", "cpu", { min: "0.125", step: "0.125", default: "0.125", max: "1" }, ["0.125", "0.25", "0.5", "1"]],
  ["counts", "gpu_count", { min: "1", step: "1", default: "1", max: "7" }, ["1", "2", "4"]],
]) {
  test(`common amounts: ${name}`, () => {
    assert.deepEqual(commonAmounts(field, { ...CORES, ...changes }), expected);
  });
}
