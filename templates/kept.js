// The choice as this tab keeps it until it is closed: for a reload, for Back and for a login.

// Whether the person has seen this page before: a reload, or Back.
const isBack = performance.getEntriesByType("navigation")[0]?.type !== "navigate";

/** Read an item of storage, or write it; null where the browser allows none. */
function stored(storage, key, ...text) {
  try {
    return text.length ? storage().setItem(key, ...text) : storage().getItem(key);
  } catch {
    return null;
  }
}

const inTab = () => sessionStorage;
const inBrowser = () => localStorage;

/**
 * Keep the choice in this tab, for a reload, for Back and for a login: all of it, where browsers put some fields back.
 * Returns a function that keeps it as it is now, with `more` about it, for this address or one with another query.
 */
function keepChoice(root, form, { key, login }) {
  const fields = () => [...form.elements].filter(({ name, type }) => name && !/hidden|submit|button|file|password/.test(type));
  const held = () => fields().map(({ name, value, checked }) => [name, value, checked]).sort(); // rows change places
  let kept = JSON.parse(stored(inTab, key + location.search));
  // A link fills in the form each time it is followed, but where it only leads back from the login.
  const isLink = location.search && !kept?.isForLogin && !document.referrer.includes(login);
  if (!isBack && (kept?.isSent || isLink)) kept = null;
  if (kept) root.removeAttribute("data-fresh");

  function restore() {
    if (isBack) form.reset();
    kept?.opened.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    kept?.touched?.forEach((id) => document.getElementById(id)?.setAttribute("data-touched", ""));
    fields().forEach((field) => {
      const isPick = /radio|checkbox/.test(field.type);
      const found = kept?.values.find(([name, value]) => name === field.name && (!isPick || value === field.value));
      const [, value, checked] = found ?? [];
      const option = field.options && [...field.options].find((each) => each.value === value);
      // It could be picked when it was.
      if (option ?? checked) (option ?? field).disabled = false;
      if (isPick && found) field.checked = checked || (field.checked && field.type === "radio");
      else if (found && (option || !field.options)) field.value = value;
    });
  }

  function keep(more, search = location.search) {
    const ids = (selector) => all(root, selector).map(({ id }) => id);
    kept = { values: held(), opened: ids("details[open]"), touched: ids("[data-touched]"), ...more };
    stored(inTab, key + search, JSON.stringify(kept));
  }

  restore();
  const before = JSON.stringify(held());
  on(window, "pageshow", ({ persisted }) => persisted || restore());
  for (const name of ["input", "click", "keydown"]) on(form, name, () => (kept || JSON.stringify(held()) !== before) && keep());
  return keep;
}
