"""Decides what a user may have now: rules, quotas, and the servers that already run."""
