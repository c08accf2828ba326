"""Parse and format amounts: CPU, memory, durations.

In: amounts in user options, settings and Kubernetes objects ("16G", "500m", 0.5).
Out: exact whole numbers (millicores, bytes, seconds), and text for forms and messages.
Of gpuspawner's packages, this package imports only ``text``.

- ``quantity``: CPU and memory, exact or rounded; Kubernetes quantities and users' amounts have different notations
- ``duration``: exact durations, such as a server's run time, and rough durations for messages
"""
