"""The verdict just before pods were created, beside what kube-scheduler and Karpenter then did."""
