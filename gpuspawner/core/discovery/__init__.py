"""Finds GPU types by the labels of nodes and builds the catalog from them and the admin's settings."""
