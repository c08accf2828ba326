"""Renders the spawn form, and predicts whether a server with the selected options would start now.

The input is a spawner, the `Offer` of choices and the user's `Selection`. The output is HTML, the predictions for the
form, and warnings for admins. `hub.admission` decides what a user may start, and `hub.start` runs the start.

- `home_page`: `HomePage` describes a user's servers on JupyterHub's home page.
- `live`: `build_live` predicts which choices start now. `find_startable_alternatives` finds similar choices that
  start now.
- `refresh`: `answer_refresh` tells an open form what is new, and when to ask again.
- `rendering`: `render` turns a `FormView` into HTML and translates the form's JavaScript.
- `warnings`: `AdminWarnings` finds and logs problems of nodes, presets and policy.
"""
