"""Set-up of a checkout: what a make target needs, what of it is missing, and how it gets there.

Standard library only. `preflight` looks for what only the user can install, `steps` knows what has to be there,
`runner` runs the steps side by side, `progress` tells about them, `system` asks the machine.
"""
