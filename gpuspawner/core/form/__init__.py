"""Builds the view of the form: everything that the hub's templates and form.js show to a user.

:class:`FormView` has plain values, and texts in the language of the current request. This package contains no HTML and
makes no decisions: `core.policy` decides what a user may have, and `core.verdict` whether the user's choice can start.

- ``views`` declares the view: start reading here. ``cache`` keeps parts of it for all users.
- ``fields`` fills in the form's fields from saved user options or a submitted form with errors.
- ``build`` builds the view.
- ``encoding`` encodes the part of it that form.js reads.
- ``policy`` applies one user's limits and denials to images, GPU types and presets, and builds the cards of presets.
- ``wording`` describes GPU types, the user's choice and changes of it as text.
"""
