"""Converts KubeSpawner's profile_list to settings."""
