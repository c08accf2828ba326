"""Translate, quote and join the text of messages.

In: English messages with ``{name}`` placeholders, and values to fill in or to quote.
Out: text in the language of the current request. This package does not depend on clusters, GPUs or HTTP.

- ``i18n``: the current language, translation, messages that are translated later
- ``wording``: lists of names, sentences and clauses; a user's input inside a message; suggestions for misspelled names
"""

from gpuspawner.core.text.i18n import Language, gettext, gettext_lazy, ngettext, translate_now, use_language
from gpuspawner.core.text.wording import format_list, join_sentences, join_with_and, join_with_or, quote, sanitize_name

__all__ = [
    "Language",
    "format_list",
    "gettext",
    "gettext_lazy",
    "join_sentences",
    "join_with_and",
    "join_with_or",
    "ngettext",
    "quote",
    "sanitize_name",
    "translate_now",
    "use_language",
]
