// What the page knows of the cluster, shown and kept up to date; comes after choice.js and live.js.

const VERSION = 6;
const TIMEOUT_MS = 30_000;
const TICK_MS = 10_000;
// A type that the server no longer offers.
const GONE = {
  total: null,
  free: null,
  state: "gone",
  reason: t("Reload the page to see what is offered now."),
  shapes: [],
  largest_shapes: [],
  scales: false,
};

/** Text of an element, touched only where it changes: whoever listens to the page hears of nothing else. */
function say(element, text) {
  element?.toggleAttribute("hidden", !text);
  write(element, text);
}

/** The same for an element that keeps its place when it is empty. */
function write(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
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

/** The row of a choice on this page or another. */
function rowOf(page, name, slug) {
  return page.querySelector(`input[name=${name}][value="${CSS.escape(slug)}"]`)?.closest("label");
}

/** What a row says of a GPU type's counts, in words and with a bar. */
function countsOf(page, slug) {
  return rowOf(page, "gpu", slug)?.querySelector(":has(> .gs-free)");
}

/** Show the counts of a GPU type as a newer page shows them. */
function renewCounts(root, page, slug) {
  const [shown, fresh] = [countsOf(root, slug), countsOf(page, slug)];
  if (!shown || shown.innerHTML === fresh?.innerHTML) return;
  const gone = made("span", { className: "gs-free", textContent: t("no longer offered") });
  shown.replaceChildren(...(fresh?.childNodes ?? [gone]));
}

/** What a JSON island says. Of things alike it holds a table, names once and rows without: a list of objects in here. */
export function readIsland(text) {
  const objects = ({ names, rows }) => rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]])));
  return JSON.parse(text, (_, value) => (value?.rows ? objects(value) : value));
}

/** The JSON island of a page, undefined where it has none that this script can read. */
function islandOf(page) {
  const data = readIsland(page.getElementById("gpuspawner-data")?.textContent || "{}");
  return data.version === VERSION ? data : undefined;
}

/** The answer to a question for the form of these values: a page, as the server has it now. */
function fetchPage(address, sent) {
  // Without the query: one on this address would start a server.
  return fetch(address, {
    headers: { "Gpuspawner-Choice": headerOf(sent) },
    credentials: "same-origin",
    cache: "no-store",
    redirect: "manual", // to the running server, or to the login page
    signal: AbortSignal.timeout(TIMEOUT_MS),
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
      const isTold = outlook && (outlook.outcome === "never" || (age !== null && !ageText(age)));
      set(line, "data-outcome", isTold ? outlook.outcome : "");
      write(line, isTold ? outlook.sentence : "");
    });
  }

  /** What is asked for in words; whether there is something to ask for may be news from the server. */
  function showChoice(values) {
    const sentence = sentenceOf(values, data);
    say(find("sentence"), sentence || troubleOf(values, data));
    say(find("total"), totalOf(values, data));
    say(find("hint"), hintOf(values, data));
    find("link")?.toggleAttribute("hidden", !sentence);
  }

  function showImages(values) {
    const { gpu } = chosen(values, data);
    say(find("custom_image-live"), find("custom_image-error") ? "" : complaintOfReference(values, data));
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
    const { image } = chosen(values, data);
    say(find("misfit"), commonMisfitOf(image, data));
    data.gpus.forEach((gpu) => {
      const row = rowOf(root, "gpu", gpu.slug);
      if (!row) return;
      const radio = row.querySelector("input");
      // What is picked stays so until the person picks something else: a disabled one would not be sent.
      const isOut = gpu.state === "denied" || (gpu.state === "never" && !ageText(age));
      radio.toggleAttribute("disabled", isOut && !radio.checked);
      set(row, "data-state", gpu.state);
      row.toggleAttribute("data-misfit", Boolean(misfitOf(image, gpu)));
      write(row.querySelector(".gs-reason"), reasonOf(gpu, values, data, age));
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
    const verdict = shownVerdict(values, data, state);
    set(find("verdict"), "data-outcome", verdict?.outcome ?? "");
    say(find("verdict-text"), verdict?.sentence ?? "");
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
  let since = Date.now(); // also counts while the computer sleeps, unlike performance.now()
  const asker = refresher({ ask, isVisible: () => !document.hidden && !form.isLeaving(), onFailure: refresh });

  form.soon = asker.soon;
  form.now = asker.now;

  /** Returns whether there is nothing to ask the server right away. */
  function refresh() {
    const values = form.read();
    const age = data.age_s === null ? null : data.age_s + Math.max(0, Date.now() - since) / 1000;
    const isAnswered = JSON.stringify(sentValues(values, data)) === answered;
    show(values, { isAnswered, isAsking: asker.isHopeful(), age });
    // What somebody wrote as an image is looked at whatever the other fields hold.
    return isAnswered || !(sentenceOf(values, data) || (data.custom_image && !values.image));
  }

  async function ask() {
    let answer;
    try {
      answer = await fetchPage(form.address, { ...sentValues(form.read(), data), ...form.sent?.() });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
    } catch (error) {
      form.noData(answer ?? error); // which finds out what it means
      if (!answer || answer.status > 499) throw error;
      return true;
    }
    form.noData();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = islandOf(page);
    if (!fresh) return false;
    [answered, since] = [JSON.stringify(sentValues(fresh.values, data)), Date.now()];
    data.gpus.forEach((gpu) => {
      Object.assign(gpu, bySlug(fresh.gpus, gpu.slug) ?? GONE);
      renewCounts(root, page, gpu.slug);
    });
    data.presets.forEach((preset) => { preset.outlook = bySlug(fresh.presets, preset.slug)?.outlook ?? null; });
    data.images.forEach((image) => Object.assign(image, bySlug(fresh.images, image.slug)));
    for (const name of ["custom_image", "values", "verdict", "age_s", "capacity_notice"]) data[name] = fresh[name];
    data.page = page; // for parts that show more of it
    refresh();
    return true;
  }

  on(document, "visibilitychange", () => (document.hidden ? asker.rest() : asker.now()));
  on(window, "pageshow", ({ persisted }) => persisted && asker.now());
  const ticks = setInterval(refresh, TICK_MS);
  ending.signal.onabort = () => clearInterval(ticks);
  asker.rest();
  return () => refresh() || asker.soon();
}
