// The form is sent without leaving the page, and comes back with what is wrong in it. Comes after kept.js and banner.js.

/** The form in a page, undefined in a page that has none of ours. */
function ourForm(page) {
  return page.getElementById("gpuspawner-form")?.closest("form");
}

async function pageIn(answer) {
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

/**
 * Send the form, and keep it from being sent twice, or while `session.state` says that it cannot be. Returns what the rest of
 * the script needs: `isLeaving()`; `address`, from which data about the form comes; `noData(answer)` for an answer or error in
 * place of data, and for none after data. `now` is to become what asks that address at once, `refuse` what says of wrong
 * fields what is wrong, and returns whether there are any.
 */
function keepSession(root, form, start) {
  let sent = false;
  const session = { isLeaving: () => sent || ending.signal.aborted, address: location.pathname, noData() {} };

  on(document, "submit", (event) => {
    if (event.target !== form) return;
    const rests = sent || session.state;
    // A preset's own button sends nothing of the fields.
    const isWrong = !rests && !event.submitter?.formNoValidate && session.refuse?.();
    if (rests || isWrong) {
      event.preventDefault();
      event.stopImmediatePropagation(); // the hub's own handler would show Start again
      if (rests) document.querySelector(".gs-session :is(a, button)")?.focus();
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
  if (!globalThis.jhdata?.user) return session;

  const { base, pending, started, keep, tell, find, away } = keepBanner(root, form, session);
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
  return session;

  /** Let the form be sent again, as when the page comes back from the browser's cache. */
  function comeAlive() {
    window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
    if (document.activeElement === document.body) start?.focus();
  }

  async function send(body, isRenewed) {
    try {
      const answer = await request(form.action, { method: "POST", body, redirect: "manual" });
      if (answer.type === "opaqueredirect") return leave();
      const page = await pageIn(answer);
      if (ourForm(page)) return replace(page);
      await find();
      if (!session.state && answer.status === 403 && !isRenewed && (await renew())) return await send(body, true);
      const reason = page.querySelector(".error p")?.textContent.trim() || answer.status;
      if (!session.state) tell("", t("Not started. The hub says: {reason}", { reason }));
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
}
