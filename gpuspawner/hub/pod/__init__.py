"""Turns an admitted choice into trait values and the pod manifest."""
