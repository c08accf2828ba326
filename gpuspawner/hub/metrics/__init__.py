"""Exports Prometheus metrics."""
