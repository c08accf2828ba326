// The form's script as the page gets it (one module of several files), and what tests/unit/core/test_formview.py checks against the Python side: the
// island of a sample form, and the sentences that both sides write about it.
import { appendFileSync, readFileSync } from "node:fs";

const root = new URL("../../../", import.meta.url);

function read(name) {
  return readFileSync(new URL(name, import.meta.url), "utf8");
}

export const sentences = JSON.parse(read(process.env.SENTENCES ?? "sentences.json"));

// A data URL makes node read the file as the module it is in the page, whatever package.json says.
const page = readFileSync(new URL("templates/form.html", root), "utf8");
const files = [...page.matchAll(/asset\("(\w+\.js)"\)/g)].map(([, name]) => name);
const asWritten = () => files.map((name) => readFileSync(new URL(`templates/${name}`, root), "utf8")).join("");
const source = process.env.SCRIPT_AS_SERVED ? readFileSync(process.env.SCRIPT_AS_SERVED, "utf8") : asWritten();
const script = await import(`data:text/javascript,${encodeURIComponent(source)}`);

export const island = JSON.parse(read(process.env.ISLAND ?? "island.json"));

// Data that the tests hand to the script is data that a page may hold: test_javascript.py compares all of it with the
// schema, by what the schema calls it.
const kinds = { island: "link_prefix", gpu: "shapes", preset: "outlook" };

/** Have a value compared with the schema that the script gets as text; returns the text. */
export function written(kind, value) {
  if (process.env.HANDED_TO_THE_SCRIPT) appendFileSync(process.env.HANDED_TO_THE_SCRIPT, `${JSON.stringify([kind, value])}\n`);
  return JSON.stringify(value);
}

function report(given) {
  for (const each of given.filter((value) => value && typeof value === "object")) {
    const kind = Object.keys(kinds).find((name) => kinds[name] in each);
    if (kind) written(kind, each);
  }
}

function reporting(call) {
  return (...given) => {
    report(given);
    return call(...given);
  };
}

/** For data that the script has already changed: they are no longer what a page holds. */
export const { renew } = script;

export const form = process.env.HANDED_TO_THE_SCRIPT
  ? Object.fromEntries(Object.entries(script).map(([name, call]) => [name, reporting(call)]))
  : script;
