"""Holds the traits, reads settings files and builds the offer that a form shows."""
