"""Translates, quotes and joins the text that users read."""
