"""Renders the form and works out its live part."""
