// Lists that are searched, filtered and put in order; only sent where there are many rows, or several vendors. Comes after
// display.js. What is picked stays in sight. Rows go away and change places only when the person changes something here:
// news must not move what the person points at.

/** A text as a search compares it: without capitals and accents. */
export function folded(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

/** Whether a folded text has every word of a query, whatever spaces it is written with, and GB for GiB. */
export function isFound(text, query) {
  const dense = text.replace(/\s/g, "").replace(/gib/g, "gb");
  return folded(query).trim().split(/\s+/).every((word) => text.includes(word) || dense.includes(word.replace("gib", "gb")));
}

/** Rows with those first of which something is free, then by memory; parts of a card (`isUnder`) stay under it. */
export function ordered(rows) {
  const families = [];
  rows.forEach((row) => {
    if (!row.isUnder) families.push([]);
    families.at(-1).push(row);
  });
  const before = (one, other) => other.isFree - one.isFree || other.gib - one.gib;
  const summary = (family) => ({ isFree: family.some(({ isFree }) => isFree), gib: family[0].gib });
  const inside = families.map(([card, ...others]) => [card, ...others.sort(before)]);
  return inside.sort((one, other) => before(summary(one), summary(other))).flat();
}

/**
 * What is in sight of rows in their listed order, with parts of a card (`isUnder`) after it: the rows that are picked or found,
 * cards of such parts, and what `lines` show that are open. Each line stands for the other rows in its states.
 */
export function sightOf(rows, lines) {
  const lineOf = ({ isPicked, state }) => (isPicked ? undefined : lines.find(({ states }) => states.includes(state)));
  const withCards = (chosen) => {
    let card;
    const found = new Set(chosen);
    rows.forEach((row) => {
      if (!row.isUnder) card = row;
      else if (found.has(row)) found.add(card);
    });
    return found;
  };
  const kept = withCards(rows.filter((row) => row.isPicked || (row.isFound && !lineOf(row))));
  const held = rows.filter((row) => row.isFound && !kept.has(row));
  const shown = withCards([...kept, ...held.filter((row) => lineOf(row)?.isOpen)]);
  return { shown, held: lines.map((line) => held.filter((row) => lineOf(row) === line && (line.isOpen || !shown.has(row)))) };
}

parts.push((root, data) => {
  /** Serve one list; returns what is to be called when there is news of its rows. */
  const shows = all(root, ".gs-find").map((bar) => {
    const section = bar.parentElement;
    const [field, free, order, told] = ["input", "[data-free]", "select", "[role=status]"].map((part) => bar.querySelector(part));
    const rows = all(section, "[type=radio]").filter(({ value }) => value).map((radio) => {
      const row = radio.closest("label");
      const group = row.closest(".gs-vendor");
      const text = [...all(row, "b, b + small"), group?.firstElementChild].map((part) => part?.textContent);
      const gib = bySlug(data.gpus, radio.value)?.memory_gib ?? 0;
      return { row, radio, group, gib, isUnder: row.matches(".gs-under"), text: folded([...text, radio.value].join(" ")) };
    });
    // A line that stands for all rows in one of these states.
    const folds = order ? [
      [["never", "denied"], (number) => tn("{number} more isn't available to you", "{number} more aren't available to you", number)],
      [["busy"], (number) => tn("{number} more is in use now", "{number} more are in use now", number)],
    ].map(([states, name]) => {
      const line = made("button", { type: "button", ariaExpanded: "false" });
      told.after(line);
      return { states, name, line };
    }) : [];
    const reset = made("button", { type: "button", className: "gs-clear", textContent: t("Clear"), hidden: true });
    told.after(reset);
    let found;
    let vendor = "";
    let isUntouched = false;

    function show(isAsked) {
      const query = field?.value.trim();
      rows.forEach((each) => { each.isFree = (each.row.dataset.state ?? "free") === "free"; });
      if (isAsked && order) {
        const count = section.querySelector(".gs-rows .gs-count");
        (order.value ? ordered(rows) : rows).forEach(({ row, group }) => group.lastElementChild.append(row));
        if (count) section.querySelector("label:has(:checked)")?.after(count);
      }
      found = rows.filter(({ group, isFree, text }) => isFound(text, query ?? "") && (!vendor || group.dataset.vendor === vendor)
        && (isFree || free?.ariaPressed !== "true"));
      rows.forEach((each) => {
        const [isPicked, isFound] = [each.radio.checked, found.includes(each)];
        Object.assign(each, { isPicked, isFound, state: each.row.dataset.state });
      });
      const lines = query ? [] : folds.map(({ states, line }) => ({ states, isOpen: line.ariaExpanded === "true" }));
      const { shown, held } = sightOf(rows, lines);
      rows.forEach((each) => { if (isAsked || shown.has(each)) each.row.hidden = !shown.has(each); });
      folds.forEach(({ name, line }, index) => {
        // What the person has seen until now stays in sight.
        const number = (held[index] ?? []).filter(({ row }) => lines[index].isOpen || row.hidden).length;
        line.hidden = !number;
        write(line, name(number));
      });
      all(section, ".gs-vendor").forEach((group) => { group.hidden = !group.querySelector("label:not([hidden])"); });
      const number = rows.filter(({ row }) => !row.hidden).length;
      reset.hidden = Boolean(found.length);
      const nothing = number ? t("Nothing found. Shown: your choice.") : t("Nothing found.");
      write(told, found.length ? t("{number} of {total} shown", { number, total: rows.length }) : nothing);
    }

    /** Take back the search and the filters. */
    function showAll() {
      if (free) free.ariaPressed = false;
      pickVendor("");
      clear();
      field?.focus();
    }

    function pickVendor(slug) {
      vendor = slug;
      all(bar, "[data-vendor]").forEach((each) => { each.ariaPressed = each.dataset.vendor === slug; });
    }

    function clear() {
      if (field) field.value = "";
      show(true);
    }

    /** The radios that were found, from top to bottom. */
    function hits() {
      return all(section, "[type=radio]").filter((radio) => found.some((each) => each.radio === radio));
    }

    /** From the search to the rows: the first that was found is picked, as arrow keys pick among rows. */
    function go() {
      const first = field.value && hits().find(({ disabled }) => !disabled);
      if (first) first.click();
      (first || section.querySelector("[type=radio]:checked"))?.focus();
    }

    /** A first visit begins with a GPU: its search gets the focus, except where that would open an on-screen keyboard. */
    function begin() {
      const isFirst = root.hasAttribute("data-fresh") && !data.policy?.blocked && document.activeElement === document.body;
      if (!isFirst || !matchMedia("(pointer: fine)").matches) return;
      field?.focus({ preventScroll: true });
      isUntouched = true;
    }

    on(field, "input", () => setTimeout(() => field.value && hits()[0]?.scrollIntoView({ block: "nearest" })));
    on(bar, "input", () => show(true));
    on(bar, "click", ({ target }) => {
      if (target.ariaExpanded) target.ariaExpanded = target.ariaExpanded !== "true";
      else if (target === free) free.ariaPressed = free.ariaPressed !== "true";
      else if (target.ariaPressed) pickVendor(target.dataset.vendor);
      else if (target === reset) return showAll();
      else return;
      show(true);
    });
    on(field, "keydown", (event) => {
      if (event.isComposing) return; // Enter ends a Chinese word
      if (isUntouched && event.key === "ArrowDown") return; // meant for the page: it must not change the choice
      isUntouched = false;
      if (/^Esc/.test(event.key)) clear();
      else if (/^(Enter|ArrowDown)$/.test(event.key)) go();
      else return;
      event.preventDefault(); // Enter would start a server
    });
    // What the browser complains of must be in sight.
    on(section, "invalid", clear, { capture: true });
    let isAsked = true; // the first time is when the page was loaded
    return () => {
      show(isAsked);
      bar.hidden = false;
      if (isAsked && order) begin();
      isAsked = false;
    };
  });
  return () => shows.forEach((show) => show());
});
