// What the page makes of the answer to a refresh: it has only what changed, and of a row that did not, the slug.
import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island, renew, written } from "./load.mjs";

const { ageText, barOf, expectNext, readIsland, sentenceOf } = form;
const GPU_NAMES = [...Object.keys(island.gpus[0]), "healthy", "capacity_text", "details_text"];

function answer(members) {
  return readIsland(written("refresh", { version: 8, ...members }));
}

function held() {
  return structuredClone(island);
}

function gpuRow(changes) {
  const gpu = { ...island.gpus[0], healthy: 5, capacity_text: "0 of 5 free", details_text: "2 waiting", ...changes };
  return GPU_NAMES.map((name) => gpu[name]);
}

test("an answer without news changes nothing", () => {
  const data = held();
  renew(data, answer({}));
  assert.deepEqual(data, island);
  assert.notEqual(sentenceOf(data.values, data), "");
});

test("a type that changed is new, one that did not stays, and one that is not there is offered no longer", () => {
  const data = held();
  renew(data, answer({ gpus: { names: GPU_NAMES, rows: [gpuRow({ free: 0, state: "busy" }), "mi210"] } }));
  assert.deepEqual(data.gpus.map(({ slug, free, state }) => [slug, free, state]), [["a100-80gb", 0, "busy"], ["mi210", 0, "busy"]]);
  assert.deepEqual([data.gpus[0].capacity_text, data.gpus[1].capacity_text], ["0 of 5 free", undefined]);
  renew(data, answer({ gpus: { names: GPU_NAMES, rows: ["a100-80gb"] } }));
  assert.deepEqual(data.gpus.map(({ state, capacity_text: text }) => [state, text]), [["busy", "0 of 5 free"], ["gone", "no longer offered"]]);
  renew(data, answer({ gpus: { names: GPU_NAMES, rows: ["a100-80gb", gpuRow({ slug: "mi210", free: 2, state: "free" })] } }));
  assert.deepEqual([data.gpus[1].state, data.gpus[1].free], ["free", 2]);
});

test("a type that the page does not have is left out", () => {
  const data = held();
  renew(data, answer({ gpus: { names: GPU_NAMES, rows: ["a100-80gb", "mi210", gpuRow({ slug: "h100" })] } }));
  assert.deepEqual(data, island);
});

test("a preset's verdict is new where it changed, and unknown where the preset is not there", () => {
  const data = held();
  const waits = { outcome: "waits", sentence: "Will wait" };
  renew(data, answer({ presets: { names: ["slug", "outlook"], rows: [["train", waits], "small"] } }));
  assert.deepEqual(data.presets.map(({ outlook }) => outlook), [waits, island.presets[1].outlook]);
  assert.equal(data.presets[0].cpu, "8");
  renew(data, answer({ presets: { names: ["slug", "outlook"], rows: [["train", null]] } }));
  assert.deepEqual(data.presets.map(({ outlook }) => outlook), [null, null]);
});

test("images, verdict, values, notice and the reference's complaint are taken over", () => {
  const data = held();
  const told = {
    verdict: null,
    values: { ...island.values, cpu: "3" },
    capacity_notice: "The hub cannot read pods.",
    custom_image: { complaint: "No.", misfits: [] },
    images: { names: ["slug", "display_name", "misfits"], rows: ["pytorch", ["plain", "Plain", [{ text: "No.", gpus: ["mi210"] }]]] },
  };
  renew(data, answer(told));
  for (const name of ["verdict", "values", "capacity_notice", "custom_image"]) assert.deepEqual(data[name], told[name]);
  assert.deepEqual(data.images[0], island.images[0]);
  assert.deepEqual(data.images[1].misfits, [{ text: "No.", gpus: ["mi210"] }]);
});

for (const [name, counts, widths] of [
  ["some are free", { total: 3, free: 1, healthy: 3 }, ["33.33%"]],
  ["some are broken", { total: 8, free: 2, healthy: 6 }, ["25%", "25%"]],
  ["it is not known which are broken", { total: 8, free: 8, healthy: null }, ["100%"]],
  ["there are none", { total: 0, free: 0, healthy: 0 }, []],
  ["it is not known how many are free", { total: 8, free: null, healthy: 8 }, []],
]) {
  test(`the bar of a type: ${name}`, () => assert.deepEqual(barOf(counts), widths));
}

test("counts are old after a minute, or when newer ones are late that the server wants to be asked for rarely", () => {
  assert.equal(ageText(61), "as of 61 s ago");
  expectNext(75);
  assert.equal(ageText(89), "");
  assert.equal(ageText(91), "as of 91 s ago");
  expectNext(10);
  assert.equal(ageText(61), "as of 61 s ago");
});
