// The bar with the verdict and Start, what it unfolds, and amounts that suit the GPU that is picked; comes after display.js.

const SHARED = { cpu: 1000, memory: 1024 ** 3 }; // in the order and the units of a GPU type's share

/** What the GPUs that are picked have on their node, as the fields hold it: field name → text; the server says the same. */
export function suggestionOf(values, data) {
  const { gpu } = chosen(values, data);
  const found = {};
  if (!gpu?.share || wrongNumbers(values, data).includes("gpu_count")) return found;
  Object.entries(SHARED).forEach(([name, unit], index) => {
    if (!data[name]) return;
    const [min, max, step] = amountsOf(name, data[name]);
    const most = Math.min((gpu.share[index] / unit) * countOf(values), max);
    if (most >= min) found[name] = textOf(min + Math.floor((most - min) / step + 1e-9) * step);
  });
  return found;
}

/** The same as a sentence, empty where the fields hold it already. */
export function suggestionText(values, data) {
  const found = suggestionOf(values, data);
  if (Object.entries(found).every(([name, text]) => amountOf(name, values[name]) === amountOf(name, text))) return "";
  const { gpu } = chosen(values, data);
  const amounts = amountParts({ ...values, cpu: "", memory: "", ...found }, data);
  const gpus = t("{number} × {gpu}", { number: countOf(values), gpu: gpu.display_name });
  return t("Suggested for {gpus}: {amounts} (share of the node)", { gpus, amounts: joined(amounts) });
}

/** An image that can use the GPU that is picked, undefined where the one that is picked can, and where none can. */
export function fittingImage(values, data) {
  const { image, gpu } = chosen(values, data);
  return misfitOf(image, gpu) ? data.images.find((each) => !misfitOf(each, gpu)) : undefined;
}

parts.push((root, data, form) => {
  const { find, read } = form;
  const [summary, sum, toggle] = ["summary", "sum", "toggle"].map(find);
  // Nothing that a person chose is replaced: the image of a first preset, or the first image, was nobody's choice.
  let isImageOurs = root.hasAttribute("data-fresh");

  function open(isOpen) {
    if (!toggle || !sum) return;
    sum.hidden = !isOpen;
    set(toggle, "aria-expanded", isOpen);
  }

  /** What opens is in sight, above the bar. */
  function reveal(element) {
    setTimeout(() => element && !element.hidden && element.open !== false && element.scrollIntoView({ block: "nearest" }));
  }

  function suggest() {
    const inputs = Object.entries(suggestionOf(read(), data)).map(([name, text]) => Object.assign(find(name), { value: text }));
    inputs.forEach((input) => input.dispatchEvent(new Event("input", { bubbles: true })));
    inputs[0]?.focus();
  }

  /** The image comes after the GPU: one that was only there at first makes room for one that can use it. */
  function fitImage() {
    const values = read();
    say(find("fitted"), "");
    const image = isImageOurs && fittingImage(values, data);
    if (!image) return;
    const { image: other, gpu } = chosen(values, data);
    rowOf(root, "image", image.slug).querySelector("input").checked = true;
    const told = find("fitted") ?? made("p", { id: "gpuspawner-fitted", role: "status" });
    told.classList.add("gs-says", "gs-notice");
    find("images")?.querySelector("legend").after(told);
    const names = { image: image.display_name, other: other.display_name, gpu: gpu.display_name };
    say(told, t("{image} is selected: {other} can't be used with {gpu}.", names));
    form.update();
  }

  if (toggle) {
    toggle.hidden = false;
    open(false);
    on(toggle, "click", () => open(sum.hidden));
    // What is unfolded covers fields: it makes way for the one that gets the focus.
    on(document, "focusin", ({ target }) => { if (!summary.contains(target)) open(false); });
    on(summary, "keydown", ({ key }) => {
      if (!/^escape$/i.test(key) || sum.hidden) return;
      open(false);
      toggle.focus();
    });
    on(find("alternatives"), "click", ({ target }) => {
      if (!target.closest("button")) return;
      open(false);
      find("verdict").focus();
    });
  }
  on(find("suggest"), "click", suggest);
  on(root, "input", ({ target }) => {
    if (target.name === "image") {
      isImageOurs = false;
      say(find("fitted"), "");
      reveal(find("own"));
    }
    if (target.name !== "gpu") return;
    fitImage();
    reveal(find("count"));
  });
  on(root, "click", ({ target }) => {
    const preset = target.closest(".gs-preset");
    if (preset) isImageOurs = false;
    reveal(target.closest("summary")?.parentElement);
  });
  all(root, ".gs-preset").forEach((button) => ["data-picked", "aria-current"].forEach((name) => button.removeAttribute(name)));

  return (values) => {
    const { gpu } = chosen(values, data);
    const preset = root.querySelector(".gs-preset[aria-pressed=true] b")?.textContent;
    const gpus = gpu ? t("{number} × {gpu}", { number: values.gpu_count || 1, gpu: gpu.display_name }) : t("No GPU");
    say(find("brief"), joined([...(preset ? [preset] : []), gpus]));
    const suggestion = suggestionText(values, data);
    find("suggestion")?.toggleAttribute("hidden", !suggestion);
    write(find("suggested"), suggestion);
    find("suggest")?.toggleAttribute("hidden", !suggestion);
    const number = find("alternatives")?.children.length;
    set(toggle, "data-number", number || "");
    write(toggle?.firstElementChild, number ? t("Alternatives ({number})", { number }) : t("Details"));
  };
});
