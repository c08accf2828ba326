"""Measurements of gpuspawner against its budgets: ``python -m bench``."""
