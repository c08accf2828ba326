import assert from "node:assert/strict";
import { test } from "node:test";
import { form, island } from "./load.mjs";

const { fittingImage } = form;

function values(changes = {}) {
  return {
    image: "pytorch", custom_image: "", cpu: "2", memory: "8", gpu: "a100-80gb", gpu_count: "1", run_time: "8h",
    shared_memory: "", priority: "normal", ...changes,
  };
}

test("an image that can use the GPU takes the place of one that cannot", () => {
  assert.equal(fittingImage(values({ gpu: "mi210" }), island).slug, "plain");
  assert.equal(fittingImage(values(), island), undefined);
  const misfits = [{ text: "No GPU.", gpus: ["mi210"] }];
  const none = { ...island, images: island.images.map((image) => ({ ...image, misfits })) };
  assert.equal(fittingImage(values({ gpu: "mi210" }), none), undefined);
});
