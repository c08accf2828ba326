"""What the cluster has, read through the Kubernetes API; knows neither forms nor users."""
