"""Translate, quote and join the text of messages.

In: English messages with ``{name}`` placeholders, and values to fill in or to quote.
Out: text in the language of the current request. This package does not depend on clusters, GPUs or HTTP.

- ``i18n``: the current language, translation, messages that are translated later
- ``wording``: lists of names, sentences and clauses; a user's input inside a message; suggestions for misspelled names
"""
