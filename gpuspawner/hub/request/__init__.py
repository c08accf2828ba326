"""Reads the request being served: who views, which language, what was sent."""
