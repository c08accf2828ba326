"""Predicts whether a server starts now, waits or can never start, and finds alternatives."""
