// The bar with the verdict and Start, what it unfolds, and an image that suits the GPU that is picked; comes after display.js.

/** An image that can use the GPU that is picked, undefined where the one that is picked can, and where none can. */
export function fittingImage(values, data) {
  const { image, gpu } = chosen(values, data);
  return misfitOf(image, gpu) ? data.images.find((each) => !misfitOf(each, gpu)) : undefined;
}

parts.push((root, data, { find, read, update }) => {
  const [summary, sum, toggle] = ["summary", "sum", "toggle"].map(find);
  // Nothing that a user chose is replaced: the image of a first preset, or the first image, was no user's choice.
  let isImageOurs = root.hasAttribute("data-fresh");

  function open(isOpen) {
    if (!toggle) return;
    sum.hidden = !isOpen;
    set(toggle, "aria-expanded", isOpen);
  }

  /** What opens is in sight, above the bar. */
  function reveal(element) {
    setTimeout(() => element?.scrollIntoView({ block: "nearest" }));
  }

  /** The image comes after the GPU: one that was only there at first makes room for one that can use it. */
  function fitImage() {
    const values = read();
    const image = fittingImage(values, data);
    if (!image) return;
    const { image: other, gpu } = chosen(values, data);
    rowOf(root, "image", image.slug).querySelector("input").checked = true;
    const names = { image: image.display_name, other: other.display_name, gpu: gpu.display_name };
    say(find("fitted"), t("{image} is selected: {other} can't be used with {gpu}.", names));
    update();
  }

  open(false);
  toggle?.removeAttribute("hidden");
  all(root, ".gs-preset").forEach((card) => card.removeAttribute("aria-current")); // JavaScript says it as aria-pressed
  on(toggle, "click", () => open(sum.hidden));
  on(find("alternatives"), "click", () => open(false));
  // What is unfolded covers fields: it makes way for the one that gets the focus.
  on(document, "focusin", ({ target }) => summary.contains(target) || open(false));
  on(summary, "keydown", ({ key }) => {
    if (!/^esc/i.test(key) || !toggle || sum.hidden) return;
    open(false);
    toggle.focus();
  });
  on(root, "input", ({ target: { name } }) => {
    if (!["image", "gpu"].includes(name)) return;
    const isGPU = name === "gpu";
    isImageOurs &&= isGPU;
    say(find("fitted"), "");
    if (isImageOurs) fitImage();
    reveal(find(isGPU ? "count" : "own"));
  });
  on(root, "click", ({ target }) => {
    if (target.closest(".gs-preset")) isImageOurs = false;
    reveal(target.closest("summary")?.parentElement);
  });

  return (values) => {
    const preset = root.querySelector(".gs-preset[aria-pressed=true] b")?.textContent;
    const gpus = values.gpu ? gpusText(values, data) : t("No GPU");
    const amounts = find("follow")?.hidden === false ? amountParts(values, data) : [];
    // The verdict says that there is none to name.
    say(find("brief"), values.gpu === UNANSWERED ? "" : joined([...(preset ? [preset] : []), gpus, ...amounts]));
    const number = find("alternatives")?.children.length || "";
    set(toggle, "data-number", number);
    write(toggle?.firstElementChild, number ? t("Alternatives ({number})", { number }) : t("Details"));
  };
});
