// What the page and the server both say of a number that was typed, word for word; test_javascript.py hands over the cases.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { form } from "./load.mjs";

const { COMPLAINTS } = process.env;

for (const { name, typed, bounds, told, shown } of COMPLAINTS ? JSON.parse(readFileSync(COMPLAINTS, "utf8")) : []) {
  const isAmount = name !== "gpu_count";
  const text = isAmount ? form.plain(typed) : typed;
  test(`${name} ${JSON.stringify(typed)}`, () => {
    assert.equal(form.complaintOf(name, text, bounds), told);
    assert.equal(isAmount ? form.shown(text) : typed, shown);
  });
}
