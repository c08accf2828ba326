"""Reads the current HTTP request: whether an admin views the page, its language, and the values of a sent form.

The input is JupyterHub's handler of the request. JupyterHub passes only a part of the request to the spawner's methods,
so this package keeps these facts in context variables, which the methods read. tornado runs each request in its own
context. No code here uses the cluster or policy.

- `context`: the viewer, the values of a sent form, and links that start a server or fill in the form.
- `languages`: chooses the language from the configuration, the sent form or `Accept-Language`.
"""
