"""What open progress pages cost the hub, beside plain KubeSpawner's."""
