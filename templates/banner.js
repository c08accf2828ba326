// What may happen while the form is open: its server runs already, the person is signed out, the hub is away. A banner says so,
// and Start rests until it is over. Comes after kept.js.

const AWAY_MS = 5000;
const FOCUS_MS = 1000;
// Some logins carry the way back in a cookie, which has no room for more.
const LONGEST_RETURN = 1500;

/**
 * Say in a banner what keeps the form from being sent: `session.state`, empty for nothing. Returns addresses of the hub, and
 * what sending the form needs: `keep` of keepChoice(), `tell`, `find` and `away`.
 */
function keepBanner(root, form, session) {
  const { base_url: base, user } = jhdata;
  const banner = made("div");
  let said = "";

  banner.classList.add("gpuspawner", "gs-session");
  set(banner, "role", "alert");
  root.before(banner);

  const own = encodeURIComponent(user);
  // Written in one way: the hub's own links write names in another.
  const spell = (name) => encodeURIComponent(decodeURIComponent(name));
  const [, whose = own, server = ""] = location.pathname.slice(base.length).split("/").map(spell);
  const place = whose + (server && `/${server}`);
  const pending = `${base}spawn-pending/${place}`;
  const started = `gpuspawner-started:${base}${place}`; // when, for other tabs
  const keep = keepChoice(root, form, { key: `gpuspawner:${user}:${place}`, login: `${base}login` });
  // Whether a start is known whose end was not shown, and until when ends were shown.
  let [isExpected, reported] = [false, isBack ? 0 : Date.now()];
  let timer;

  // The address is named, so that it is never the form of another person.
  Object.assign(session, { address: `${base}spawn/${place}`, state: "", now: look, noData });
  on(form, "input", () => session.state || tell("")); // how an earlier start ended was read
  on(window, "storage", ({ key }) => key === started && look());
  let shown = Date.now();
  on(document, "visibilitychange", () => { shown = Date.now(); });
  on(window, "focus", () => Date.now() - shown > FOCUS_MS && session.now()); // it is asked at once when it is shown
  return { base, pending, started, keep, tell, find, away };

  /** Say `text` with a link to an address, or a button that calls a function; `next` is the state from now on. */
  function tell(next, text = "", label = "", way = "", onclick = null) {
    session.state = next;
    session.told = { text, label, way, onclick };
    [...form.elements].filter(({ type }) => type === "submit").forEach((button) => {
      button.ariaDisabled = next ? true : null; // not `disabled`: that says other things, and loses the focus
    });
    if (text === said) return;
    said = text;
    if (text && !banner.firstElementChild) banner.append(made("p", {}));
    if (text) showLine(banner.firstElementChild, session.told);
    else banner.replaceChildren();
    session.redraw?.();
  }

  /** Ask the hub's REST API, which wants no token in a request of this kind. */
  async function ask(path) {
    const answer = await request(`${base}api/${path}`, { mode: "no-cors" });
    if (answer.status > 499) throw answer;
    return answer.ok ? answer.text() : "null";
  }

  function noData(answer) {
    if (answer?.name || answer?.status > 499) away(answer);
    else if (answer || session.state || isNews()) look();
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
      tell("out", t("You've been signed out."), t("Sign in again"), loginAddress(), ({ target }) => { target.href = loginAddress(keep); });
    } else if (me.name !== user) {
      history.replaceState(null, "", `${base}spawn`); // a reload would show an error of the hub's
      tell("other", t("You're now signed in as {name}. This form is for {user}.", { name: me.name, user }), t("Open your form"), location.href);
    } else if (ready) tell("running", t("Your server is already running."), t("Open it"), url);
    else if (kind === "spawn") tell("starting", t("Your server is starting."), t("See its progress"), pending);
    else if (kind === "stop") tell("stopping", t("Your server is stopping."));
    else if (kind) tell("busy", t("Your server is busy.")); // the hub checks it after a restart, or renames it
    else {
      if (session.state) tell("");
      await report();
    }
    isExpected ||= session.state === "starting";
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
    if (session.state !== "away") return;
    const isThere = !document.hidden && (await request(`${base}health`).then(({ ok }) => ok, () => false));
    if (isThere) session.now();
    else timer = setTimeout(knock, AWAY_MS);
  }

  /** The address of the login that leads back to this choice, which `keepFor` keeps for then. */
  function loginAddress(keepFor) {
    const next = new URL(place === own ? `${base}spawn` : session.address, location.href);
    next.search = location.search;
    new FormData(form).forEach((value, name) => { if (value.trim && !name.includes(":")) next.searchParams.set(`fill-${name}`, plainIn(name, value)); });
    if (next.search.length > LONGEST_RETURN) next.search = location.search;
    keepFor?.({ isForLogin: true }, next.search);
    return `${base}login?next=${encodeURIComponent(next.pathname + next.search)}`;
  }
}
