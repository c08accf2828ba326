"""Decides for a user whether a choice is admitted, and reserves what it takes."""
