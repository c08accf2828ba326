"""Errors that devcluster raises."""

from __future__ import annotations


class DevclusterError(Exception):
    """Say in one line what went wrong and what to do about it; the command line prints it as it is."""
