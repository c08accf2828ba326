"""Renders the form and predicts what happens to the choice in it.

A spawner, its `Offer` and a `Selection` enter. HTML, the form's live state and warnings for admins leave. The room
decides nothing about what a user may start (`hub.admission`), and starts nothing (`hub.start`).

- `live`: `build_live` predicts verdicts, `find_startable_alternatives` finds choices that start now.
- `rendering`: `render` turns a `FormView` into HTML and translates the form's JavaScript.
- `warnings`: `AdminWarnings` finds and logs problems of nodes, presets and policy.
"""
