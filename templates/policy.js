// Limits of the person, shown and kept up to date; only sent where there are any. Comes after display.js.

/** After how long a server is stopped at the latest, a sentence; empty where users say it themselves, and where never. */
export function endingOf(values, data) {
  const { longest } = bySlug(data.policy?.times ?? [], values.gpu) ?? {};
  if (!longest || data.run_time) return "";
  return t("Your server is stopped after {length} at the latest.", { length: lengthText(minutesOf(longest)) });
}

/** What limits leave, to tell whether it changed. */
function leftOf({ policy, cpu, memory, run_time, gpus }) {
  return JSON.stringify([policy, cpu, memory, run_time, gpus.map(({ max_count: most }) => most)]);
}

/** How long a server with a GPU type runs at most, and how many it may have, as the row says it; empty where it does not. */
function limitsOf({ longest_text: longest, max_count: most, state }) {
  return [longest, most > 1 && state !== "denied" ? ` ${t("up to {number}", { number: most })}` : ""];
}

/** Nothing that is out of reach can be picked, whatever was when the page was loaded; what stands in the fields stays. */
parts.push((root, data, { find, read, update, complain }) => {
  let { news } = data;
  let left = leftOf(data);
  let isBlocked = false;
  const limits = new Map(data.gpus.map((gpu) => [gpu.slug, limitsOf(gpu)]));

  /** How long a server with a GPU type runs at most, and how many of them it may have, where its row says it. */
  function showLimits(gpu) {
    const [was, now] = [limits.get(gpu.slug), limitsOf(gpu)];
    const facts = rowOf(root, "gpu", gpu.slug)?.querySelector("span > small");
    if (!facts || now.join() === was.join()) return;
    limits.set(gpu.slug, now);
    if (was[1]) facts.lastChild.remove(); // a text of its own
    const shown = was[0] && all(facts, "span").findLast(({ textContent }) => textContent === was[0]);
    if (!now[0]) shown?.remove?.();
    else if (shown) write(shown, now[0]);
    else facts.append(" ", made("span", { textContent: now[0] }));
    facts.append(...now.slice(1).filter(Boolean));
  }

  /** Take over what the server says now; returns whether anything changed. */
  function renew() {
    if (news === data.news) return false;
    ({ news } = data);
    data.policy = news.policy;
    AMOUNTS.forEach((name) => { if (data[name]) Object.assign(data[name], news[name]); });
    data.gpus.forEach(showLimits);
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

  on(window, "pageshow", ({ persisted }) => { if (persisted) isBlocked = undefined; }); // Start was enabled again
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
