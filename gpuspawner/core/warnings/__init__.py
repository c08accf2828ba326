"""Finds what admins should know about nodes, presets and policy."""
