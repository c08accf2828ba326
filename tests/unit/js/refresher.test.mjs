import assert from "node:assert/strict";
import { test } from "node:test";
import { form } from "./load.mjs";

/** A clock that moves only when a test moves it, and a server that answers only when a test lets it. */
function setUp({ isVisible = () => true } = {}) {
  let [now, timer] = [0, null];
  const asked = [];
  const world = {
    answers: [],
    failures: 0,
    dice: 0,
    asked,
    clock: {
      setTimeout: (run, delay) => { timer = { run, at: now + delay }; return timer; },
      clearTimeout: () => { timer = null; },
    },
    async pass(seconds) {
      await new Promise(setImmediate);
      const end = now + seconds * 1000;
      while (timer && timer.at <= end) {
        const { run, at } = timer;
        [now, timer] = [at, null];
        run();
        await new Promise(setImmediate);
      }
      now = end;
    },
  };
  const ask = () => {
    asked.push(now / 1000);
    const answer = world.answers.shift();
    return answer === undefined ? Promise.resolve(true) : answer();
  };
  const asker = form.refresher({ ask, isVisible, onFailure: () => { world.failures += 1; }, clock: world.clock, random: () => world.dice });
  return { world, asker };
}

const fails = () => Promise.reject(new Error("no answer"));
const noForm = () => Promise.resolve(false);

test("a visible page asks every ten seconds", async () => {
  const { world, asker } = setUp();
  asker.rest();
  await world.pass(35);
  assert.deepEqual(world.asked, [10, 20, 30]);
});

test("it asks again when the server wants it, with a little chance so that not all forms ask at once", async () => {
  const { world, asker } = setUp();
  const again = (seconds) => () => Promise.resolve(seconds * 1000);
  world.answers.push(again(20), again(40), again(40), again(40));
  asker.rest();
  await world.pass(30);
  assert.deepEqual(world.asked, [10, 30]);
  await world.pass(39);
  world.dice = 1;
  await world.pass(1);
  assert.deepEqual(world.asked, [10, 30, 70]);
  await world.pass(38);
  assert.deepEqual(world.asked, [10, 30, 70, 108]);
});

test("it asks every ten seconds at most and every 90 at least, whatever the server says", async () => {
  const { world, asker } = setUp();
  world.answers.push(() => Promise.resolve(50), () => Promise.resolve(1e9));
  asker.now();
  await world.pass(100);
  assert.deepEqual(world.asked, [0, 10, 100]);
});

test("a change is asked about at once also where the server wants to be asked rarely", async () => {
  const { world, asker } = setUp();
  world.answers.push(() => Promise.resolve(60_000));
  asker.now();
  await world.pass(20);
  asker.soon();
  await world.pass(1);
  assert.deepEqual(world.asked, [0, 20.3]);
});

test("changes are asked about once they have settled", async () => {
  const { world, asker } = setUp();
  for (let i = 0; i < 5; i += 1) {
    asker.soon();
    await world.pass(0.2);
  }
  await world.pass(1);
  assert.deepEqual(world.asked, [1.1]);
});

test("a hidden page does not ask until it is visible again, then at once", async () => {
  let isVisible = true;
  const { world, asker } = setUp({ isVisible: () => isVisible });
  asker.rest();
  isVisible = false;
  asker.rest();
  await world.pass(100);
  isVisible = true;
  asker.now();
  await world.pass(11);
  assert.deepEqual(world.asked, [100, 110]);
});

test("there are never two questions at a time, and a change meanwhile is asked about afterwards", async () => {
  const { world, asker } = setUp();
  let answer;
  world.answers.push(() => new Promise((resolve) => { answer = resolve; }));
  asker.now();
  asker.soon();
  asker.now();
  await world.pass(60);
  assert.deepEqual(world.asked, [0]);
  answer(true);
  await new Promise(setImmediate);
  await world.pass(1);
  assert.deepEqual(world.asked, [0, 60.3]);
});

test("failures make it ask less and less often, at least once a minute, and an answer ends that", async () => {
  const { world, asker } = setUp();
  world.answers.push(fails, fails, fails, fails);
  asker.rest();
  await world.pass(220);
  assert.deepEqual(world.asked, [10, 30, 70, 130, 190, 200, 210, 220]);
  assert.equal(world.failures, 4);
});

test("changes do not make it ask more often while it fails", async () => {
  const { world, asker } = setUp();
  world.answers.push(fails);
  asker.now();
  await world.pass(1);
  assert.equal(asker.isHopeful(), false);
  asker.soon();
  await world.pass(10);
  assert.deepEqual(world.asked, [0]);
});

test("it ends when the answer is no form any more", async () => {
  const { world, asker } = setUp();
  world.answers.push(noForm);
  asker.now();
  await world.pass(100);
  asker.soon();
  asker.now();
  await world.pass(100);
  assert.deepEqual([world.asked, asker.isHopeful()], [[0], false]);
});
