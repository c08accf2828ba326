"""Reads the resources that are not nodes or pods."""
