"""Reads the current HTTP request: whether an admin views the page, its language, and the values of a sent form.

The input is JupyterHub's handler of the request. JupyterHub passes only a part of the request to the spawner's methods,
so this package stores the values in context variables; tornado runs each request in its own context. No code here uses
the cluster or policy.

- `context`: the viewer, the values of a sent form, and links that start a server or fill in the form.
- `languages`: choose the language from the configuration, the sent form or `Accept-Language`.
"""
