"""Decides whether a user may start a server, and with what.

Input: user options, the catalog, the admin's policy, the user's groups, the pods of running servers and what
ResourceQuotas leave. Output: an :class:`Admission`, or an error with one problem for each wrong field. This package
calls neither JupyterHub nor Kubernetes: the hub reads the input and passes it in.

- ``admission``: checks a choice before its server starts, and derives what the pod must contain.
- ``allowance``: computes what the user may have now. It also compares each field of a choice with the user's limits,
  and explains each denial. The form and ``admission`` both use this module.
- ``rules``: merges the admin's rules into one rule for a user.
- ``gpu_limits``: lists all limits on the number of GPUs in one more server of a user; ``allowance`` applies them.
- ``denials``: the codes and texts of refusals.
- ``usage``: finds which user's server a pod belongs to and how many GPUs the server uses, sums the GPUs in use, and
  reads the ResourceQuotas of a namespace.
"""
