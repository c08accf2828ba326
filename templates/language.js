// What the page says. Messages are English here; the server sends this script with those of the page's language in their
// place, and with that language's rule for plurals.

/** A message with what is filled in for the names in braces. */
function t(message, values) {
  return message.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/** The same for a number of things: in English one message for 1 and one for all others, elsewhere an array of all forms. */
function tn(one, many, number, values) {
  const forms = many ? [one, many] : one;
  return t(forms[formOf(number)], { number, ...values });
}

function formOf(n) {
  return Number(n != 1);
}
