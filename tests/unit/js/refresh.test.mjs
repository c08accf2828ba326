// What the page makes of the answer to a refresh, which has all that the page has.
import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island, renew, written } from "./load.mjs";

const { ageText, barOf, expectNext, sentenceOf } = form;
const [a100, mi210] = island.gpus;

function answer(members) {
  return JSON.parse(written("island", { ...island, ...members }));
}

function held() {
  return structuredClone(island);
}

test("an answer without news changes nothing", () => {
  const data = held();
  renew(data, answer({}));
  assert.deepEqual(data, island);
  assert.notEqual(sentenceOf(data.values, data), "");
});

test("a type is as the answer has it, and one that is not there is offered no longer until it comes back", () => {
  const data = held();
  renew(data, answer({ gpus: [{ ...a100, free: 0, state: "busy", capacity_text: "0 of 5 free" }] }));
  assert.deepEqual(data.gpus.map(({ state, capacity_text: text }) => [state, text]), [["busy", "0 of 5 free"], ["gone", "no longer offered"]]);
  renew(data, answer({ gpus: [a100, mi210] }));
  assert.deepEqual(data, island);
});

test("a type that the page does not have is left out", () => {
  const data = held();
  renew(data, answer({ gpus: [a100, mi210, { ...a100, slug: "h100" }] }));
  assert.deepEqual(data, island);
});

test("a preset's verdict is the new one, and unknown where the preset is not there", () => {
  const data = held();
  const waits = { outcome: "waits", sentence: "Will wait" };
  renew(data, answer({ presets: [{ ...island.presets[0], outlook: waits, cpu: "1" }] }));
  assert.deepEqual(data.presets.map(({ outlook, cpu }) => [outlook, cpu]), [[waits, "8"], [null, "1"]]);
});

test("images, verdict, values, notice and the reference's complaint are taken over", () => {
  const data = held();
  const [pytorch, plain] = island.images;
  const told = {
    verdict: null,
    values: { ...island.values, cpu: "3" },
    capacity_notice: "The hub cannot read pods.",
    custom_image: { complaint: "No.", misfits: [] },
    images: [pytorch, { ...plain, misfits: [{ text: "No.", gpus: ["mi210"] }] }],
  };
  renew(data, answer(told));
  for (const [name, value] of Object.entries(told)) assert.deepEqual(data[name], value);
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
