"""Runs one start: dry run, supervision, progress and cancellation."""
