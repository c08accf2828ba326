"""`gpuspawner doctor`: diagnoses a cluster and a release."""
