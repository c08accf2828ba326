// Amounts to press instead of typing them: the share of the GPU that is picked, and common ones. Comes after display.js.

const SHARED = [["cpu", 1000], ["memory", 1024 ** 3]]; // in the order and the units of a GPU type's share
const FEWEST_COMMON = 3; // below that, "+" does just as well
const MOST_COMMON = 8;

/** What the GPUs that are picked have on their node, as the fields hold it: field name → text; the server says the same. */
export function suggestionOf(values, data) {
  const { gpu } = chosen(values, data);
  if (!gpu?.share || wrongNumbers(values, data).includes("gpu_count")) return {};
  const found = SHARED.map(([name, unit], index) => {
    const [min, max, step] = data[name] ? amountsOf(name, data[name]) : [1, 0];
    const most = Math.min((gpu.share[index] / unit) * countOf(values), max);
    return [name, most >= min && textOf(min + Math.floor((most - min) / step + 1e-9) * step)];
  });
  return Object.fromEntries(found.filter(([, text]) => text));
}

/** The same as a sentence, empty where the fields hold it already. */
export function suggestionText(values, data) {
  const found = suggestionOf(values, data);
  if (Object.entries(found).every(([name, text]) => amountOf(name, values[name]) === amountOf(name, text))) return "";
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

parts.push((root, data, { find, read }) => {
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

  find("suggest")?.removeAttribute("hidden");
  on(find("suggest"), "click", () => {
    Object.entries(suggestionOf(read(), data)).reverse().forEach((each) => enter(...each).focus());
  });

  return (values) => {
    const suggestion = suggestionText(values, data);
    find("suggestion")?.toggleAttribute("hidden", !suggestion);
    write(find("suggested"), suggestion);
    rows.forEach((each) => showCommon(each, values));
  };
});
