import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island } from "./load.mjs";

const { amountOf, complaintOf, countBounds, stepped, textOf } = form;

for (const [text, cores] of [["2", 2], ["0.5", 0.5], [".5", 0.5], [" 4 ", 4], ["500m", 0.5], ["2500m", 2.5]]) {
  test(`${JSON.stringify(text)} is ${cores} cores`, () => assert.equal(amountOf("cpu", text), cores));
}

for (const text of ["", "two", "-1", "1e3", "0x10", "NaN", "Infinity", "1,5", "4G", "4 4", "500mi", "500mb", "٣"]) {
  test(`${JSON.stringify(text)} is no number of cores`, () => assert.equal(amountOf("cpu", text), NaN));
}

for (const text of ["8", "8.0", "8G", "8Gi", "8GiB", "8 GiB", " 8 ", "8192M", "8192MiB", "8388608K", "8g", "8GB", "8 gib", "8192mb"]) {
  test(`${JSON.stringify(text)} is 8 GiB of memory`, () => assert.equal(amountOf("memory", text), 8));
}

for (const text of ["8  G", "8 B", "8m", "8 m", "8Gbit", "-8", "1e3"]) {
  test(`${JSON.stringify(text)} is no amount of memory`, () => assert.equal(amountOf("memory", text), NaN));
}

for (const text of ["2.5", "150m", "150 min", "2h30m", "2h 30m", "2 hours 30 minutes", " 2.5H ", "1h90m", "0d2h30m"]) {
  test(`${JSON.stringify(text)} is a run time of 150 minutes`, () => assert.equal(amountOf("run_time", text), 150));
}

for (const text of ["", "h", "2h30", "1d8", "30m8h", "8h8h", "8  h", "-8h", "1e1h", "8s", "PT8H", "for ever", "٨h", "NaN"]) {
  test(`${JSON.stringify(text)} is no run time`, () => assert.equal(amountOf("run_time", text), NaN));
}

test("a run time steps by durations, and is written with units", () => {
  const step = (text, direction) => stepped("run_time", text, direction, island.run_time);
  assert.deepEqual(["8h", "45m", "47h45m", "8", "2d"].map((text) => step(text, 1)), ["8h15m", "1h", "2d", "8h15m", "2d15m"]);
  assert.deepEqual(["8h", "1h", "2d", "20m"].map((text) => step(text, -1)), ["7h45m", "45m", "47h45m", "15m"]);
  assert.deepEqual([step("15m", -1), step("3d", 1), step("lots", 1)], ["15m", "3d", "8h"]);
});

test("shared memory steps from the least when the field is empty, and as memory does otherwise", () => {
  const bounds = { ...island.shared_memory, max: "2", default: island.shared_memory.min };
  const step = (text, direction) => stepped("shared_memory", text, direction, bounds);
  assert.deepEqual([step("", 1), step("0.25", 1), step("512M", 1), step("2", 1), step("0.25", -1)], ["0.25", "0.5", "0.75", "2", "0.25"]);
  assert.equal(step("", -1), "");
  assert.equal(stepped("shared_memory", "2", 1, { ...bounds, max: "0.1" }), "0.25");
  assert.equal(complaintOf("shared_memory", "3", bounds), "Enter 0.25 to 2 GiB.");
  assert.equal(complaintOf("shared_memory", "3", { ...bounds, max: "0.1" }), "Needs at least 0.25 GiB of memory.");
  assert.equal(complaintOf("shared_memory", "much", bounds), "Enter a number, such as 0.25G.");
});

test("steps of twenty minutes do not drift", () => {
  const bounds = { min: "20m", max: "24h", step: "20m", default: "8h" };
  let text = "20m";
  for (let i = 0; i < 71; i += 1) {
    assert.equal(complaintOf("run_time", text, bounds), "");
    text = stepped("run_time", text, 1, bounds);
  }
  assert.equal(text, "24h");
});

test("a complaint about a run time names durations", () => {
  assert.equal(complaintOf("run_time", "8h", island.run_time), "");
  assert.equal(complaintOf("run_time", "80h", island.run_time), "Enter 15m to 3d.");
  assert.equal(complaintOf("run_time", "20m", island.run_time), "Use a multiple of 15m.");
  assert.equal(complaintOf("run_time", "long", island.run_time), "Enter a duration, such as 8h.");
});

test("a TiB is 1024 GiB", () => assert.equal(amountOf("memory", "1T"), 1024));

test("a number of GPUs has no unit", () => assert.equal(amountOf("gpu_count", "2G"), NaN));

test("numbers are written without exponent and trailing zeros", () => {
  assert.deepEqual([0.5, 2, 100, 0.1 + 0.2, 0.000001].map(textOf), ["0.5", "2", "100", "0.3", "0.000001"]);
});

test("a step goes to the next value of the grid", () => {
  assert.equal(stepped("cpu", "2", 1, island.cpu), "2.5");
  assert.equal(stepped("cpu", "2", -1, island.cpu), "1.5");
});

test("a step from between two values goes to the nearer end of the gap in its direction", () => {
  assert.equal(stepped("cpu", "2.3", 1, island.cpu), "2.5");
  assert.equal(stepped("cpu", "2.2", -1, island.cpu), "2");
});

test("steps of a tenth do not drift", () => {
  const bounds = { min: "0.1", max: "2", step: "0.1", default: "1" };
  let text = "0.1";
  for (let i = 0; i < 19; i += 1) text = stepped("cpu", text, 1, bounds);
  assert.equal(text, "2");
});

test("a step never leaves the bounds", () => {
  assert.equal(stepped("cpu", "32", 1, island.cpu), "32");
  assert.equal(stepped("cpu", "0.5", -1, island.cpu), "0.5");
  assert.equal(stepped("cpu", "9999", 1, island.cpu), "32");
});

test("a maximum off the grid is not stepped onto", () => {
  assert.equal(stepped("cpu", "2.5", 1, { min: "0.5", max: "3.2", step: "1", default: "1" }), "2.5");
});

test("a step from something that is no number gives the default", () => {
  assert.equal(stepped("memory", "lots", 1, island.memory), "8");
});

test("a step understands units", () => assert.equal(stepped("memory", "8192M", 1, island.memory), "8.5"));

test("a number inside its bounds and on the grid is not complained about", () => {
  assert.equal(complaintOf("memory", "512M", island.memory), "");
});

test("a complaint names the bounds", () => {
  assert.equal(complaintOf("cpu", "33", island.cpu), "Enter 0.5 to 32 cores.");
});

test("a complaint names the step", () => {
  assert.equal(complaintOf("memory", "8.2", island.memory), "Use a multiple of 0.5 GiB.");
});

test("a grid that does not start at a multiple of its step names its start", () => {
  const bounds = { min: "1", max: "9", step: "4", default: "5" };
  assert.equal(complaintOf("cpu", "9", bounds), "");
  assert.equal(complaintOf("cpu", "8", bounds), "Use 1 plus a multiple of 4 cores.");
});

test("bounds that leave one value name that", () => {
  assert.equal(complaintOf("gpu_count", "2", countBounds({ max_count: 1 })), "Enter 1.");
});

test("a complaint about something that is no number gives an example", () => {
  assert.equal(complaintOf("memory", "lots", island.memory), "Enter a number, such as 8G.");
});

test("a complaint about a comma says how to write the number, and asks where it may stand for thousands", () => {
  assert.equal(complaintOf("cpu", "0,5", island.cpu), "Enter it as 0.5.");
  assert.equal(complaintOf("memory", "0,5G", island.memory), "Enter it as 0.5G.");
  assert.equal(complaintOf("memory", "1,000", island.memory), "This could mean 1000 or 1. Enter the one you mean.");
  assert.equal(complaintOf("memory", "1,000,000", island.memory), "Enter it as 1000000.");
});

test("the number of GPUs is bounded by the type", () => {
  const bounds = countBounds(island.gpus[0]);
  assert.equal(complaintOf("gpu_count", "4", bounds), "");
  assert.equal(complaintOf("gpu_count", "5", bounds), "Enter 1 to 4.");
  assert.equal(complaintOf("gpu_count", "1.5", bounds), "Enter a whole number.");
});

test("a field that may be empty is right when it is, and steps from its default", () => {
  const bounds = { ...island.memory, is_optional: true };
  const data = { ...island, memory: bounds };
  assert.deepEqual(form.wrongNumbers({ ...island.values, memory: "" }, data), []);
  assert.deepEqual(form.wrongNumbers({ ...island.values, memory: "" }, island), ["memory"]);
  assert.deepEqual([stepped("memory", "", 1, bounds), stepped("memory", "", -1, bounds)], ["8", ""]);
});

test("the default may lie between two steps", () => {
  const bounds = { ...island.cpu, default: "1.2" };
  assert.deepEqual(["1.2", "1.3"].map((text) => complaintOf("cpu", text, bounds) === ""), [true, false]);
});
