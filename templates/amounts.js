// Amounts to press instead of typing them: the share of the GPU that is picked, and common ones. Comes after display.js.

const SHARED = [["cpu", 1000], ["memory", 1024 ** 3]]; // in the order and the units of a GPU type's share
const FEWEST_COMMON = 3; // below that, "+" does just as well
const MOST_COMMON = 8;

/** A part of what the GPUs that are picked have on their node, as the fields hold it; nothing that is less than the default. */
function shareOf(values, data, part = 1, isFollowed = false) {
  const { gpu } = chosen(values, data);
  if (!gpu?.share || wrongNumbers(values, data).includes("gpu_count")) return {};
  const found = SHARED.map(([name, unit], index) => {
    if (!data[name]) return [name];
    const [min, max, step] = amountsOf(name, data[name]);
    const whole = (gpu.share[index] / unit) * countOf(values);
    // All that a quota leaves is for other servers, too: only a user takes it.
    if (isFollowed && data[name].is_left_by_quota && whole >= max) return [name];
    const most = Math.min(whole * part, max);
    const amount = min + Math.floor((most - min) / step + 1e-9) * step;
    return [name, amount >= Math.max(min, amountOf(name, data[name].default)) && textOf(amount)];
  });
  return Object.fromEntries(found.filter(([, text]) => text));
}

/** The share where it is more than what the fields hold: field name → text; the server says the same. */
export function suggestionOf(values, data) {
  // An empty field that may be empty stands for no limit.
  const held = (name) => (data[name].is_optional && !values[name].trim() ? Infinity : amountOf(name, values[name]));
  return Object.fromEntries(Object.entries(shareOf(values, data)).filter(([name, text]) => !(held(name) >= amountOf(name, text))));
}

/**
 * What the fields of these names hold while they go with the GPU: the share, or as large a part of it as a node has free, so
 * that a GPU which is free does not wait for CPU and memory that the user has not asked for; at least the default, and no
 * more than it where the share is all that a quota leaves.
 */
export function followedOf(values, data, names) {
  const { gpu } = chosen(values, data);
  const found = [1, 1 / 2, 1 / 4, 1 / 8, 0].map((part) => {
    const share = shareOf(values, data, part, true);
    return Object.fromEntries(names.map((name) => [name, share[name] ?? data[name].default]));
  });
  const fits = (each) => holds(gpu?.shapes ?? [], requestOf({ ...values, ...each }, data) ?? [0, 0], countOf(values));
  return found.find(fits) ?? found[0];
}

/** The same as a sentence, empty where there is nothing to suggest. */
export function suggestionText(values, data) {
  const found = suggestionOf(values, data);
  if (!Object.keys(found).length) return "";
  const amounts = joined(amountParts({ ...values, cpu: "", memory: "", ...found }, data));
  return t("Suggested for {gpus}: {amounts} (share of the node)", { gpus: gpusText(values, data), amounts });
}

/** The default of a number and its doubles within the bounds, as the field holds them; none if there would be too few. */
export function commonAmounts(name, bounds) {
  const [amount, most] = [bounds.default, bounds.max].map((text) => amountOf(name, text));
  const found = [];
  for (let each = amount; each > 0 && each <= most; each *= 2) found.push(textOf(each));
  const [first, ...others] = found.filter((text) => !complaintOf(name, text, bounds));
  const valid = [first, ...others.slice(1 - MOST_COMMON)];
  return valid.length < FEWEST_COMMON ? [] : valid;
}

parts.push((root, data, form) => {
  const { find, read } = form;
  const rows = ["gpu_count", "cpu", "memory"].filter(find).map((name) => {
    const row = made("div", { className: "gs-common" });
    find(name).parentElement.after(row);
    on(row, "click", ({ target: { value } }) => value && enter(name, value));
    return [name, row];
  });

  function enter(name, value) {
    const input = Object.assign(find(name), { value: shown(value) });
    ["input", "change"].forEach((type) => input.dispatchEvent(new Event(type, { bubbles: true })));
    return input;
  }

  function showCommon([name, row], values) {
    const bounds = boundsOf(name, values, data);
    const amounts = bounds ? commonAmounts(name, bounds) : [];
    if (row.dataset.amounts !== String(amounts)) {
      row.dataset.amounts = amounts;
      if (row.contains(document.activeElement)) find(name).focus();
      // The Tab key skips them: with a keyboard, typing the number is quicker.
      row.replaceChildren(...amounts.map((value) => made("button", { type: "button", tabIndex: -1, value, textContent: shown(value) })));
    }
    row.toggleAttribute("hidden", !amounts.length);
    const label = find(name).labels?.[0]?.textContent ?? "";
    all(row, "button").forEach((button) => {
      set(button, "aria-label", `${label} ${button.textContent}`.trim());
      set(button, "aria-pressed", amountOf(name, values[name]) === amountOf(name, button.value));
    });
  }

  // What goes with the GPU until a user changes it, because the form itself filled it in: field name → text without a GPU.
  const own = new Map();
  const follows = (name) => own.has(name) && !("touched" in find(name).dataset);

  /** Find out which fields hold what the form would fill in by itself; a link's values are its author's. */
  function begin(values, names) {
    if (root.querySelector(".gs-asked")) return;
    const filled = followedOf(values, data, names);
    const isOwn = (name) => root.hasAttribute("data-fresh") || amountOf(name, values[name]) === amountOf(name, filled[name]);
    names.filter(isOwn).forEach((name) => own.set(name, values.gpu ? data[name].default : values[name]));
  }

  function follow() {
    const [values, names] = [read(), [...own.keys()].filter(follows)];
    if (wrongNumbers(values, data).includes("gpu_count")) return;
    const found = values.gpu ? followedOf(values, data, names) : Object.fromEntries(own);
    names.forEach((name) => { find(name).value = shown(found[name]); });
  }

  /** The values with another GPU, at the least: what goes with it is no less than the default. */
  form.valuesElsewhere = (values) => ({ ...values, ...Object.fromEntries([...own.keys()].filter(follows).map((name) => [name, data[name].default])) });

  /** Say what went with the GPU. */
  function showFollowed(values) {
    const changed = [...own].filter(([name, text]) => follows(name) && values.gpu && values[name] !== text).map(([name]) => name);
    const texts = { cpu: t("CPU follows the GPU."), memory: t("Memory follows the GPU."), "cpu,memory": t("CPU and memory follow the GPU.") };
    ["follow", "unfollow"].forEach((id) => find(id)?.toggleAttribute("hidden", !changed.length));
    write(find("followed"), texts[changed] ?? "");
  }

  begin(read(), SHARED.map(([name]) => name).filter((name) => find(name) && data[name] && read()[name].trim()));
  on(root, "input", ({ target }) => {
    if (own.has(target.name)) target.dataset.touched = "";
    if (["gpu", "gpu_count"].includes(target.name)) follow();
  });
  on(find("unfollow"), "click", () => {
    [...own].reverse().filter(([name]) => follows(name)).forEach((each) => enter(...each).focus());
  });
  find("suggest")?.removeAttribute("hidden");
  on(find("suggest"), "click", () => {
    Object.entries(suggestionOf(read(), data)).reverse().forEach((each) => enter(...each).focus());
  });

  return (values) => {
    showFollowed(values);
    const suggestion = suggestionText(values, data);
    find("suggestion")?.toggleAttribute("hidden", !suggestion);
    write(find("suggested"), suggestion);
    rows.forEach((each) => showCommon(each, values));
  };
});
