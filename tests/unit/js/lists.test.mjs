// Searching and ordering lists of many rows.
import assert from "node:assert/strict";
import { test } from "node:test";
import { form } from "./load.mjs";

const { isFound, ordered, folded } = form;
const A100 = folded("A100 80 GB 80 GiB full GPU NVLink NVIDIA a100-80gb");

test("every word of a search has to be there, in any order and case", () => {
  const found = (query) => isFound(A100, query);
  for (const query of ["", "  ", "a100", "A100", "80 a100", "nvlink nvidia", "a100-80gb"]) assert.ok(found(query), query);
  for (const query of ["a1000", "a100 amd", "40"]) assert.ok(!found(query), query);
});

test("spaces in amounts, and GB for GiB, make no difference", () => {
  for (const query of ["80gb", "80 GB", "80gib", "80 GiB", "fullgpu"]) assert.ok(isFound(A100, query), query);
  assert.ok(isFound(folded("H200 141 GiB"), "141gb"));
});

test("accents make no difference, on either side", () => {
  assert.ok(isFound(folded("Géo-Daten für Anfänger"), "geo fur anfanger"));
  assert.ok(isFound(folded("Geo"), "GÉO"));
  assert.ok(isFound(folded("图像 训练"), "训练"));
});

function row(name, { free = true, gib = 0, under = false } = {}) {
  return { name, isFree: free, gib, isUnder: under };
}

const names = (rows) => ordered(rows).map(({ name }) => name);

test("free types come first, then the larger memory, then the order of the list", () => {
  const rows = [row("taken", { free: false, gib: 141 }), row("small", { gib: 16 }), row("large", { gib: 80 }), row("also", { gib: 16 })];
  assert.deepEqual(names(rows), ["large", "small", "also", "taken"]);
});

test("parts stay under their card, which comes as early as the first of them that is free", () => {
  const rows = [
    row("other", { gib: 24 }),
    row("card", { free: false, gib: 40 }),
    row("taken part", { free: false, gib: 20, under: true }),
    row("small part", { gib: 5, under: true }),
    row("large part", { gib: 10, under: true }),
    row("full", { free: false, gib: 80 }),
  ];
  assert.deepEqual(names(rows), ["card", "large part", "small part", "taken part", "other", "full"]);
});

test("the rows that are handed in keep their order", () => {
  const rows = [row("b", { free: false }), row("a")];
  ordered(rows);
  assert.deepEqual(rows.map(({ name }) => name), ["b", "a"]);
});
