"""Builds the documentation: generated reference pages, and the site that docs/ becomes. Not in the wheel.

``python -m docsite`` writes the pages of docs/reference anew and builds the site into site/ (``make docs``).
"""
