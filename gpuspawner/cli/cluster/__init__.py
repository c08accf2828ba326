"""Connects commands to a cluster and reads it."""
