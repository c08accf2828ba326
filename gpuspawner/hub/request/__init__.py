"""Reads the HTTP request that JupyterHub serves now: who views, which language, and what the form contains.

JupyterHub's handler enters. The values live in context variables, because JupyterHub passes them to the spawner only in
part; tornado runs each request in its own context. The room knows neither the cluster nor policy.

- `context`: the viewer, the values of a sent form, and links that start a server or fill in the form.
- `languages`: choose the language from `Accept-Language` or from the sent form.
"""
