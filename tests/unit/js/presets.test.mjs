// Fixed presets: what their cards send, and the link that starts one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { form } from "./load.mjs";

const { choicesOf, headerOf, sentOf } = form;
const HELD = { "preset:lab:size": "large", "preset:lab:image": "", "preset-image:lab:image": "quay.io/a/b:1" };

test("a link names the preset, its entries, and the image where that is not of the list", () => {
  assert.deepEqual(choicesOf("lab", HELD), { preset: "lab", preset_choices: "size:large", custom_image: "quay.io/a/b:1" });
  const listed = { ...HELD, "preset:lab:image": "r" };
  assert.deepEqual(choicesOf("lab", listed), { preset: "lab", preset_choices: "size:large,image:r" });
  assert.deepEqual(choicesOf("named", { "preset-image:named:image": "a" }), { preset: "named", custom_image: "a" });
  assert.deepEqual(choicesOf("staff", {}), { preset: "staff" });
});

test("the cards that fit are sent, the first one first", () => {
  const other = { "preset:other:size": "small" };
  assert.deepEqual(sentOf([HELD, other]), { ...HELD, ...other });
  const room = headerOf(HELD).length + 1;
  assert.deepEqual(sentOf([HELD, other], room), HELD);
  assert.deepEqual(sentOf([{ ...HELD, "preset-image:lab:image": "é".repeat(200) }, other], room), {});
  assert.ok(headerOf(sentOf(Array.from({ length: 900 }, (_, at) => ({ [`preset:p${at}:size`]: "small" })))).length < 6100);
});
