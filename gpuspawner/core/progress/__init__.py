"""Turns a pod, its events and its verdict into messages about a start."""
