"""Exit codes, findings and output that all commands share."""
