// Makes the form livelier: presets fill in the fields, numbers step, a sentence says what is asked for. Data comes from the
// JSON island; choice.js and live.js know what to make of it, display.js keeps it new.

const TYPED = ["custom_image", ...NUMBERS];

/** Say a choice by its name, and the rest as its description; without a script its button has all of it as name. */
function nameChoice(radio, number) {
  const row = radio.closest("label");
  // The server leaves out what there is nothing to say about: there may be many rows.
  if (!row.querySelector(".gs-reason")) row.lastElementChild.prepend(made("span", { className: "gs-reason" }), " ");
  radio.id ||= `gpuspawner-${radio.name}-${number}`;
  const [name, ...about] = all(row, "b, small, :has(> .gs-free)").map((part, index) => {
    part.id = `${radio.id}-${index}`;
    return part.id;
  });
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
    const checked = choices.map((name) => [name, picked(name)?.value ?? (radios(name).length ? UNANSWERED : "")]);
    const typed = TYPED.map((name) => [name, held(name)]);
    return Object.fromEntries([...checked, ...typed]);
  }

  function held(name) {
    return plainIn(name, inputs[name]?.value ?? "");
  }

  /** Say what is wrong with a text field, as the server does. */
  function tell(name, text) {
    const [input, line] = [inputs[name], find(`${name}-error`)];
    if (line?.hasAttribute("data-sent")) return;
    say(line, text);
    if (text) set(input, "aria-invalid", true);
    else input.removeAttribute("aria-invalid");
    input.parentElement.classList.toggle("gs-wrong", Boolean(text));
  }

  /** What the server said about a field is over once the field is changed. */
  function settle(name) {
    const sent = find(`${name}-error`);
    if (inputs[name]) {
      if (!sent?.hasAttribute("data-sent")) return;
      sent.removeAttribute("data-sent");
      tell(name, "");
      return;
    }
    sent?.remove();
    radios(name).forEach((control) => control.removeAttribute("aria-invalid"));
  }

  /** The list of what was wrong when the page was loaded goes with the last wrong field. */
  function dropErrors() {
    if (!wrongFields(read(), data).length && all(root, ".gs-error").every((line) => line.hidden)) find("errors")?.remove();
  }

  function complain(name, { whileTyping = false } = {}) {
    const bounds = NUMBERS.includes(name) && boundsOf(name, read(), data);
    if (!inputs[name] || !bounds) return;
    const text = held(name).trim() || inputs[name].required ? complaintOf(name, held(name), bounds) : "";
    if (!whileTyping || !text || !find(`${name}-error`)?.hidden) tell(name, text);
  }

  /** The reference belongs to the card of an image that has none: gone without it. */
  function updateReference(values) {
    const input = inputs.custom_image;
    if (!input) return;
    input.disabled = Boolean(values.image);
    find("own").hidden = input.disabled && !find("custom_image-error")?.hasAttribute("data-sent");
  }

  /** The count belongs to a GPU type: gone without one, bounded by the one picked. */
  function updateCount(values) {
    const input = inputs.gpu_count;
    if (!input) return;
    const { gpu } = chosen(values, data);
    const block = find("count");
    input.disabled = !gpu;
    block.hidden = !gpu && !find("gpu_count-error")?.hasAttribute("data-sent");
    if (!gpu) return;
    const row = picked("gpu").closest("label");
    if (row.nextElementSibling !== block) row.after(block);
    const label = { mig: t("Number of slices"), shared: t("Number of shared GPUs") }[row.dataset.unit];
    write(block.querySelector("label"), label ?? t("Number of GPUs"));
    if (!input.value) input.value = "1";
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
      if (name !== "custom_image" || wanted[name]) inputs[name].value = name === "custom_image" ? wanted[name] : shown(wanted[name]);
      inputs[name].dataset.touched = ""; // a preset's amounts do not go with another GPU
      settle(name);
    }
    const isUnusual = (name) => inputs[name] && wanted[name] !== (data[name].default ?? "");
    const isDefault = ({ name, entries }) => wanted[name] === entries[0].slug;
    if (find("more") && (!data.choices.every(isDefault) || ["run_time", "shared_memory"].some(isUnusual))) open("more");
    update();
    NUMBERS.forEach((name) => complain(name));
    dropErrors();
    find("summary").scrollIntoView({ block: "nearest" });
  }

  function step(name, direction) {
    const bounds = boundsOf(name, read(), data);
    if (!bounds) return;
    inputs[name].value = shown(stepped(name, held(name), direction, bounds));
    inputs[name].dispatchEvent(new Event("input", { bubbles: true }));
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

  /** Links to the fields that have to be changed, below the sentence that counts them. */
  function showFixes(names) {
    const fixes = find("fixes") ?? made("ul", { id: "gpuspawner-fixes" });
    const sentence = find("sentence");
    if (!sentence || fixes.dataset.names === String(names)) return;
    sentence.after(fixes);
    fixes.dataset.names = names;
    fixes.replaceChildren(...names.filter(controlOf).map((name) => {
      const control = controlOf(name);
      const label = control.labels?.[0]?.matches(".gs-label") ? control.labels[0] : control.closest("fieldset").querySelector("legend");
      const link = made("a", { href: `#${control.id}`, textContent: label.textContent });
      on(link, "click", (event) => {
        event.preventDefault(); // the field may be folded in
        show(name);
      });
      const item = made("li");
      item.append(link);
      return item;
    }));
  }

  function controlOf(name) {
    return inputs[name] ?? picked(name) ?? radios(name)[0];
  }

  function show(name) {
    const control = controlOf(name);
    ["custom", "more"].forEach((id) => { if (find(id)?.contains(control)) open(id); });
    control.focus();
  }

  /** Instead of a start: each wrong field says what is wrong, and the first one gets the focus. Returns whether there is one. */
  function refuse() {
    TYPED.forEach((name) => complain(name));
    const wrong = wrongFields(read(), data).find(controlOf);
    if (wrong) show(wrong);
    return Boolean(wrong);
  }

  choices.forEach((name) => radios(name).forEach((radio, index) => nameChoice(radio, name === "gpu" ? index : index + 1)));
  const changed = keepLive(root, data, Object.assign(session, { find, read, fill, update, complain, tell, showFixes, refuse }));
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
    dropErrors();
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
  presets().forEach(([button, preset]) => {
    button.type = "button";
    button.querySelector(".gs-action")?.remove();
    on(button, "click", () => fill(preset));
  });
  on(find("link"), "click", () => copy(linkOf(read(), data, location.href), find("copied"), root.dataset.links));
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
