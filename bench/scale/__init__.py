"""What a large cluster costs the hub: ours beside what others do, on a real API server."""
