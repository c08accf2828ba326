// Keeps the page of a server that starts up to date, from JupyterHub's progress events. Their member "gpuspawner" is what
// gpuspawner.hub.start.stream.build_status describes.

const REPEATED_AFTER_S = 30;
const ANNOUNCED_EVERY_MS = 15_000;
const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 15_000];
const OVER_CONFIRMED_MS = 2_000;
const SESSION_MS = 60_000;
const STOPPED_POLL_MS = 500;
const REMEMBERED = "gpuspawner-notify";

/** A time as on a timer: "2 min 10 s". gpuspawner.core.units.duration.format_clock writes the same. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(whole / 60);
  if (!minutes) return t("{seconds} s", { seconds: whole });
  if (minutes < 60) {
    if (!(whole % 60)) return t("{minutes} min", { minutes });
    return t("{minutes} min {seconds} s", { minutes, seconds: whole % 60 });
  }
  const hours = Math.floor(minutes / 60);
  return minutes % 60 ? t("{hours} h {minutes} min", { hours, minutes: minutes % 60 }) : t("{hours} h", { hours });
}

/** Whether the log has a text already: as its newest line, or in the last half minute. `lines` are newest first. */
export function isRepeated(lines, text, at) {
  return lines[0]?.text === text || lines.some((line) => line.text === text && Math.abs(at - line.at) < REPEATED_AFTER_S);
}

/** What an answer to the request for the progress events means: on, over, out (signed out) or away. */
export function meaningOf(status) {
  if (status === 200) return "on";
  if (status === 400 || status === 404) return "over";
  return status === 401 || status === 403 ? "out" : "away";
}

function run(root) {
  const part = (name) => document.getElementById(`gpuspawner-${name}`);
  const data = JSON.parse(part("data").textContent);
  const bar = document.getElementById("progress-bar");
  const log = document.getElementById("progress-log");
  const lines = [];
  let [shown, began, source, tries, connection] = [data.status, 0, null, 0, "on"];
  let [isOver, isLeaving, isNotifying] = [false, false, false];

  // -- what the page shows --------------------------------------------------------------------------------------------

  function setText(name, text) {
    part(name).textContent = text ?? "";
    part(name).hidden = !text;
  }

  function setState(state) {
    root.dataset.state = state;
    part("headline").textContent = data.headlines[state];
    document.title = data.titles[state];
  }

  function tick() {
    if (isOver) return;
    const elapsed = clock((performance.now() - began) / 1000);
    const limit = shown.limit_s;
    part("time").textContent = limit ? t("{elapsed} of at most {limit}", { elapsed, limit: clock(limit) }) : elapsed;
  }

  function showStep(step) {
    const items = [...part("steps").children];
    items.forEach((item, number) => {
      item.classList.toggle("gs-done", number < step);
      item.ariaCurrent = number === step ? "step" : null;
    });
    bar.setAttribute("aria-valuetext", items[step].textContent);
    // How long it takes to find a node is unknown: the bar shows a share only after that.
    bar.style.width = step > 1 ? `${(100 * step) / (items.length - 1)}%` : "";
    if (step > 1) bar.setAttribute("aria-valuenow", step);
    else bar.removeAttribute("aria-valuenow");
  }

  function showAlternatives(choices) {
    if (JSON.stringify(choices) === root.dataset.instead) return;
    root.dataset.instead = JSON.stringify(choices);
    part("instead").hidden = !choices.length;
    const buttons = choices.map(([text, url]) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
      button.classList.add("btn", "btn-success");
      button.onclick = () => leave(url, true);
      return button;
    });
    part("instead-choices").replaceChildren(...buttons);
  }

  function addLine(text, at) {
    if (!text || isRepeated(lines, text, at)) return;
    lines.unshift({ text, at });
    const time = document.createElement("time");
    time.dateTime = new Date(at * 1000).toISOString();
    time.textContent = new Date(at * 1000).toLocaleTimeString(root.lang);
    const item = document.createElement("li");
    item.append(time, Object.assign(document.createElement("span"), { textContent: text }));
    log.prepend(item);
  }

  function show(status) {
    shown = status;
    began = performance.now() - 1000 * status.elapsed_s;
    setState(data.states[status.stage]);
    if (status.stage in data.steps) showStep(data.steps[status.stage]);
    setText("detail", status.detail);
    part("detail").classList.toggle("gs-alarm", status.is_alarm);
    setText("place", status.place);
    if (status.note) setText("note", status.note); // only a reminder has one, which holds until the next
    showAlternatives(status.alternatives);
    tick();
  }

  /** Show what an event says. The first events are those of the log that came with the page. */
  function tell(status) {
    if (!lines.length) log.replaceChildren();
    show(status);
    const text = [status.detail, status.place].filter(Boolean).join(" ");
    addLine(text, status.at);
    announce(`${data.headlines[data.states[status.stage]]}. ${text}`);
  }

  // Screen readers say what is new, but not each change: with a pause in between, and then the newest only.
  let waiting;
  let announced = "";
  let announcedAt = -Infinity;
  function announce(text) {
    clearTimeout(waiting);
    if (text === announced) return;
    waiting = setTimeout(() => {
      [announced, announcedAt] = [text, performance.now()];
      part("live").textContent = text;
    }, Math.max(0, announcedAt + ANNOUNCED_EVERY_MS - performance.now()));
  }

  function alert(text, link) {
    const box = part("alert");
    box.replaceChildren(...(text ? [`${text} `] : []), ...(link ? [link] : []));
    box.hidden = !text;
  }

  // -- how it ends ----------------------------------------------------------------------------------------------------

  function end(state) {
    isOver = true;
    source?.close();
    clearTimeout(waiting);
    setState(state);
    for (const name of ["instead", "actions", "place", "note"]) part(name).hidden = true;
    part("after").hidden = state === "ready";
    alert("");
  }

  function endCanceled() {
    end("canceled");
    part("detail").classList.remove("gs-alarm");
    setText("detail", t("The server isn't starting any more. It may have been stopped in another tab."));
    part("live").textContent = `${data.headlines.canceled}. ${part("detail").textContent}`;
  }

  function endFailed(event) {
    const message = (event.message ?? "").replace(/^Spawn failed: /, "");
    if (message === data.hubs_words.canceled && !event.html_message) {
      // A hub that shuts down says the same, and its start goes on in the next hub: see whether the hub stays.
      source.close();
      reconnect("");
      return;
    }
    end("failed");
    bar.classList.add("bg-danger");
    bar.style.width = "100%";
    bar.setAttribute("aria-valuenow", bar.getAttribute("aria-valuemax"));
    bar.setAttribute("aria-valuetext", data.headlines.failed);
    setText("detail", message);
    if (event.html_message) part("detail").innerHTML = event.html_message;
    part("live").textContent = `${data.headlines.failed}. ${part("detail").textContent}`;
    notify("failed");
  }

  function endReady() {
    end("ready");
    showStep(data.steps.ready);
    setText("detail", t("Opening it…"));
    notify("ready");
    // JupyterHub redirects from here to the server. A tab in the background waits, so that its title tells the state.
    const open = () => location.reload();
    if (!(isNotifying && document.hidden)) open();
    else document.addEventListener("visibilitychange", open, { once: true });
  }

  // -- stopping it ----------------------------------------------------------------------------------------------------

  const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));
  const xsrf = () => `?_xsrf=${encodeURIComponent(window.jhdata?.xsrf_token ?? "")}`;

  /** Wait until the hub has stopped the server: before that, it shows no form. */
  async function waitUntilStopped() {
    for (;;) {
      const answer = await fetch(data.user_url + xsrf());
      if (!answer.ok || !(data.server in ((await answer.json()).servers ?? {}))) return;
      await pause(STOPPED_POLL_MS);
    }
  }

  async function leave(url, isForm) {
    if (isLeaving) return;
    isLeaving = true;
    const buttons = [...root.querySelectorAll("button")];
    for (const each of buttons) each.disabled = true;
    alert(t("Canceling…"));
    try {
      const answer = await fetch(data.server_url + xsrf(), { method: "DELETE" });
      if (!answer.ok && answer.status !== 404) throw new Error(String(answer.status));
      if (isForm) await waitUntilStopped();
      location.assign(url);
    } catch (error) {
      isLeaving = false;
      for (const each of buttons) each.disabled = false;
      if (error.message === "403") showConnection("out");
      else alert(t("That did not work. Try again, or reload the page."));
    }
  }

  // -- notifications --------------------------------------------------------------------------------------------------

  function notify(state) {
    if (!isNotifying || !document.hidden) return;
    try {
      const note = new Notification(data.titles[state], { body: part("detail").textContent, tag: data.server_url });
      note.onclick = () => window.focus();
    } catch {
      // Some browsers on phones know the interface and refuse to show anything.
    }
  }

  function startNotifying() {
    isNotifying = true;
    part("notify").hidden = true;
    part("notified").textContent = t("You'll be notified when your server is ready or has failed.");
    remember("1");
  }

  /** Whether the person wanted it before the page was reloaded; a browser without storage asks again. */
  function remember(value) {
    try {
      if (value) sessionStorage.setItem(REMEMBERED, value);
      return sessionStorage.getItem(REMEMBERED) === "1";
    } catch {
      return false;
    }
  }

  async function askToNotify() {
    if ((await Notification.requestPermission()) === "granted") startNotifying();
    else part("notified").textContent = t("Your browser doesn't allow notifications for this page.");
  }

  function offerNotification() {
    if (!window.isSecureContext || !window.Notification || Notification.permission === "denied") return;
    if (remember() && Notification.permission === "granted") startNotifying();
    else part("notify").hidden = false;
    part("notify").onclick = askToNotify;
  }

  // -- the connection -------------------------------------------------------------------------------------------------

  function showConnection(meaning) {
    if (isLeaving || meaning === connection) return;
    connection = meaning;
    if (meaning === "away") alert(t("The hub doesn't answer right now. Your start goes on, and this page keeps trying to reconnect."));
    else if (meaning === "out") {
      const link = Object.assign(document.createElement("a"), { href: location.href, textContent: t("Sign in again") });
      alert(t("You've been signed out. Your server keeps starting."), link);
    } else alert("");
  }

  async function probe() {
    const aborter = new AbortController();
    try {
      const { status } = await fetch(data.progress_url, { cache: "no-store", signal: aborter.signal });
      return meaningOf(status);
    } catch {
      return "away";
    } finally {
      aborter.abort();
    }
  }

  function receive(event) {
    if (isOver || isLeaving) return;
    tries = 0;
    if (event.ready) endReady();
    else if (event.failed) endFailed(event);
    else if (event.gpuspawner) tell(event.gpuspawner);
    else if (event.message && event.message !== data.hubs_words.requested) {
      const elapsed_s = (performance.now() - began) / 1000;
      tell({ ...shown, detail: event.message, place: "", at: Date.now() / 1000, elapsed_s });
    }
  }

  function connect() {
    source = new EventSource(data.progress_url);
    source.onopen = () => showConnection("on");
    source.onmessage = (message) => receive(JSON.parse(message.data));
    source.onerror = () => {
      source.close();
      reconnect("");
    };
  }

  async function reconnect(before) {
    const wait = before === "over" ? OVER_CONFIRMED_MS : RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)];
    await pause(before ? wait : 0);
    if (isOver) return;
    const meaning = await probe();
    if (isOver) return;
    // Right after a restart, the hub may not know yet that the start goes on: believe it the second time.
    if (meaning === "over" && before === "over") endCanceled();
    else if (meaning === "on" && before) connect();
    else {
      if (meaning === "away" || meaning === "out") showConnection(meaning);
      reconnect(meaning);
    }
  }

  async function checkSession() {
    if (isOver || document.hidden || source.readyState !== EventSource.OPEN) return;
    const meaning = await probe();
    if (!isOver && source.readyState === EventSource.OPEN && meaning !== "away") showConnection(meaning);
  }

  show(data.status);
  part("actions").hidden = false;
  part("cancel").onclick = () => leave(data.home_url, false);
  if (part("change")) part("change").onclick = () => leave(data.change_url, true);
  offerNotification();
  connect();
  setInterval(tick, 1_000);
  setInterval(checkSession, SESSION_MS);
  document.addEventListener("visibilitychange", checkSession);
  // A page from the back/forward cache is out of date.
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());
  window._jupyterhub_page_loaded = true; // as JupyterHub's own page says to tests
}

if (globalThis.document) run(document.getElementById("gpuspawner-waiting"));
