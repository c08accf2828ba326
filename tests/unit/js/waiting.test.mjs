// The page of a server that starts: what its script computes without a document.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const root = new URL("../../../templates/", import.meta.url);
const source = ["language.js", "waiting.js"].map((name) => readFileSync(new URL(name, root), "utf8")).join("");
const page = await import(`data:text/javascript,${encodeURIComponent(source)}`);

// tests/unit/core/units/test_duration.py has the same table.
const times = [
  [-1, "0 s"],
  [0.9, "0 s"],
  [59.9, "59 s"],
  [60, "1 min"],
  [130, "2 min 10 s"],
  [300, "5 min"],
  [3600, "1 h"],
  [5430, "1 h 30 min"],
];
for (const [seconds, text] of times) {
  test(`${seconds} seconds are ${text}`, () => assert.equal(page.clock(seconds), text));
}

const lines = [{ text: "newest", at: 100 }, { text: "older", at: 90 }, { text: "oldest", at: 60 }];
const repeated = [
  ["newest", 1000, true, "the newest line, however long ago"],
  ["older", 119, true, "a line of the last half minute"],
  ["older", 120, false, "a line that is older"],
  ["oldest", 61, true, "a line that comes again after a reconnect"],
  ["new", 101, false, "a new line"],
];
for (const [text, at, expected, what] of repeated) {
  test(`the log has ${what}: ${expected}`, () => assert.equal(page.isRepeated(lines, text, at), expected));
}
test("an empty log has nothing", () => assert.equal(page.isRepeated([], "new", 1), false));

const meanings = { 200: "on", 400: "over", 404: "over", 401: "out", 403: "out", 500: "away", 502: "away", 503: "away" };
for (const [status, meaning] of Object.entries(meanings)) {
  test(`${status} means ${meaning}`, () => assert.equal(page.meaningOf(Number(status)), meaning));
}
