"""Keeps KubeSpawner's reflectors working and reads pods and events from them."""
