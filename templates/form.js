// Makes the form livelier: presets fill in the fields, numbers step, a sentence says what is asked for. It refuses
// nothing: what may be asked for is decided by the server alone. Data comes from the JSON island (version 1).
// First the arithmetic (no document; tested with node), then the page.

const GIB = { K: 1 / 1024 ** 2, M: 1 / 1024, G: 1, T: 1024 };

/** Cores in "2", "0.5" or "500m"; GiB in "8", "8G", "8 gb", "8GiB" or "8192M"; NaN in anything else. */
export function amountOf(name, text) {
  const found = /^(\d+\.?\d*|\.\d+)(?:(m)| ?([KMGTkgt]|m(?=[iIbB]))[iI]?[bB]?)?$/.exec(text.trim());
  if (!found) return NaN;
  const [, digits, millis, prefix] = found;
  if (millis) return name === "cpu" ? Number(digits) / 1000 : NaN;
  if (prefix) return name === "memory" ? Number(digits) * GIB[prefix.toUpperCase()] : NaN;
  return Number(digits);
}

/** A number as the fields hold it: no exponent, no trailing zeros. */
export function textOf(number) {
  return number.toFixed(6).replace(/\.?0+$/, "");
}

/** The next value up (+1) or down (-1) on the grid that starts at `bounds.min`, inside the bounds. */
export function stepped(name, text, direction, bounds) {
  const [min, max, step] = [bounds.min, bounds.max, bounds.step].map(Number);
  const amount = amountOf(name, text);
  if (Number.isNaN(amount)) return textOf(Number(bounds.default));
  const place = (amount - min) / step;
  const near = Math.abs(place - Math.round(place)) < 1e-9 ? Math.round(place) : place;
  const next = direction > 0 ? Math.floor(near) + 1 : Math.ceil(near) - 1;
  const last = Math.floor((max - min) / step + 1e-9);
  return textOf(min + Math.min(Math.max(next, 0), last) * step);
}

/** A sentence about what is wrong with a number, empty when nothing is. */
export function complaintOf(name, text, bounds) {
  const amount = amountOf(name, text);
  const unit = { cpu: " cores", memory: " GiB" }[name] ?? "";
  if (Number.isNaN(amount)) {
    return `Write a number, for example ${bounds.default}${name === "memory" ? "G" : ""}.`;
  }
  const [min, max, step] = [bounds.min, bounds.max, bounds.step].map(Number);
  if (amount < min || amount > max) return `From ${bounds.min} to ${bounds.max}${unit} can be asked for.`;
  const place = (amount - min) / step;
  return Math.abs(place - Math.round(place)) < 1e-6 ? "" : `Goes in steps of ${bounds.step}${unit}.`;
}

/** The image and GPU type behind the values, undefined where none is picked. */
export function chosen(values, data) {
  return {
    image: data.images.find((image) => image.slug === values.image),
    gpu: values.gpu ? data.gpus.find((gpu) => gpu.slug === values.gpu) : undefined,
  };
}

/** Bounds of the number of GPUs, in the form of the other numbers' bounds. */
export function countBounds(gpu) {
  return { min: "1", max: String(gpu.max_count), step: "1", default: "1" };
}

/** GPUs asked for: an empty field means one. */
function countOf(values) {
  return values.gpu_count.trim() === "" ? 1 : amountOf("gpu_count", values.gpu_count);
}

/** Field names whose number is wrong. */
export function wrongNumbers(values, data) {
  const wrong = ["cpu", "memory"].filter((name) => data[name] && complaintOf(name, values[name], data[name]));
  const { gpu } = chosen(values, data);
  if (gpu && complaintOf("gpu_count", String(countOf(values)), countBounds(gpu))) wrong.push("gpu_count");
  return wrong;
}

/** In the largest unit that needs at most three decimals. */
function memoryText(gib) {
  const unit = ["T", "G", "M", "K"].find((each) => gib >= GIB[each] && Number.isInteger((gib * 1000) / GIB[each]));
  return unit ? `${textOf(gib / GIB[unit])} ${unit}iB` : `${textOf(gib)} GiB`;
}

/** What a GPU has may be no round number: two decimals are enough. */
function gpuMemoryText(gib) {
  return `${textOf(Number(gib.toFixed(2)))} GiB`;
}

/** Whether an image is made for the vendor of a GPU. */
function suits(image, gpu) {
  return !gpu || !image?.vendors || image.vendors.includes(gpu.vendor);
}

/** What is asked for as a sentence, empty where it cannot be started; the server writes the same one. */
export function sentenceOf(values, data) {
  const { image, gpu } = chosen(values, data);
  if (!image || (values.gpu && !gpu) || wrongNumbers(values, data).length || !suits(image, gpu)) return "";
  const parts = [];
  if (data.cpu) {
    const cores = amountOf("cpu", values.cpu);
    parts.push(`${textOf(cores)} ${cores <= 1 ? "CPU" : "CPUs"}`);
  }
  if (data.memory) parts.push(memoryText(amountOf("memory", values.memory)));
  parts.push(gpu ? `${countOf(values)} × ${gpu.display_name}` : "no GPU");
  const last = parts.pop();
  return `${image.display_name} with ${parts.length ? `${parts.join(", ")} and ` : ""}${last}`;
}

/** What stands in the sentence's place while there is none. */
function troubleOf(values, data) {
  const { image, gpu } = chosen(values, data);
  return suits(image, gpu) ? "Some values above need another look." : "This image and this GPU do not go together.";
}

/** GPU memory in total, empty without a GPU or where its memory is not known. */
export function totalOf(values, data) {
  const { gpu } = chosen(values, data);
  if (!gpu?.memory_gib || wrongNumbers(values, data).includes("gpu_count")) return "";
  const count = countOf(values);
  return `${count} × ${gpu.display_name} = ${gpuMemoryText(count * gpu.memory_gib)} GPU memory`;
}

/** A word where the image is not made for the vendor of the GPU, or not enough are free now. */
export function hintOf(values, data) {
  const { image, gpu } = chosen(values, data);
  if (!gpu) return "";
  const hints = [];
  if (!suits(image, gpu)) {
    hints.push(`${image.display_name} is made for ${image.made_for}: it cannot use this GPU.`);
  }
  const count = countOf(values);
  if (gpu.free !== null && count > gpu.free && count <= gpu.max_count) {
    const free = gpu.free === 0 ? "None" : `Only ${gpu.free}`;
    hints.push(`${free} of ${gpu.total} ${gpu.free === 1 ? "is" : "are"} free right now: the server may have to wait.`);
  }
  return hints.join(" ");
}

/** Whether the fields hold exactly what a preset stands for, however the numbers are written. */
export function holdsPreset(values, preset, data) {
  const wanted = preset.values;
  if (values.image !== wanted.image || values.gpu !== wanted.gpu) return false;
  if (wanted.gpu && countOf(values) !== countOf(wanted)) return false;
  const equal = (name) => !data[name] || amountOf(name, values[name]) === amountOf(name, wanted[name]);
  return equal("cpu") && equal("memory");
}

const NUMBERS = ["cpu", "memory", "gpu_count"];
const CHOICES = ["image", "gpu"];

/** Wire up the form that `root` lies in. */
function enhance(root, form, data) {
  const find = (id) => root.querySelector(`#gpuspawner-${id}`);
  const radios = (name) => [...root.querySelectorAll(`input[name=${name}]`)];
  const inputs = Object.fromEntries(NUMBERS.map((name) => [name, find(name)]));

  function read() {
    const picked = (name) => radios(name).find((radio) => radio.checked)?.value;
    const typed = NUMBERS.map((name) => [name, inputs[name]?.value ?? ""]);
    return { image: picked("image") ?? "", gpu: picked("gpu") ?? "", ...Object.fromEntries(typed) };
  }

  function boundsOf(name) {
    if (name !== "gpu_count") return data[name];
    const { gpu } = chosen(read(), data);
    return gpu && countBounds(gpu);
  }

  function say(element, text) {
    if (!element) return;
    element.hidden = !text;
    if (element.textContent !== text) element.textContent = text;
  }

  /** What the server said about a field is over once the field is changed. */
  function settle(name) {
    find(`${name}-error`)?.remove();
    const controls = inputs[name] ? [inputs[name]] : radios(name);
    controls.forEach((control) => control.removeAttribute("aria-invalid"));
    inputs[name]?.parentElement.classList.remove("gs-wrong");
  }

  function complain(name, { whileTyping = false } = {}) {
    const bounds = boundsOf(name);
    if (!inputs[name] || !bounds) return;
    const text = inputs[name].value.trim() && complaintOf(name, inputs[name].value, bounds);
    const live = find(`${name}-live`);
    if (!whileTyping || !text || !live.hidden) say(live, text);
  }

  /** The count belongs to a GPU type: gone without one, bounded by the one picked. */
  function updateCount(values) {
    const input = inputs.gpu_count;
    if (!input) return;
    const { gpu } = chosen(values, data);
    const block = find("count");
    block.hidden = !gpu && !find("gpu_count-error");
    input.disabled = !gpu;
    if (!gpu) return;
    const row = radios("gpu").find((radio) => radio.checked).closest("label");
    if (row.nextElementSibling !== block) row.after(block);
    if (!input.value) input.value = "1";
    input.max = gpu.max_count;
    say(find("gpu_count-help"), gpu.max_count > 1 ? `1 to ${gpu.max_count} in one server` : "one in a server");
  }

  function updateSteps(values) {
    root.querySelectorAll("[data-step]").forEach((button) => {
      const { for: name, step } = button.dataset;
      const bounds = boundsOf(name);
      const amount = amountOf(name, values[name]);
      const atEnd = !bounds || (step > 0 ? amount >= Number(bounds.max) : amount <= Number(bounds.min));
      button.setAttribute("aria-disabled", atEnd); // not `disabled`: the focus would be lost with the last step
    });
  }

  function update() {
    updateCount(read());
    const values = read();
    updateSteps(values);
    say(find("sentence"), sentenceOf(values, data) || troubleOf(values, data));
    say(find("total"), totalOf(values, data));
    say(find("hint"), hintOf(values, data));
    presets().forEach(([button, preset]) => button.setAttribute("aria-pressed", holdsPreset(values, preset, data)));
  }

  function presets() {
    return data.presets.map((preset, index) => [find(`preset-${index + 1}`), preset]).filter(([button]) => button);
  }

  function fill(wanted) {
    for (const name of CHOICES) {
      radios(name).forEach((radio) => { radio.checked = radio.value === wanted[name]; });
      settle(name);
    }
    for (const name of NUMBERS.filter((each) => inputs[each])) {
      inputs[name].value = wanted[name];
      settle(name);
    }
    update();
    NUMBERS.forEach((name) => complain(name));
    find("summary").scrollIntoView({ block: "nearest" });
  }

  function step(name, direction) {
    const bounds = boundsOf(name);
    if (!bounds) return;
    inputs[name].value = stepped(name, inputs[name].value, direction, bounds);
    settle(name);
    complain(name);
    update();
  }

  function showVendor(slug) {
    root.querySelectorAll(".gs-filter button").forEach((button) => {
      button.setAttribute("aria-pressed", button.dataset.vendor === slug);
    });
    root.querySelectorAll(".gs-vendor").forEach((group) => {
      const wanted = !slug || group.dataset.vendor === slug;
      // The type that is picked stays in sight: a filter changes what is shown, never what is asked for.
      const rows = [...group.querySelectorAll(".gs-choice")];
      rows.forEach((row) => { row.hidden = !wanted && !row.querySelector(":checked"); });
      group.hidden = rows.every((row) => row.hidden);
    });
  }

  root.addEventListener("input", ({ target }) => {
    if (![...CHOICES, ...NUMBERS].includes(target.name)) return; // a site's own field
    settle(target.name);
    update();
    complain(target.name, { whileTyping: true });
    if (target.name === "gpu") complain("gpu_count");
  });
  root.addEventListener("change", ({ target }) => complain(target.name));
  root.addEventListener("keydown", (event) => {
    const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!direction || !NUMBERS.includes(event.target.name)) return;
    event.preventDefault();
    step(event.target.name, direction);
  });
  root.querySelectorAll("[data-step]").forEach((button) => {
    button.hidden = false;
    button.tabIndex = -1; // the arrow keys do the same in the field itself
    button.addEventListener("click", () => step(button.dataset.for, Number(button.dataset.step)));
  });
  root.querySelectorAll(".gs-filter").forEach((filter) => {
    filter.hidden = false;
    filter.addEventListener("click", ({ target }) => {
      if (target.dataset.vendor !== undefined) showVendor(target.dataset.vendor);
    });
  });
  presets().forEach(([button, preset]) => {
    button.type = "button";
    button.querySelector(".gs-action")?.remove();
    button.addEventListener("click", () => fill(preset.values));
  });
  window.addEventListener("pageshow", update); // the browser may have put older values back
  find("summary").hidden = false;
  update();
  find("errors")?.focus();
}

/** Keep Start from being pressed twice, and bring it back when the page is shown again. */
function guard(form, start) {
  let sent = false;
  document.addEventListener("submit", (event) => {
    if (event.target !== form) return;
    if (sent) {
      event.preventDefault();
      event.stopPropagation(); // the hub's own handler would show Start again
      return;
    }
    sent = true;
    // Only after the browser has read the form: a disabled button is left out of it.
    setTimeout(() => start?.setAttribute("disabled", ""));
  }, { capture: true });
  window.addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    sent = false;
    start?.removeAttribute("disabled");
    start?.classList.remove("hidden");
    form.querySelectorAll(".feedback-widget").forEach((widget) => {
      widget.classList.add("hidden");
      widget.firstElementChild?.classList.remove("fa-pulse");
    });
  });
}

if (typeof document !== "undefined") {
  const root = document.getElementById("gpuspawner-form");
  const form = root?.closest("form");
  if (form) {
    const feedback = form.querySelector(".feedback-container");
    if (feedback) root.querySelector("#gpuspawner-summary").append(feedback);
    guard(form, feedback?.querySelector("button"));
    enhance(root, form, JSON.parse(document.getElementById("gpuspawner-data").textContent));
  }
}
