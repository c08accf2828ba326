"""Our fit against the real kube-scheduler: random clusters and pods, decided by both."""
