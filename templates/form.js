// Makes the form livelier: presets fill in the fields, numbers step, a sentence says what is asked for. Data comes from the
// JSON island; choice.js and live.js know what to make of it, display.js keeps it new.

const TYPED = ["custom_image", ...NUMBERS];

/** Say a choice by its name, and the rest as its description; without a script its button has all of it as name. */
function nameChoice(radio, number) {
  const row = radio.closest("label");
  // The server leaves out what there is nothing to say about: there may be many rows.
  if (!row.querySelector(".gs-reason")) row.lastElementChild.before(made("small", { className: "gs-reason" }));
  radio.id ||= `gpuspawner-${radio.name}-${number}`;
  const [name, ...about] = all(row, "b, small, :has(> .gs-free)").map((part, index) => {
    part.id = `${radio.id}-${index}`;
    return part.id;
  });
  if (radio.name === "gpu" && radio.value) about.push("gpuspawner-misfit"); // said once for all of them
  radio.setAttribute("aria-labelledby", name);
  radio.setAttribute("aria-describedby", `${radio.getAttribute("aria-describedby") ?? ""} ${about.join(" ")}`.trim());
}

/** Wire up the form that `root` lies in. */
function enhance(root, data, session) {
  const find = (id) => root.querySelector(`#gpuspawner-${id}`);
  const radios = (name) => all(root, `input[name=${name}]`);
  const picked = (name) => radios(name).find((radio) => radio.checked);
  const inputs = Object.fromEntries(TYPED.map((name) => [name, find(name)]));
  const choices = ["image", "gpu", ...namesOfChoices(data)];

  function read() {
    const checked = choices.map((name) => [name, picked(name)?.value ?? ""]);
    const typed = TYPED.map((name) => [name, inputs[name]?.value ?? ""]);
    return Object.fromEntries([...checked, ...typed]);
  }

  /** What the server said about a field is over once the field is changed. */
  function settle(name) {
    find(`${name}-error`)?.remove();
    const controls = inputs[name] ? [inputs[name]] : radios(name);
    controls.forEach((control) => control.removeAttribute("aria-invalid"));
    inputs[name]?.parentElement.classList.remove("gs-wrong");
  }

  function complain(name, { whileTyping = false } = {}) {
    const bounds = NUMBERS.includes(name) && boundsOf(name, read(), data);
    if (!inputs[name] || !bounds) return;
    const { value, required } = inputs[name];
    const text = value.trim() || required ? complaintOf(name, value, bounds) : "";
    const live = find(`${name}-live`);
    if (!whileTyping || !text || !live.hidden) say(live, text);
  }

  /** The reference belongs to the card of an image that has none: gone without it. */
  function updateReference(values) {
    const input = inputs.custom_image;
    if (!input) return;
    input.disabled = Boolean(values.image);
    find("own").hidden = input.disabled && !find("custom_image-error");
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
    const row = picked("gpu").closest("label");
    if (row.nextElementSibling !== block) row.after(block);
    if (!input.value) input.value = "1";
    input.max = gpu.max_count;
    say(find("gpu_count-help"), gpu.max_count > 1 ? t("1–{most} per server", { most: gpu.max_count }) : t("1 per server"));
  }

  function updateSteps(values) {
    all(root, "[data-step]").forEach((button) => {
      const { for: name, step } = button.dataset;
      const bounds = boundsOf(name, values, data);
      const [amount, min, max] = [values[name], bounds?.min, bounds?.max].map((text) => text && amountOf(name, text));
      const atEnd = !bounds || (step > 0 ? amount >= max : amount <= min);
      set(button, "aria-disabled", atEnd); // not `disabled`: the focus would be lost with the last step
    });
  }

  function update() {
    updateCount(read());
    const values = read();
    updateReference(values);
    updateSteps(values);
    write(find("copied"), "");
    presets().forEach(([button, preset]) => set(button, "aria-pressed", holdsPreset(values, preset, data)));
    changed();
  }

  function presets() {
    return data.presets.map((preset, index) => [find(`preset-${index + 1}`), preset]).filter(([button, { slug }]) => button?.value === slug);
  }

  function fill(wanted) {
    for (const name of choices) {
      radios(name).forEach((radio) => { radio.checked = radio.value === wanted[name]; });
      settle(name);
    }
    for (const name of TYPED.filter((each) => inputs[each])) {
      // A reference that was written stays there beside a preset's image.
      if (name !== "custom_image" || wanted[name]) inputs[name].value = wanted[name];
      settle(name);
    }
    const isUnusual = (name) => inputs[name] && wanted[name] !== (data[name].default ?? "");
    const isDefault = ({ name, entries }) => wanted[name] === entries[0].slug;
    if (find("more") && (!data.choices.every(isDefault) || ["run_time", "shared_memory"].some(isUnusual))) open("more");
    update();
    NUMBERS.forEach((name) => complain(name));
    find("summary").scrollIntoView({ block: "nearest" });
  }

  function step(name, direction) {
    const bounds = boundsOf(name, read(), data);
    if (!bounds) return;
    inputs[name].value = stepped(name, inputs[name].value, direction, bounds);
    settle(name);
    update();
    conclude(name);
  }

  /** A field was left, or stepped: say what is wrong with it, and with what is a part of it. */
  function conclude(name) {
    complain(name);
    if (name === "memory") complain("shared_memory");
  }

  function open(id) {
    find(id).open = true;
  }

  /** Browsers hand the clipboard to pages on https and on this machine only; elsewhere the person copies by hand. */
  async function copyLink() {
    const link = linkOf(read(), data, location.href);
    try {
      await navigator.clipboard.writeText(link);
      write(find("copied"), t("Link copied. Opening it starts this server at once."));
    } catch {
      window.prompt(t("Opening this link starts this server at once:"), link);
    }
  }

  function showVendor(slug) {
    all(root, ".gs-filter button").forEach((button) => {
      set(button, "aria-pressed", button.dataset.vendor === slug);
    });
    all(root, ".gs-vendor").forEach((group) => {
      const wanted = !slug || group.dataset.vendor === slug;
      // The type that is picked stays in sight: a filter changes what is shown, never what is asked for.
      const rows = all(group, ".gs-rows > label");
      rows.forEach((row) => { row.hidden = !wanted && !row.querySelector(":checked"); });
      group.hidden = rows.every((row) => row.hidden);
    });
  }

  choices.forEach((name) => radios(name).forEach((radio, index) => nameChoice(radio, name === "gpu" ? index : index + 1)));
  const changed = keepLive(root, data, Object.assign(session, { find, read, fill, update, complain }));
  find("as-loaded")?.remove();
  inputs.custom_image?.setAttribute("required", ""); // a disabled field may be empty all the same
  on(root, "input", ({ target }) => {
    if (![...choices, ...TYPED].includes(target.name)) return; // a site's own field
    settle(target.name);
    update();
    complain(target.name, { whileTyping: true });
    if (target.name === "gpu") ["gpu_count", "run_time"].forEach((name) => complain(name));
    if (target.name === "memory") {
      settle("shared_memory");
      complain("shared_memory", { whileTyping: true });
    }
  });
  // A message moves what stands below it: not away from under a finger that presses it and so left the field.
  on(root, "change", ({ target }) => {
    const tell = () => conclude(target.name);
    if (root.matches(":active")) on(document, "pointerup", () => setTimeout(tell), { once: true });
    else tell();
  });
  on(root, "keydown", (event) => {
    const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!direction || !NUMBERS.includes(event.target.name)) return;
    event.preventDefault();
    step(event.target.name, direction);
  });
  all(root, "[data-step]").forEach((button) => {
    button.hidden = false;
    button.tabIndex = -1; // the arrow keys do the same in the field itself
    on(button, "click", () => step(button.dataset.for, Number(button.dataset.step)));
  });
  all(root, ".gs-filter").forEach((filter) => {
    filter.hidden = false;
    on(filter, "click", ({ target }) => {
      if (target.dataset.vendor !== undefined) showVendor(target.dataset.vendor);
    });
  });
  presets().forEach(([button, preset]) => {
    button.type = "button";
    button.querySelector(".gs-action")?.remove();
    on(button, "click", () => fill(preset));
  });
  on(find("link"), "click", copyLink);
  // What the browser complains of must be in sight; it tells nothing of a field that is not.
  on(root, "invalid", ({ target }) => {
    ["custom", "more"].forEach((id) => { if (find(id)?.contains(target)) open(id); });
  }, { capture: true });
  on(window, "pageshow", update); // the browser may have put older values back
  find("summary").hidden = false;
  update();
  find("errors")?.focus();
}

if (typeof document !== "undefined") {
  const root = document.getElementById("gpuspawner-form");
  const form = root?.closest("form");
  if (form) {
    const feedback = form.querySelector(".feedback-container");
    const start = feedback?.querySelector("button");
    if (start?.textContent.trim() === "Start") write(start, t("Start"));
    const session = keepSession(root, form, start);
    const [data, summary] = [islandOf(document), root.querySelector("#gpuspawner-summary")];
    // With data of another version, or in a site's form without its parts, the form is what it is without a script.
    if (data && summary) {
      if (feedback) summary.append(feedback);
      enhance(root, data, session);
    }
  }
}
