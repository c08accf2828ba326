// What the page and the server both write, word for word; in other languages, too.
import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island, sentences } from "./load.mjs";

for (const { values, sentence } of sentences) {
  test(`the sentence of ${JSON.stringify(values)} is ${JSON.stringify(sentence)}`, () => {
    assert.equal(form.sentenceOf(values, island), sentence);
  });
}
