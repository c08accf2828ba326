"""How soon what the form says of free GPUs is true again: in a page that is open, and in one that is loaded."""
