"""Values and arithmetic: standard library only, no I/O, no clock, no logging, no async."""
