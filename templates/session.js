// What may happen while the form is open: its server runs already, the person is signed out, the hub is away. A banner says so,
// and Start rests until it is over. The form is sent without leaving the page, and its choice is kept in this tab.

const AWAY_MS = 5000;
const FOCUS_MS = 1000;
// Some logins carry the way back in a cookie, which has no room for more.
const LONGEST_RETURN = 1500;

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

/** The form in a page, undefined in a page that has none of ours. */
function ourForm(page) {
  return page.getElementById("gpuspawner-form")?.closest("form");
}

async function pageIn(answer) {
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

function request(address, options) {
  return fetch(address, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS), ...options });
}

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
    kept = { values: held(), opened: all(root, "details[open]").map(({ id }) => id), ...more };
    stored(inTab, key + search, JSON.stringify(kept));
  }

  restore();
  const before = JSON.stringify(held());
  on(window, "pageshow", ({ persisted }) => persisted || restore());
  for (const name of ["input", "click", "keydown"]) on(form, name, () => (kept || JSON.stringify(held()) !== before) && keep());
  return keep;
}

/**
 * Watch over the form, and send it. Returns what the rest of the script needs: `isLeaving()`; `address`, from which data about
 * the form comes; `noData(answer)` for an answer or error in place of data, and for none after data. `now` is to become what
 * asks that address at once, `refuse` what says of wrong fields what is wrong, and returns whether there are any.
 */
function keepSession(root, form, start) {
  const { base_url: base, user } = globalThis.jhdata ?? {};
  const banner = made("div");
  // What keeps the form from being sent, empty for nothing; what is said of it.
  let [sent, state, said] = [false, "", ""];
  const session = { isLeaving: () => sent || ending.signal.aborted, address: location.pathname, now: look, noData };

  banner.classList.add("gpuspawner", "gs-session");
  set(banner, "role", "alert");
  root.before(banner);
  on(document, "submit", (event) => {
    if (event.target !== form) return;
    // A preset's own button sends nothing of the fields.
    const isWrong = !sent && !state && !event.submitter?.formNoValidate && session.refuse?.();
    if (sent || state || isWrong) {
      event.preventDefault();
      event.stopImmediatePropagation(); // the hub's own handler would show Start again
      if (!isWrong) banner.querySelector("a, button")?.focus();
      return;
    }
    sent = true;
    // Only after the form was read: a disabled button is left out of it.
    setTimeout(() => sent && start?.setAttribute("disabled", ""));
  }, { capture: true });
  on(window, "pageshow", ({ persisted }) => {
    if (!persisted) return;
    sent = false;
    start?.removeAttribute("disabled");
    start?.classList.remove("hidden");
    all(form, ".feedback-widget").forEach((widget) => {
      widget.classList.add("hidden");
      widget.firstElementChild?.classList.remove("fa-pulse");
    });
  });
  // Without what the hub's pages say of themselves the browser sends the form.
  if (!user) return Object.assign(session, { noData() {} });

  const own = encodeURIComponent(user);
  // Written in one way: the hub's own links write names in another.
  const names = location.pathname.slice(base.length).split("/").map((name) => encodeURIComponent(decodeURIComponent(name)));
  const [, whose = own, server = ""] = names;
  const place = whose + (server && `/${server}`);
  const pending = `${base}spawn-pending/${place}`;
  const started = `gpuspawner-started:${base}${place}`; // when, for other tabs
  const keep = keepChoice(root, form, { key: `gpuspawner:${user}:${place}`, login: `${base}login` });
  // Whether a start is known whose end was not shown, and until when ends were shown.
  let [isExpected, reported] = [false, isBack ? 0 : Date.now()];
  let timer;

  session.address = `${base}spawn/${place}`; // named, so that it is never the form of another person
  on(window, "submit", (event) => {
    if (event.target !== form) return;
    if (event.defaultPrevented) return comeAlive();
    event.preventDefault();
    const body = new FormData(form);
    const { name, value } = event.submitter ?? {};
    if (name) body.append(name, value);
    tell("");
    send(body);
  });
  on(form, "input", () => state || tell("")); // how an earlier start ended was read
  on(window, "storage", ({ key }) => key === started && look());
  let shown = Date.now();
  on(document, "visibilitychange", () => { shown = Date.now(); });
  on(window, "focus", () => Date.now() - shown > FOCUS_MS && session.now()); // it is asked at once when it is shown
  return session;

  /** Let the form be sent again, as when the page comes back from the browser's cache. */
  function comeAlive() {
    window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
    if (document.activeElement === document.body) start?.focus();
  }

  /** Say `text` with a link to an address, or a button that calls a function; `next` is the state from now on. */
  function tell(next, text = "", label = "", way = "") {
    state = next;
    [...form.elements].filter(({ type }) => type === "submit").forEach((button) => {
      if (next) set(button, "aria-disabled", true); // not `disabled`: that says other things, and loses the focus
      else button.removeAttribute("aria-disabled");
    });
    if (text === said) return;
    said = text;
    const line = made("p", { textContent: text });
    const action = way.call ? { type: "button", onclick: way } : { href: way };
    if (way) line.append(" ", made(way.call ? "button" : "a", { ...action, textContent: label }));
    banner.replaceChildren(...(text ? [line] : []));
  }

  async function send(body, isRenewed) {
    try {
      const answer = await request(form.action, { method: "POST", body, redirect: "manual" });
      if (answer.type === "opaqueredirect") return leave();
      const page = await pageIn(answer);
      if (ourForm(page)) return replace(page);
      await find();
      if (!state && answer.status === 403 && !isRenewed && (await renew())) return await send(body, true);
      const reason = page.querySelector(".error p")?.textContent.trim() || answer.status;
      if (!state) tell("", t("Not started. The hub says: {reason}", { reason }));
    } catch (error) {
      away(error);
    }
    comeAlive();
  }

  function leave() {
    stored(inBrowser, started, Date.now());
    keep({ isSent: true });
    const next = new URLSearchParams(location.search).get("next");
    location.assign(next ? `${pending}?next=${encodeURIComponent(next)}` : pending);
  }

  /** Show the form as the hub sent it back, with what is wrong in it. */
  function replace(page) {
    const [fresh, told] = [ourForm(page), page.querySelector(".spawn-error-msg")];
    keep(); // also what belongs to nothing that is picked, which was not sent
    ending.abort();
    takeToken(fresh);
    document.querySelector(".spawn-error-msg")?.remove();
    if (told) form.before(told);
    form.replaceChildren(...fresh.childNodes);
    // Scripts of a page that was only read do not run.
    all(form, "script").forEach((script) => {
      const { type, textContent } = script;
      script.replaceWith(made("script", { type, id: script.id, textContent }));
    });
    if (!document.getElementById("gpuspawner-errors") && told) Object.assign(told, { tabIndex: -1 }).focus();
  }

  function takeToken(fresh) {
    const [address, token] = [new URL(form.action), new URL(fresh.action).searchParams.getAll("_xsrf").pop()];
    address.searchParams.set("_xsrf", token);
    form.action = address;
    return token;
  }

  /** Get the token of a session that began after this page; the hub sets its cookie only where a page is opened. */
  async function renew() {
    const answer = await request(session.address, { redirect: "manual" });
    const fresh = answer.ok && ourForm(await pageIn(answer));
    if (fresh) document.cookie = `_xsrf=${takeToken(fresh)};path=${base}`;
    return fresh;
  }

  /** Ask the hub's REST API, which wants no token in a request of this kind. */
  async function ask(path) {
    const answer = await request(`${base}api/${path}`, { mode: "no-cors" });
    if (answer.status > 499) throw answer;
    return answer.ok ? answer.text() : "null";
  }

  function noData(answer) {
    if (answer?.name || answer?.status > 499) away(answer);
    else if (answer || state || isNews()) look();
  }

  /** Say why the form cannot be sent, or that it can again. */
  async function look() {
    try {
      if (!session.isLeaving()) await find();
    } catch (error) {
      away(error);
    }
  }

  async function find() {
    const me = JSON.parse(await ask("user"));
    const owner = whose === own || !me ? me : JSON.parse(await ask(`users/${whose}`));
    const { ready, pending: kind, url } = owner?.servers?.[decodeURIComponent(server)] ?? {};
    if (!me) {
      tell("out", t("You've been signed out."), t("Sign in again"), loginAddress());
      banner.querySelector("a").onclick = ({ target }) => { target.href = loginAddress(keep); };
    } else if (me.name !== user) {
      history.replaceState(null, "", `${base}spawn`); // a reload would show an error of the hub's
      tell("other", t("You're now signed in as {name}. This form is for {user}.", { name: me.name, user }), t("Open your form"), location.href);
    } else if (ready) tell("running", t("Your server is already running."), t("Open it"), url);
    else if (kind === "spawn") tell("starting", t("Your server is starting."), t("See its progress"), pending);
    else if (kind === "stop") tell("stopping", t("Your server is stopping."));
    else if (kind) tell("busy", t("Your server is busy.")); // the hub checks it after a restart, or renames it
    else {
      if (state) tell("");
      await report();
    }
    isExpected ||= state === "starting";
  }

  /** Say of a start in another tab that it failed. */
  async function report() {
    if (!isExpected && !isNews()) return;
    [isExpected, reported] = [false, Date.now()];
    const text = await ask(`users/${whose}/${server ? "servers/" : "server"}${server}/progress`);
    const { failed, message } = JSON.parse(/\{.*\}/.exec(text)?.[0] ?? "{}");
    if (failed) tell("", t("Your server didn't start. {reason}", { reason: message.replace(/^[\w ]+: /, "") }), t("See details"), pending);
  }

  function isNews() {
    return stored(inBrowser, started) > reported;
  }

  function away({ name, status }) {
    if (!["TypeError", "TimeoutError"].includes(name) && ![502, 503, 504].includes(status)) return;
    tell("away", t("The hub doesn't answer. Trying again…"), t("Try now"), () => session.now());
    clearTimeout(timer);
    timer = setTimeout(knock, AWAY_MS);
  }

  /** Ask for the form only when the hub is back, which is cheap to know. */
  async function knock() {
    if (state !== "away") return;
    const isThere = !document.hidden && (await request(`${base}health`).then(({ ok }) => ok, () => false));
    if (isThere) session.now();
    else timer = setTimeout(knock, AWAY_MS);
  }

  /** The address of the login that leads back to this choice, which `keepFor` keeps for then. */
  function loginAddress(keepFor) {
    const next = new URL(place === own ? `${base}spawn` : session.address, location.href);
    next.search = location.search;
    new FormData(form).forEach((value, name) => { if (value.trim && !name.includes(":")) next.searchParams.set(`fill-${name}`, value); });
    if (next.search.length > LONGEST_RETURN) next.search = location.search;
    keepFor?.({ isForLogin: true }, next.search);
    return `${base}login?next=${encodeURIComponent(next.pathname + next.search)}`;
  }
}
