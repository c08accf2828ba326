// Whether a choice can start, as far as the counts in the page tell, and how the page asks the server again. No document
// here either: tested with node.

const REFRESH_MS = 10_000;
const SETTLE_MS = 300;
const LONGEST_MS = 60_000;
const RAREST_MS = 90_000;
const LONGEST_TEXT = 200;
const OLD_S = 60;
const LATE_S = 15; // how old counts may be when they come, and how late

const NOT_KNOWN = told("unknown", t("Availability unknown: {reason}.", { reason: t("the hub can't read what is free") }));
const NO_AGE = t("the data about the cluster is out of date");
const CHECKING = told("checking", t("Checking…"));

/** A verdict of this page's own, which knows of no alternatives. */
function told(outcome, sentence) {
  return { outcome, sentence, alternatives: [] };
}

/** What the form would send: field name → text. What is typed for an image or GPU that is not picked stays out of it. */
export function sentValues(values, data) {
  const names = ["image", ...[...AMOUNTS, "shared_memory"].filter((name) => data[name]), "gpu"];
  const sent = Object.fromEntries(names.map((name) => [name, values[name].trim().slice(0, LONGEST_TEXT)]));
  if (data.custom_image && !values.image) sent.custom_image = referenceOf(values);
  for (const name of namesOfChoices(data)) sent[name] = values[name];
  if (values.gpu) sent.gpu_count = values.gpu_count.trim().slice(0, LONGEST_TEXT) || "1";
  return sent;
}

/** Values as a request header carries them: JSON in plain ASCII. */
export function headerOf(sent) {
  const escaped = (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(sent).replace(/[^\x20-\x7e]/g, escaped);
}

/**
 * The address of the page with these values in its query, for the person who opens it and not for the one that this page
 * is about.
 */
export function linkOf(values, data, address) {
  const link = new URL(address);
  link.pathname = link.pathname.replace(/(\/spawn)\/.*/, "$1");
  link.hash = "";
  const named = Object.entries(sentValues(values, data)).map(([name, text]) => [data.link_prefix + name, text]);
  link.search = new URLSearchParams(named);
  return link.href;
}

let oldAfter = OLD_S;

/** Counts are old once newer ones should have come, which the server may ask for as rarely as this. */
export function expectNext(seconds) {
  oldAfter = Math.max(OLD_S, seconds + LATE_S);
}

/** "as of 2 min ago" for what is too old to go by, empty for what is not. */
export function ageText(seconds) {
  if (seconds === null || seconds <= oldAfter) return "";
  const minutes = Math.floor(seconds / 60);
  if (minutes < 2) return t("as of {seconds} s ago", { seconds: Math.floor(seconds) });
  if (minutes < 90) return t("as of {minutes} min ago", { minutes });
  return t("as of {hours} h ago", { hours: Math.floor(minutes / 60) });
}

/** The same as a verdict. */
function tooOld(age) {
  const minutes = Math.floor(age / 60);
  let reason = t("last update {hours} h ago", { hours: Math.floor(minutes / 60) });
  if (minutes < 90) reason = t("last update {minutes} min ago", { minutes });
  if (minutes < 2) reason = t("last update {seconds} s ago", { seconds: Math.floor(age) });
  return told("unknown", t("Availability unknown: {reason}.", { reason: age === null ? NO_AGE : reason }));
}

/** How much of an amount has to be free on a node, in cores or GiB. */
function requestedOf(name, values, data) {
  const { request, guarantee } = data[name];
  const amount = values[name].trim() ? amountOf(name, values[name]) : Infinity;
  if (request) return Math.min(amountOf(name, request), amount);
  return amount === Infinity ? 0 : amount * guarantee;
}

/** [millicores, MiB] that have to be free on a node, null where the form does not say. */
function requestOf(values, data) {
  if (!data.cpu || !data.memory) return null;
  const whole = (name, unit) => Math.ceil(requestedOf(name, values, data) * unit - 1e-3);
  return [whole("cpu", 1000), whole("memory", 1024)];
}

function holds(shapes, [cpu, memory], count) {
  return shapes.some((shape) => shape[0] >= cpu && shape[1] >= memory && shape[2] >= count);
}

function mostOf(shapes) {
  return Math.max(0, ...shapes.map((shape) => shape[2]));
}

/** Why a count does not fit at once, from what nodes have left. */
function shortage(gpu, count) {
  const { free, total } = gpu;
  if (free === 0) return total === 1 ? t("it is not free") : t("none of the {total} is free", { total });
  if (free < count) return tn("only {number} of {total} is free", "only {number} of {total} are free", free, { total });
  const most = mostOf(gpu.shapes);
  if (most && most < count) return t("no node has more than {most} of them free", { most });
  return t("no node with them has enough CPU and memory free");
}

/**
 * { outcome, sentence } of a choice as far as the counts tell, null where only the server can: of a choice without a GPU,
 * one that is wrong, and one that may get a new node.
 */
export function localVerdict(values, data) {
  const { gpu } = chosen(values, data);
  const denied = data.policy?.blocked || (gpu?.state === "denied" && gpu.reason);
  if (denied) return told("never", denied);
  if (!gpu || wrongNumbers(values, data).length) return null;
  if (gpu.state === "unknown") return NOT_KNOWN;
  if (gpu.state === "gone") return told("unknown", t("Availability unknown: {reason}.", { reason: t("no longer offered") }));
  const request = requestOf(values, data);
  const count = countOf(values);
  const least = request ?? [0, 0];
  if (holds(gpu.shapes, least, count)) return request && told("now", t("Starts now."));
  if (gpu.scales) return null;
  if (holds(gpu.largest_shapes, least, count)) {
    return told("waits", t("Will wait: {reason}.", { reason: shortage(gpu, count) }));
  }
  if (gpu.new_nodes) return null;
  const most = mostOf(gpu.largest_shapes);
  const never = (reason) => told("never", t("Can't start: {reason}.", { reason }));
  if (!most) return gpu.state === "never" ? never(t("the cluster has no node with this GPU")) : null;
  if (most < count) return never(t("no node has more than {most} of them", { most }));
  return never(t("no node with them has that much CPU and memory"));
}

/** Why one GPU of a type cannot start now with the CPU and memory asked for; empty where it can, or it is not known. */
export function reasonOf(gpu, values, data, age = 0) {
  if (gpu.state === "denied") return gpu.reason;
  if (ageText(age) && gpu.state !== "never") return "";
  if (gpu.state !== "free") return gpu.reason;
  const wrong = wrongNumbers({ ...values, gpu: "" }, data);
  const request = wrong.length ? null : requestOf(values, data);
  if (!request || holds(gpu.shapes, request, 1)) return "";
  if (holds(gpu.largest_shapes, request, 1)) return t("Not with this much CPU and memory right now.");
  return gpu.scales ? "" : t("Its nodes are too small for this much CPU and memory.");
}

/**
 * The verdict to show: the server's where it is about these very values, else what the counts tell, else that it is being
 * asked for. Old counts tell nothing any more, except that something is impossible. Null where there is none.
 */
export function shownVerdict(values, data, { isAnswered, isAsking, age }) {
  if (!sentenceOf(values, data)) return null;
  if (isAnswered && (age === null || data.verdict?.outcome === "never")) return data.verdict;
  const found = (isAnswered && data.verdict) || localVerdict(values, data);
  if (found?.outcome === "never") return found;
  if (age === null || ageText(age)) return tooOld(age);
  return found ?? (isAnswered ? null : isAsking ? CHECKING : NOT_KNOWN);
}

/**
 * Asks again and again while the page is visible, one question at a time: `REFRESH_MS` after the last, or after as many
 * milliseconds as `ask` returns; `SETTLE_MS` after `soon()`, at once after `now()`, and less and less often while `ask`
 * fails, which `onFailure` hears of. It ends when `ask` returns false.
 */
export function refresher({ ask, isVisible, onFailure, clock = globalThis, random = Math.random }) {
  let timer;
  let pause = REFRESH_MS;
  let [busy, again, over] = [false, false, false];
  let failures = 0;

  function plan(delay) {
    clock.clearTimeout(timer);
    timer = over || !isVisible() ? undefined : clock.setTimeout(run, delay);
  }

  async function run() {
    clock.clearTimeout(timer);
    if (busy) again = true;
    if (busy || over || !isVisible()) return;
    [busy, again] = [true, false];
    try {
      const found = await ask();
      over = !found || over;
      // Forms that got the same pause do not all ask at once.
      if (found > 1) pause = Math.min(Math.max(found, REFRESH_MS), RAREST_MS) * (1 - 0.05 * random());
      failures = 0;
    } catch {
      failures += 1;
      onFailure();
    }
    busy = false;
    const wait = failures ? Math.min(pause * 2 ** failures, LONGEST_MS) : pause;
    plan(again && !failures ? SETTLE_MS : wait);
  }

  return {
    now: run,
    soon() {
      if (busy) again = true;
      else if (!failures) plan(SETTLE_MS);
    },
    /** Start counting down to the next question, or stop doing so while the page is hidden. */
    rest: () => plan(pause),
    /** Whether an answer can be expected soon. */
    isHopeful: () => !over && !failures,
  };
}
