"""Sends requests and parses answers."""
