"""Parses a choice, validates it against the catalog and turns it into requirements on the pod."""
