"""Renders the spawn form, and predicts whether a server with the selected options would start now.

The input is a spawner, its `Offer` and a `Selection`. The output is HTML, the form's live state and warnings for
admins. `hub.admission` decides what a user may start, and `hub.start` runs the start.

- `live`: `build_live` predicts verdicts, `find_startable_alternatives` finds choices that start now.
- `rendering`: `render` turns a `FormView` into HTML and translates the form's JavaScript.
- `warnings`: `AdminWarnings` finds and logs problems of nodes, presets and policy.
"""
