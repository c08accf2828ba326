"""Describes what the form offers: images, amounts, GPU types, presets, and the nodes behind each GPU type."""
