"""Builds the view of the form: plain values that templates and scripts render."""
