"""The prefix of options in links to the spawn page, which depends on JupyterHub's version."""

from __future__ import annotations

import jupyterhub

LINK_PREFIX = "opt-" if jupyterhub.version_info >= (6,) else ""
"""Precedes each option in a link that starts a server. JupyterHub 6 warns about options without it, because they may
collide with its own; JupyterHub 5 would treat it as part of the name."""
