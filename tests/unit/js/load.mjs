// The form's script as the page gets it (one module of several files), and what tests/unit/core/test_formview.py checks against the Python side: the
// island of a sample form, and the sentences that both sides write about it.
import { readFileSync } from "node:fs";

const root = new URL("../../../", import.meta.url);

function read(name) {
  return JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));
}

export const island = read("island.json");
export const sentences = read("sentences.json");

// A data URL makes node read the file as the module it is in the page, whatever package.json says.
const files = ["choice.js", "live.js", "display.js", "form.js"];
const source = files.map((name) => readFileSync(new URL(`templates/${name}`, root), "utf8")).join("");
export const form = await import(`data:text/javascript,${encodeURIComponent(source)}`);
