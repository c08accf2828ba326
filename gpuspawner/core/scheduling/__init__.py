"""Applies kube-scheduler's filters to one pod and the nodes."""
