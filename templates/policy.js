// Limits of the person, shown and kept up to date; only sent where there are any. Comes after display.js.

/** After how long a server is stopped at the latest, a sentence; empty where people say it themselves, and where never. */
export function endingOf(values, data) {
  const { longest } = bySlug(data.policy?.times ?? [], values.gpu) ?? {};
  if (!longest || data.run_time) return "";
  return t("Your server is stopped after {length} at the latest.", { length: lengthText(minutesOf(longest)) });
}

/** What limits leave, to tell whether it changed. */
function leftOf({ policy, cpu, memory, run_time, gpus }) {
  return JSON.stringify([policy, cpu, memory, run_time, gpus.map(({ max_count: most }) => most)]);
}

/** Nothing that is out of reach can be picked, whatever was when the page was loaded; what stands in the fields stays. */
parts.push((root, data, { find, read, update, complain }) => {
  let { page } = data;
  let left = leftOf(data);
  let isBlocked = false;

  /** Take over what the server says now; returns whether anything changed. */
  function renew() {
    if (page === data.page) return false;
    page = data.page;
    const fresh = islandOf(page);
    data.policy = fresh.policy;
    AMOUNTS.forEach((name) => { if (data[name]) Object.assign(data[name], fresh[name]); });
    data.gpus.forEach(({ slug }) => {
      const [shown, now] = [root, page].map((each) => rowOf(each, "gpu", slug)?.querySelector("span > small"));
      if (shown && now && shown.innerHTML !== now.innerHTML) shown.replaceChildren(...now.childNodes);
    });
    const before = left;
    left = leftOf(data);
    return left !== before;
  }

  function showPresets(denied) {
    data.presets.forEach(({ slug, outlook }, index) => {
      const button = find(`preset-${index + 1}`);
      if (!button) return;
      button.toggleAttribute("disabled", denied.includes(slug));
      // Why it is out of reach holds however old the counts are.
      if (button.disabled) write(button.querySelector(".gs-outlook"), outlook?.sentence ?? "");
    });
  }

  /** Start is the hub's own, and pressed once only: touched where something changes. */
  function showBlocked(text) {
    say(find("blocked"), text);
    if (Boolean(text) === isBlocked) return;
    isBlocked = Boolean(text);
    all(root.closest("form"), ".feedback-container button").forEach((start) => { start.disabled = isBlocked; });
  }

  // A run time that is too long for the type which was just picked must be in sight.
  on(root, "input", ({ target }) => {
    if (target.name === "gpu" && wrongNumbers(read(), data).includes("run_time")) find("more").open = true;
  });
  return (values) => {
    if (renew()) {
      update();
      NUMBERS.forEach((name) => complain(name));
      return;
    }
    const { in_use: inUse = "", blocked = "", presets = [] } = data.policy ?? {};
    say(find("in-use"), inUse);
    showBlocked(blocked);
    showPresets(presets);
    all(root, "[data-state=denied] input").forEach((radio) => radio.toggleAttribute("disabled", !radio.checked));
    say(find("ending"), sentenceOf(values, data) && endingOf(values, data));
  };
});
