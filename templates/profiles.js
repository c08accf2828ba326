// Profiles: cards that have lists and a button of their own. Only sent where there are any; comes after display.js.

const MOST_SENT = 6000; // as the hub takes it: hub/request/context.py
const UNLISTED = "--unlisted-choice"; // as KubeSpawner names the text field of an option

/** A card's fields: name → text; those that the server has filled in if `isLoaded`, else those that are there now. */
function heldBy(card, isLoaded) {
  const loaded = (field) => (field.options ? field.querySelector("[selected]")?.value ?? "" : field.defaultValue);
  return Object.fromEntries(all(card, "select, input").map((field) => [field.name, isLoaded ? loaded(field) : field.value.trim()]));
}

// A profile that the server no longer offers.
const GONE_PROFILE = { sentence: t("Reload the page to see what is offered now."), outcome: "never", isDenied: true };

/** The texts of a card: the choice, and its verdict. */
function loadedFor(card) {
  const [outlook, holds] = [".gs-outlook", ".gs-holds"].map((name) => card.querySelector(name));
  return {
    about: JSON.stringify(heldBy(card, true)),
    outcome: outlook.dataset.outcome ?? "",
    sentence: outlook.textContent.trim(),
    holds: holds.textContent.trim(),
    isDenied: card.hasAttribute("data-denied"),
  };
}

/** The same as the server says it later. */
function toldFor({ fields, outlook, summary, is_denied: isDenied }) {
  return { about: JSON.stringify(fields), outcome: "", sentence: "", ...outlook, holds: summary, isDenied };
}

/** The options of a card as a query, as KubeSpawner names them; a text counts only where its list leaves it to the person. */
export function optionsOf(profile, held) {
  const query = { profile };
  for (const [name, text] of Object.entries(held)) {
    if (text && !(name.endsWith(UNLISTED) && held[name.slice(0, -UNLISTED.length)])) query[name] = text;
  }
  return query;
}

/** Cards that the question to the server has room for, the card in use first: field name → text. */
export function sentOf(cards, most = MOST_SENT) {
  const sent = {};
  let left = most;
  for (const held of cards) {
    left -= headerOf(held).length;
    if (left > 0) Object.assign(sent, held);
  }
  return sent;
}

parts.push((root, data, form) => {
  let { news } = data;
  const cards = all(root, ".gs-profile");
  const told = new Map(cards.map((card) => [card, loadedFor(card)]));
  let picked = root.querySelector(".gs-profile[data-picked]");

  /** A list's text field is there where the list leaves it to the person. */
  function showOther(card) {
    all(card, ".gs-other").forEach((other) => {
      const list = card.querySelector(`select[name="${CSS.escape(other.querySelector("input").name.slice(0, -UNLISTED.length))}"]`);
      other.hidden = Boolean(list?.value);
    });
  }

  /** Take over what the server says of the cards now; what is picked in them stays. */
  function renew() {
    if (news === data.news) return;
    ({ news } = data);
    cards.forEach((card) => {
      const fresh = bySlug(news.profiles, card.dataset.profile);
      told.set(card, fresh ? toldFor(fresh) : GONE_PROFILE);
    });
  }

  function showCard(card, { age, isAsking }) {
    const { about, outcome, sentence, holds, isDenied } = told.get(card);
    const [line, button] = [card.querySelector(".gs-outlook"), card.querySelector("[name=profile]")];
    const isAbout = isDenied || about === JSON.stringify(heldBy(card));
    const isKnown = ["never", "unknown"].includes(outcome) || (age !== null && !ageText(age));
    const shown = form.state ? { outcome: "", sentence: "" } : isAbout ? { outcome: isKnown ? outcome : "", sentence: isKnown ? sentence : "" } : isAsking ? CHECKING : NOT_KNOWN;
    set(line, "data-outcome", shown.outcome);
    set(line, "aria-live", card === picked ? "polite" : "off");
    write(line, shown.sentence);
    card.querySelector(".gs-holds").toggleAttribute("data-stale", !isAbout);
    if (isAbout && holds) write(card.querySelector(".gs-holds"), holds);
    card.toggleAttribute("data-denied", isDenied);
    button.disabled = isDenied || form.isLeaving();
    showOther(card);
  }

  function pick(card) {
    if (!card || card === picked || card.hasAttribute("data-denied")) return;
    picked = card;
    cards.forEach((each) => each.toggleAttribute("data-picked", each === card));
    if (!told.get(card).outcome) form.soon(); // the server sends the verdicts of some cards only
  }

  function copyLink(card, button) {
    const link = new URL(location.href);
    link.pathname = link.pathname.replace(/(\/spawn)\/.*/, "$1");
    link.hash = "";
    const query = Object.entries(optionsOf(card.dataset.profile, heldBy(card)));
    link.search = new URLSearchParams(query.map(([name, text]) => [data.link_prefix + name, text]));
    copy(link.href, button, root.dataset.links);
  }

  form.sent = () => ({
    ...(picked && { profile: picked.dataset.profile }),
    ...sentOf([picked, ...cards.filter((card) => card !== picked)].filter(Boolean).map((card) => heldBy(card))),
  });
  cards.forEach((card) => {
    const copy = card.querySelector(".gs-copy");
    copy?.removeAttribute("hidden");
    on(copy, "click", () => copyLink(card, copy));
    on(card, "focusin", () => pick(card));
    on(card, "click", () => pick(card));
    on(card, "input", () => {
      card.querySelector(".gs-error")?.remove();
      write(copy, t("Copy link"));
      form.update();
      form.soon();
    });
    on(card, "keydown", (event) => {
      if (!/^enter$/i.test(event.key) || event.target.type !== "text") return;
      event.preventDefault(); // the browser would press the form's first button
      card.querySelector("[name=profile]").click();
    });
  });
  on(document, "submit", ({ submitter }) => setTimeout(() => {
    if (!form.isLeaving()) return;
    cards.forEach((card) => { card.querySelector("[name=profile]").disabled = true; });
    if (submitter?.closest(".gs-profile")) write(submitter, t("Starting…"));
  }));
  on(window, "pageshow", ({ persisted }) => {
    if (persisted) all(root, ".gs-profile [name=profile]").forEach((button) => write(button, t("Start")));
  });
  // Enter in a field of the form itself starts what the fields say, as without such cards.
  if (!root.dataset.only && !data.policy?.blocked) root.querySelector("button").disabled = false;
  if (picked && !picked.querySelector(".gs-last")) picked.scrollIntoView({ block: "nearest" });

  return (_, state) => {
    renew();
    cards.forEach((card) => showCard(card, state));
  };
});
