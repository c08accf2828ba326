// Searching and ordering lists of many rows.
import assert from "node:assert/strict";
import { test } from "node:test";
import { form } from "./load.mjs";

const { isFound, ordered, folded, sightOf } = form;
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

// A card that is in use with a part that is free, another card in use, one that is free and one that no user may have.
const TYPES = [["a100", "busy"], ["slice", "free", true], ["taken slice", "busy", true], ["h100", "busy"], ["l4", "free"], ["secret", "denied"]];

function sight({ picked, open = [], isFound = () => true } = {}) {
  const rows = TYPES.map(([name, state, isUnder = false]) => ({ name, state, isUnder, isPicked: name === picked, isFound: isFound(name) }));
  const lines = [["denied", "never"], ["busy"]].map((states) => ({ states, isOpen: open.includes(states[0]) }));
  const { shown, held } = sightOf(rows, lines);
  return [rows.filter((row) => shown.has(row)).map(({ name }) => name), held.map((found) => found.map(({ name }) => name))];
}

test("a card that is in sight because of its part is not one of those that a line stands for", () => {
  assert.deepEqual(sight(), [["a100", "slice", "l4"], [["secret"], ["taken slice", "h100"]]]);
});

test("a line stands for one less when one of its rows is picked", () => {
  assert.deepEqual(sight({ picked: "h100" }), [["a100", "slice", "h100", "l4"], [["secret"], ["taken slice"]]]);
});

test("a line that is open shows its rows, and still says how many they are", () => {
  assert.deepEqual(sight({ open: ["busy"] }), [["a100", "slice", "taken slice", "h100", "l4"], [["secret"], ["taken slice", "h100"]]]);
});

test("what is picked stays in sight, whatever is found", () => {
  assert.deepEqual(sight({ picked: "taken slice", isFound: () => false }), [["a100", "taken slice"], [[], []]]);
});

test("what is in sight and what closed lines stand for add up to all rows", () => {
  for (const [picked] of TYPES) {
    const [shown, held] = sight({ picked });
    assert.deepEqual([...shown, ...held.flat()].sort(), TYPES.map(([name]) => name).sort());
  }
});
