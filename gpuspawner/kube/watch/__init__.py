"""Follows resources with lists and watches."""
