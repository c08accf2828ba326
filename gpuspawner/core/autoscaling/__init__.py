"""Tells which nodes an autoscaler may add, and whether a pod would run on one."""
