// The choice that a link filled in, line by line above the fields, while they change; only sent where the page asks whether to
// start it. Comes after display.js.

/** What each line says: name of the line → text, empty for a line with nothing to say. */
export function factsOf(values, data) {
  const { image, gpu } = chosen(values, data);
  const longest = bySlug(data.policy?.times ?? [], values.gpu)?.longest ?? "";
  const minutes = minutesOf(data.run_time ? values.run_time.trim() : longest);
  return {
    image: image?.display_name ?? "",
    gpu: gpu ? gpusText(values, data) : t("No GPU"),
    amounts: joined(amountParts(values, data)),
    run_time: minutes ? t("up to {length}", { length: lengthText(minutes) }) : "",
    more: joined([...sharedParts(values, data), ...unusualParts(values, data)]),
  };
}

parts.push((root, data, { find }) => {
  const lines = all(find("facts"), "[data-fact]");
  // A reference of one of the hub's images: the hub knows that of the one in the link.
  const own = find("facts").querySelector(".gs-foreign") ? undefined : referenceOf(data.values);
  return (values) => {
    const facts = sentenceOf(values, data) ? factsOf(values, data) : {};
    const isForeign = !values.image && referenceOf(values) !== own;
    lines.forEach((line) => {
      say(line.querySelector("span"), facts[line.dataset.fact] ?? "");
      line.hidden = !facts[line.dataset.fact];
      if (line.dataset.fact !== "image") return;
      line.classList.toggle("gs-foreign", isForeign);
      line.querySelector("small").hidden = !isForeign;
    });
  };
});
