// What the page knows of the cluster, shown and kept up to date; comes after choice.js and live.js.

const VERSION = 9;
const TIMEOUT_MS = 30_000;
const TICK_MS = 10_000;
// A type that the server no longer offers.
const GONE = {
  total: null,
  free: null,
  healthy: null,
  capacity_text: t("no longer offered"),
  details_text: "",
  state: "gone",
  reason: t("Reload the page to see what is offered now."),
  shapes: [],
  largest_shapes: [],
  scales: false,
  new_nodes: false,
};

/** Text of an element, touched only where it changes: screen readers read each change aloud. */
function say(element, text) {
  element?.toggleAttribute("hidden", !text);
  write(element, text);
}

/** The same for an element that keeps its place when it is empty. */
function write(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

/** Show a text with a link to an address (`way`), or with a button that calls a function. */
function showLine(line, { text, label, way, onclick }) {
  if (line.textContent === (way ? `${text} ${label}` : text) && Boolean(way) === Boolean(line.firstElementChild)) return;
  const action = way?.call ? { type: "button", onclick: way } : { href: way, onclick };
  line.replaceChildren(text, ...(way ? [" ", made(way.call ? "button" : "a", { ...action, textContent: label })] : []));
}

function all(root, selector) {
  return [...root.querySelectorAll(selector)];
}

// Aborted when the hub has sent another form in place of this one: then this script is over.
const ending = new AbortController();

function on(target, name, react, options) {
  target?.addEventListener(name, react, { signal: ending.signal, ...options });
}

function made(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

function set(element, name, value) {
  if (element && element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Browsers hand the clipboard to pages on https and on this machine only; elsewhere the person copies by hand. */
async function copy(link, line, startsAtOnce) {
  try {
    await navigator.clipboard.writeText(link);
    write(line, startsAtOnce ? t("Link copied. Opening it starts this server at once.") : t("Link copied. It opens the form with this choice."));
  } catch {
    window.prompt(startsAtOnce ? t("Opening this link starts this server at once:") : t("This link opens the form with this choice:"), link);
  }
}

/** The row of a choice. */
function rowOf(root, name, slug) {
  return root.querySelector(`input[name=${name}][value="${CSS.escape(slug)}"]`)?.closest("label");
}

/** Widths of a bar's parts: of the units that are free, and of those that are broken; none if unknown. */
export function barOf({ total, free, healthy }) {
  if (!total || free === null) return [];
  const broken = healthy !== null && healthy < total ? [total - healthy] : [];
  return [free, ...broken].map((count) => `${Number(((100 * count) / total).toPrecision(4))}%`);
}

/** Show a GPU type's counts in its row, in words and with a bar, as a refresh has told them. */
function showCounts(root, gpu) {
  const text = rowOf(root, "gpu", gpu.slug)?.querySelector(".gs-free");
  if (!text) return;
  const counts = text.parentElement;
  write(text, gpu.capacity_text);
  const widths = barOf(gpu);
  const drawn = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
  let bar = counts.querySelector("svg");
  if (!widths.length) bar?.remove();
  else if (!bar) text.after((bar = drawn("svg")));
  set(bar, "aria-hidden", true);
  while (bar?.childElementCount > widths.length) bar.lastElementChild.remove();
  while (bar?.childElementCount < widths.length) bar.append(drawn("rect"));
  widths.forEach((width, index) => set(bar.children[index], "width", width));
  const details = counts.querySelector(".gs-details");
  if (details) write(details, gpu.details_text);
  else if (gpu.details_text) counts.append(" ", made("span", { className: "gs-details", textContent: gpu.details_text }));
}

/** The JSON island of the page, undefined where it has none that this script can read. */
function islandOf(page) {
  const data = JSON.parse(page.getElementById("gpuspawner-data")?.textContent || "{}");
  return data.version === VERSION ? data : undefined;
}

/** Take over what an answer says. */
export function renew(data, news) {
  data.gpus.forEach((gpu) => Object.assign(gpu, bySlug(news.gpus, gpu.slug) ?? GONE));
  data.presets.forEach((preset) => { preset.outlook = bySlug(news.presets, preset.slug)?.outlook ?? null; });
  data.images.forEach((image) => Object.assign(image, bySlug(news.images, image.slug)));
  for (const name of ["custom_image", "values", "verdict", "capacity_notice"]) data[name] = news[name];
}

/** Ask the hub something, whose answer is never an old one. */
function request(address, options) {
  return fetch(address, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS), ...options });
}

/** Ask this address of the hub's what it has for these values, if that is not the data with this tag. */
function askServer(address, sent, tag) {
  // Without the query: one on this address would start a server.
  return request(address, {
    headers: { Accept: "application/json", "Gpuspawner-Choice": headerOf(sent), ...(tag && { "If-None-Match": tag }) },
    redirect: "manual", // to the running server, or to the login page
  });
}

// What is shown besides, where it is sent: each is called as display() is, and returns the same.
const parts = [];

/** What is known of the cluster, on the page: counts and bars of each type, the verdict on the choice. */
function display(root, data, form) {
  const shows = parts.map((part) => part(root, data, form));
  const { find } = form;
  let alternatives;

  /** Whether each preset can start as it is; nothing of what is too old. */
  function showPresets(age) {
    data.presets.forEach(({ outlook }, index) => {
      const line = find(`preset-${index + 1}`)?.querySelector(".gs-outlook");
      const isTold = !form.state && outlook && (outlook.outcome === "never" || (age !== null && !ageText(age)));
      set(line, "data-outcome", isTold ? outlook.outcome : "");
      write(line, isTold ? outlook.sentence : "");
    });
  }

  /** What is asked for in words; whether there is something to ask for may be news from the server. */
  function showChoice(values) {
    const sentence = sentenceOf(values, data);
    say(find("sentence"), sentence || troubleOf(values, data));
    form.showFixes(sentence ? [] : wrongFields(values, data));
    say(find("total"), totalOf(values, data));
    say(find("hint"), hintOf(values, data));
    find("link")?.toggleAttribute("hidden", !sentence);
  }

  function showImages(values) {
    const { gpu } = chosen(values, data);
    if (find("custom_image")) form.tell("custom_image", values.image ? "" : complaintOfReference(values, data));
    data.images.forEach((image) => {
      const misfit = misfitOf(image, gpu);
      const row = rowOf(root, "image", image.slug);
      row?.toggleAttribute("data-misfit", Boolean(misfit));
      // What holds for all GPUs is said without the name of one.
      const always = image.misfits.find(({ gpus }) => gpus.length === data.gpus.length)?.text;
      const reason = always ?? t("Can't be used with {gpu}. {reason}", { gpu: gpu?.display_name, reason: misfit });
      write(row?.querySelector(".gs-reason"), misfit && reason);
    });
  }

  function showTypes(values, age) {
    data.gpus.forEach((gpu) => {
      const row = rowOf(root, "gpu", gpu.slug);
      if (!row) return;
      const radio = row.querySelector("input");
      // What is picked stays so until the person picks something else: a disabled one would not be sent.
      const isOut = gpu.state === "denied" || (gpu.state === "never" && !ageText(age));
      radio.toggleAttribute("disabled", isOut && !radio.checked);
      set(row, "data-state", gpu.state);
      // Picking another type changes what goes with it.
      const asked = radio.checked ? values : form.valuesElsewhere?.(values) ?? values;
      write(row.querySelector(".gs-reason"), reasonOf(gpu, asked, data, age));
    });
  }

  function showAlternatives(found) {
    const [block, list] = [find("instead"), find("alternatives")];
    const text = JSON.stringify(found);
    if (!list || text === alternatives) return;
    alternatives = text;
    if (list.contains(document.activeElement)) find("verdict").focus();
    block.hidden = !found.length;
    list.replaceChildren(...found.map(({ sentence, values }) => {
      const button = made("button", { type: "button", textContent: sentence, onclick: () => form.fill(values) });
      const item = made("li");
      item.append(button);
      return item;
    }));
  }

  return (values, state) => {
    showChoice(values);
    showPresets(state.age);
    showImages(values);
    showTypes(values, state.age);
    const old = ageText(state.age);
    set(root, "data-old", Boolean(old));
    say(find("age"), old && t("These counts are {age}.", { age: old }));
    say(find("capacity-notice"), data.capacity_notice);
    // Beside a Start that rests, what the banner says of it.
    const verdict = form.state ? null : shownVerdict(values, data, state);
    const text = verdict?.sentence ?? (sentenceOf(values, data) ? "" : troubleOf(values, data));
    set(find("verdict"), "data-outcome", verdict?.outcome ?? "");
    find("verdict-text")?.toggleAttribute("hidden", !form.state && !text);
    if (find("verdict-text")) showLine(find("verdict-text"), form.state ? form.told : { text });
    showAlternatives(verdict?.alternatives ?? []);
    shows.forEach((show) => show(values, state));
  };
}

/**
 * Keep what is known of the cluster on the page, and as new as the server has it; the fields are only read. Returns what
 * is to be called after every change of a field.
 */
function keepLive(root, data, form) {
  const show = display(root, data, form);
  let answered = JSON.stringify(sentValues(data.values, data)); // the values that data.verdict is about
  let tag = data.tag && `"${data.tag}"`;
  let since = Date.now(); // also counts while the computer sleeps, unlike performance.now()
  const asker = refresher({ ask, isVisible: () => !document.hidden && !form.isLeaving(), onFailure: refresh });

  form.redraw = refresh;
  form.soon = asker.soon;
  form.now = asker.now;

  /** Returns whether there is nothing to ask the server right away. */
  function refresh() {
    const values = form.read();
    const age = data.age_s === null ? null : data.age_s + Math.max(0, Date.now() - since) / 1000;
    const isAnswered = JSON.stringify(sentValues(values, data)) === answered;
    show(values, { isAnswered, isAsking: asker.isHopeful(), age });
    // A custom image has to be checked whatever the other fields hold.
    return isAnswered || !(sentenceOf(values, data) || (data.custom_image && !values.image));
  }

  /** Returns after how many milliseconds to ask again, false where there is a form no more. */
  async function ask() {
    let answer;
    try {
      answer = await askServer(form.address, { ...sentValues(form.read(), data), ...form.sent?.() }, tag);
      const isNew = answer.ok && answer.headers.get("Content-Type")?.startsWith("application/json");
      const news = isNew ? await answer.json() : undefined;
      if (!isNew && answer.status !== 304) throw new Error(`status ${answer.status}`);
      if (news && news.version !== VERSION) return false;
      take(news, answer.headers);
    } catch (error) {
      form.noData(answer ?? error); // which finds out what it means
      if (!answer || answer.status > 499) throw error;
      return true;
    }
    form.noData();
    const again = Number(answer.headers.get("Gpuspawner-Again"));
    expectNext(again);
    return again * 1000 || true;
  }

  function take(news, headers) {
    const age = headers.get("Gpuspawner-Age");
    [tag, since, data.age_s] = [headers.get("ETag"), Date.now(), age === null ? null : Number(age)];
    if (news) {
      renew(data, news);
      answered = JSON.stringify(sentValues(data.values, data));
      data.gpus.forEach((gpu) => showCounts(root, gpu));
      data.news = news; // for parts that show more of it
    }
    refresh();
  }

  on(document, "visibilitychange", () => (document.hidden ? asker.rest() : asker.now()));
  on(window, "pageshow", ({ persisted }) => persisted && asker.now());
  const ticks = setInterval(refresh, TICK_MS);
  ending.signal.onabort = () => clearInterval(ticks);
  asker.rest();
  return () => refresh() || asker.soon();
}
