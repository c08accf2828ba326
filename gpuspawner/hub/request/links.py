"""How a link names the options of a start: JupyterHub reads both ways, and its version decides which it wants."""

from __future__ import annotations

import jupyterhub

LINK_PREFIX = "opt-" if jupyterhub.version_info >= (6,) else ""
"""Comes before each option's name in the address of a spawn page. JupyterHub 6 warns of names without it, because they
may be names of its own; JupyterHub 5 hands the prefix on as part of the name."""
