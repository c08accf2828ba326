// What a choice is and what it says: arithmetic and wording without a document, tested with node. It refuses nothing: what
// may be asked for is decided by the server alone. One script with language.js, which comes before it, and with live.js and form.js, which come after it.

// A character more than the server takes, for it to say so.
const LONGEST_REFERENCE = 521;
// Fields whose bounds are the site's, each null where the form has no such field.
const AMOUNTS = ["cpu", "memory", "run_time"];
const NUMBERS = [...AMOUNTS, "shared_memory", "gpu_count"];
const GIB = { K: 1 / 1024 ** 2, M: 1 / 1024, G: 1, T: 1024 };
const NUMBER = String.raw`(\d+\.?\d*|\.\d+)`;
const UNITS = [["day", 1440, "d(?:ays?)?"], ["hour", 60, "h(?:ours?)?"], ["minute", 1, "m(?:in(?:utes?)?)?"]];
// No template literal inside another one: rjsmin, which minifies this file for the wheel, cannot read that.
const LENGTH_PARTS = UNITS.map(([, , unit]) => `(?:${NUMBER} ?${unit})?`);
const LENGTH = new RegExp(`^${LENGTH_PARTS.join(" ?")}$`, "i");
const HOURS = new RegExp(`^${NUMBER}$`);

/** The value of a choice of which nothing is picked; "" is the custom image, or no GPU. */
const UNANSWERED = "?"; // which no slug has

// Numbers are plain in here ("0.5"); a language says by this message how the page shows them.
const HAS_COMMA = t("0.5").includes(",");
const RUN = /[.,]*\d[\d.,]*/g;
// Thousands or zeros behind the decimal mark? Who writes "1.000" may mean either.
const UNCLEAR = /(^|[^\d.,])[1-9]\d{0,2}\.\d\d0(?![\d.,])/;

function swapped(run) {
  return run.replace(/[.,]/g, (mark) => (mark === "." ? "," : "."));
}

/** A plain amount as the page's language writes it. */
export function shown(text) {
  return HAS_COMMA ? text.replace(RUN, swapped) : text;
}

/** What was typed in the page's language as a plain amount, with a comma in it where it is no number; shown() undoes it. */
export function plain(text) {
  const isOwn = (run) => /,|^.*\..*\.|^[1-9]\d{0,2}\.\d{3}$/.test(run);
  return HAS_COMMA ? text.replace(RUN, (run) => (isOwn(run) ? swapped(run) : run)) : text;
}

/** What a field holds, in the notation of data, links and server. */
export function plainIn(name, text) {
  return AMOUNTS.includes(name) || isMemory(name) ? plain(text) : text;
}

/** What a text with commas, or an unclear one, may mean: with thousands, and with decimals. */
function readingsOf(name, text) {
  const run = text.match(RUN)?.[0] ?? "";
  const either = /^([1-9]\d{0,2})[.,](\d{3})$/.exec(run);
  let found = [];
  if (either) found = [either[1] + either[2], `${either[1]}.${either[2]}`.replace(/\.?0+$/, "")];
  else if (/^\d{1,3}(,\d{3})+(\.\d*)?$/.test(run)) found = [run.replaceAll(",", "")];
  else if (/^\d*,\d+$/.test(run)) found = [run.replace(",", ".")];
  return found.map((each) => text.replace(run, each)).filter((each) => !Number.isNaN(amountOf(name, each)));
}

/** Minutes of a duration as "8h", "2h30m" or "2 days"; a number alone means hours; NaN in anything else. */
function minutesOf(text) {
  const parts = LENGTH.exec(HOURS.test(text) ? `${text}h` : text)?.slice(1) ?? [];
  if (!parts.some(Boolean)) return NaN;
  return parts.reduce((sum, part, index) => sum + Number(part ?? 0) * UNITS[index][1], 0);
}

/** How many days, hours and minutes there are, without those of which there is none; days from the second one on. */
function partsOf(minutes) {
  let left = Math.round(minutes);
  const parts = UNITS.slice(left < 2880 ? 1 : 0).map(([unit, factor]) => {
    const number = Math.floor(left / factor);
    left -= number * factor;
    return [number, unit];
  });
  return parts.filter(([number]) => number);
}

function isMemory(name) {
  return name.endsWith("memory");
}

/**
 * Cores in "2", "0.5" or "500m"; GiB in "8", "8G", "8 gb", "8GiB" or "8192M"; minutes of a run time; NaN in anything
 * else.
 */
export function amountOf(name, text) {
  if (name !== "gpu_count" && UNCLEAR.test(text)) return NaN;
  if (name === "run_time") return minutesOf(text.trim());
  const found = /^(\d+\.?\d*|\.\d+)(?:(m)| ?([KMGTkgt]|m(?=[iIbB]))[iI]?[bB]?)?$/.exec(text.trim());
  if (!found) return NaN;
  const [, digits, millis, prefix] = found;
  if (millis) return name === "cpu" ? Number(digits) / 1000 : NaN;
  if (prefix) return isMemory(name) ? Number(digits) * GIB[prefix.toUpperCase()] : NaN;
  return Number(digits);
}

/** A number as the fields hold it: no exponent, no trailing zeros. */
export function textOf(number) {
  return number.toFixed(6).replace(/\.?0+$/, "");
}

/** An amount as its field holds it. */
function writtenOf(name, amount) {
  return name === "run_time" ? partsOf(amount).map(([number, unit]) => number + unit[0]).join("") : textOf(amount);
}

function amountsOf(name, { min, max, step }) {
  return [min, max, step].map((text) => amountOf(name, text));
}

/** The next value up (+1) or down (-1) on the grid that starts at `bounds.min`, inside the bounds. */
export function stepped(name, text, direction, bounds) {
  const [min, max, step] = amountsOf(name, bounds);
  const amount = amountOf(name, text);
  // Less than nothing said is nothing said.
  const mayBeEmpty = name === "shared_memory" || bounds.is_optional;
  if (Number.isNaN(amount)) return mayBeEmpty && direction < 0 && !text.trim() ? text : bounds.default;
  const place = (amount - min) / step;
  const near = Math.abs(place - Math.round(place)) < 1e-9 ? Math.round(place) : place;
  const next = direction > 0 ? Math.floor(near) + 1 : Math.ceil(near) - 1;
  const last = Math.floor((max - min) / step + 1e-9);
  return writtenOf(name, min + Math.max(Math.min(next, last), 0) * step);
}

/** A sentence about what is wrong with a number, empty when nothing is. */
export function complaintOf(name, text, bounds) {
  const amount = amountOf(name, text);
  const unit = isMemory(name) ? " GiB" : name === "cpu" ? ` ${t("cores")}` : "";
  if (Number.isNaN(amount)) {
    const [whole, decimal] = readingsOf(name, text.trim()).map(shown);
    if (decimal) return t("This could mean {whole} or {decimal}. Enter the one you mean.", { whole, decimal });
    if (whole) return t("Enter it as {number}.", { number: whole });
    const example = `${shown(bounds.default)}${isMemory(name) ? "G" : ""}`;
    if (name === "run_time") return t("Enter a duration, such as {example}.", { example });
    return t("Enter a number, such as {example}.", { example });
  }
  const [min, max, step] = amountsOf(name, bounds);
  // A part of the memory, of which there may be less than the least part.
  if (max < min) return t("Needs at least {least} of memory.", { least: shown(bounds.min) + unit });
  if (amount < min || amount > max) {
    const told = { least: shown(bounds.min), most: shown(bounds.max) + unit };
    return min === max ? t("Enter {most}.", told) : t("Enter {least} to {most}.", told);
  }
  const place = (amount - min) / step;
  // The default may lie between two steps.
  const isWhole = (number) => Math.abs(number - Math.round(number)) < 1e-6;
  if (name === "gpu_count") return /^\d+$/.test(text.trim()) ? "" : t("Enter a whole number.");
  if (isWhole(place) || amount === amountOf(name, bounds.default)) return "";
  const told = { least: shown(bounds.min), step: shown(bounds.step) + unit };
  return isWhole(min / step) ? t("Use a multiple of {step}.", told) : t("Use {least} plus a multiple of {step}.", told);
}

/** What is written as the reference of an image that has no card. */
export function referenceOf(values) {
  return values.custom_image.trim().slice(0, LONGEST_REFERENCE);
}

/** What the server said about that reference, undefined where it has not looked at it yet or takes no reference. */
function answerOf(values, data) {
  return referenceOf(values) === referenceOf(data.values) ? data.custom_image : undefined;
}

/** What the server said against that reference, empty where it takes it or has not looked at it yet. */
export function complaintOfReference(values, data) {
  return answerOf(values, data)?.complaint ?? "";
}

function customImage(values, data) {
  const reference = data.custom_image && !complaintOfReference(values, data) && referenceOf(values);
  if (!reference) return undefined;
  return { slug: "", display_name: reference, misfits: answerOf(values, data)?.misfits ?? [] };
}

function bySlug(list, wanted) {
  return list.find(({ slug }) => slug === wanted);
}

/** The image and GPU type behind the values, undefined where none is picked. */
export function chosen(values, data) {
  return {
    image: values.image ? bySlug(data.images, values.image) : customImage(values, data),
    gpu: bySlug(data.gpus, values.gpu),
  };
}

/** Names of the fields with a fixed list of entries. */
export function namesOfChoices(data) {
  return data.choices.map(({ name }) => name);
}

/** Bounds of the number of GPUs, in the form of the other numbers' bounds. */
export function countBounds(gpu) {
  return { min: "1", max: String(gpu.max_count), step: "1", default: "1" };
}

/** Bounds of the size of /dev/shm, which is a part of the memory; an empty field starts with the least. */
export function sharedBounds(values, data) {
  const { min, max, step } = data.shared_memory;
  const memory = data.memory ? amountOf("memory", values.memory) : NaN;
  return { min, max: memory < Number(max) ? textOf(memory) : max, step, default: min };
}

/** Bounds of a number beside the other values, nothing where it means nothing. */
export function boundsOf(name, values, data) {
  const { gpu } = chosen(values, data);
  if (name === "gpu_count") return gpu && countBounds(gpu);
  if (name === "shared_memory") return data[name] && sharedBounds(values, data);
  // Servers with some GPUs are stopped sooner.
  return (name === "run_time" && bySlug(data.policy?.times ?? [], values.gpu)?.run_time) || data[name];
}

/** GPUs asked for: an empty field means one. */
export function countOf(values) {
  return values.gpu_count.trim() === "" ? 1 : amountOf("gpu_count", values.gpu_count);
}

/** Field names whose number is wrong. */
export function wrongNumbers(values, data) {
  return NUMBERS.filter((name) => {
    const [text, bounds] = [values[name].trim(), boundsOf(name, values, data)];
    return bounds && (text || (AMOUNTS.includes(name) && !bounds.is_optional)) && complaintOf(name, text, bounds);
  });
}

/** In the largest unit that needs at most three decimals. */
function memoryText(gib) {
  const unit = ["T", "G", "M", "K"].find((each) => gib >= GIB[each] && Number.isInteger((gib * 1000) / GIB[each]));
  return shown(unit ? `${textOf(gib / GIB[unit])} ${unit}iB` : `${textOf(gib)} GiB`);
}

const LENGTHS = {
  day: (number) => tn("{number} day", "{number} days", number),
  hour: (number) => tn("{number} hour", "{number} hours", number),
  minute: (number) => tn("{number} minute", "{number} minutes", number),
};

function lengthText(minutes) {
  const parts = partsOf(minutes).map(([number, unit]) => LENGTHS[unit](number));
  return parts.reduce((longer, shorter) => t("{longer} {shorter}", { longer, shorter }));
}

/** What a GPU has may be no round number: two decimals are enough. */
function gpuMemoryText(gib) {
  return `${textOf(Number(gib.toFixed(2)))} GiB`;
}

/** Why an image cannot use a GPU, empty where it can. */
export function misfitOf(image, gpu) {
  return image?.misfits.find(({ gpus }) => gpus.includes(gpu?.slug))?.text ?? "";
}

function gpusText(values, data) {
  return t("{number} × {gpu}", { number: countOf(values) || "?", gpu: chosen(values, data).gpu?.display_name ?? "?" });
}

function joined(parts) {
  return parts.length ? parts.reduce((choice, part) => t("{choice} · {part}", { choice, part })) : "";
}

/** CPU and memory in words, without those that the form lacks or that are empty. */
function amountParts(values, data) {
  const parts = [];
  if (data.cpu && values.cpu.trim()) {
    const cores = amountOf("cpu", values.cpu);
    parts.push(tn("{amount} CPU", "{amount} CPUs", Math.ceil(cores), { amount: shown(textOf(cores)) }));
  }
  if (data.memory && values.memory.trim()) {
    parts.push(t("{memory} RAM", { memory: memoryText(amountOf("memory", values.memory)) }));
  }
  return parts;
}

/** Shared memory in words; nothing where the form lacks it or it is empty. */
function sharedParts(values, data) {
  if (!data.shared_memory || !values.shared_memory.trim()) return [];
  return [t("{memory} shared memory", { memory: memoryText(amountOf("shared_memory", values.shared_memory)) })];
}

/** Entries of the fields with a fixed list; the default goes without saying. */
function unusualParts(values, data) {
  return data.choices.map(({ name, entries }) => bySlug(entries.slice(1), values[name])?.phrase).filter(Boolean);
}

/** What is asked for as a sentence, empty where it cannot be started; the server writes the same one. */
export function sentenceOf(values, data) {
  const { image, gpu } = chosen(values, data);
  if (wrongFields(values, data).length || misfitOf(image, gpu)) return "";
  const parts = [image.display_name, ...amountParts(values, data), ...sharedParts(values, data)];
  parts.push(gpu ? gpusText(values, data) : t("no GPU"));
  if (data.run_time) parts.push(t("up to {length}", { length: lengthText(amountOf("run_time", values.run_time)) }));
  return joined([...parts, ...unusualParts(values, data)]);
}

/** Fields that have to be changed before anything can start, in the order in which the form shows them. */
export function wrongFields(values, data) {
  const { image, gpu } = chosen(values, data);
  const wrong = new Set(wrongNumbers(values, data));
  if (values.gpu && !gpu) wrong.add("gpu");
  if (!image) wrong.add(values.image || !data.custom_image ? "image" : "custom_image");
  const open = namesOfChoices(data).filter((name) => values[name] === UNANSWERED);
  return [...["gpu", "gpu_count", "cpu", "memory", "image", "custom_image", "run_time", "shared_memory"].filter((name) => wrong.has(name)), ...open];
}

/** What stands in the sentence's place while there is none. */
export function troubleOf(values, data) {
  const { image, gpu } = chosen(values, data);
  if (misfitOf(image, gpu)) return t("This image and this GPU can't be used together.");
  if (values.gpu === UNANSWERED) return t("Choose a GPU.");
  if (values.image === UNANSWERED) return t("Choose an image.");
  const number = wrongFields(values, data).length;
  return tn("Fix {number} field above to continue.", "Fix {number} fields above to continue.", number);
}

/** GPU memory in total, empty without a GPU, where its memory is not known, and where the GPU's name tells it. */
export function totalOf(values, data) {
  const { gpu } = chosen(values, data);
  if (!gpu?.memory_gib || wrongNumbers(values, data).includes("gpu_count")) return "";
  const number = countOf(values);
  const memory = gpuMemoryText(number * gpu.memory_gib);
  const isNamed = number === 1 && gpu.display_name.includes(` ${memory.replace("iB", "")}`);
  return isNamed ? "" : t("{memory} GPU memory", { memory: shown(memory) });
}

/** Why the image and the GPU that are picked cannot be used together, empty where they do. */
export function hintOf(values, data) {
  const { image, gpu } = chosen(values, data);
  return misfitOf(image, gpu);
}

/** Whether the fields hold exactly what a preset stands for, however the numbers are written. */
export function holdsPreset(values, wanted, data) {
  if (values.image !== wanted.image || values.gpu !== wanted.gpu) return false;
  if (wanted.gpu && countOf(values) !== countOf(wanted)) return false;
  if (namesOfChoices(data).some((name) => values[name] !== wanted[name])) return false;
  // An empty field is one that was left empty.
  const amount = (name, held) => held[name].trim() && amountOf(name, held[name]);
  return [...AMOUNTS, "shared_memory"].every((name) => !data[name] || amount(name, values) === amount(name, wanted));
}
