"""Parses and formats amounts: CPU, memory, durations and counts."""
