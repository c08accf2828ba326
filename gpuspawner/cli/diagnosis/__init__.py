"""What can be wrong with a cluster that is to run notebooks with GPUs: rules over what was read, and the reading."""
