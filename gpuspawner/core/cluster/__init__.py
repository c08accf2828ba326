"""Models nodes and pods as plain values and keeps what each node has free."""
