// Profiles: what their cards send, and the link that starts one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { form } from "./load.mjs";

const { optionsOf, headerOf, sentOf } = form;
const SIZE = "profile-option-lab--size";
const IMAGE = "profile-option-lab--image";
const TEXT = `${IMAGE}--unlisted-choice`;
const HELD = { [SIZE]: "large", [IMAGE]: "", [TEXT]: "quay.io/a/b:1" };

test("a link has the profile, its entries, and a text where the list leaves it to the person", () => {
  assert.deepEqual(optionsOf("lab", HELD), { profile: "lab", [SIZE]: "large", [TEXT]: "quay.io/a/b:1" });
  assert.deepEqual(optionsOf("lab", { ...HELD, [IMAGE]: "r" }), { profile: "lab", [SIZE]: "large", [IMAGE]: "r" });
  assert.deepEqual(optionsOf("lab", { [TEXT]: "a" }), { profile: "lab", [TEXT]: "a" });
  assert.deepEqual(optionsOf("lab", { [IMAGE]: "", [TEXT]: "" }), { profile: "lab" });
  assert.deepEqual(optionsOf("staff", {}), { profile: "staff" });
});

test("an entry of another option does not take a text away", () => {
  assert.deepEqual(optionsOf("lab", { [SIZE]: "large", [TEXT]: "a" }), { profile: "lab", [SIZE]: "large", [TEXT]: "a" });
});

test("the cards that fit are sent, the first one first", () => {
  const other = { "profile-option-other--size": "small" };
  assert.deepEqual(sentOf([HELD, other]), { ...HELD, ...other });
  const room = headerOf(HELD).length + 1;
  assert.deepEqual(sentOf([HELD, other], room), HELD);
  assert.deepEqual(sentOf([{ ...HELD, [TEXT]: "é".repeat(200) }, other], room), {});
  const many = Array.from({ length: 900 }, (_, at) => ({ [`profile-option-p${at}--size`]: "small" }));
  assert.ok(headerOf(sentOf(many)).length < 6100);
});

test("a card that does not fit leaves room for none behind it", () => {
  const small = { "profile-option-small--size": "a" };
  assert.deepEqual(sentOf([{ [TEXT]: "x".repeat(500) }, small], 200), {});
});
