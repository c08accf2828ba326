"""Turns what a user asks for into a valid selection, and a selection into what its pod must contain.

Input: a choice as a form, a link or JSON, and the catalog to validate the choice against. Output: :class:`Selection`,
the user options that JupyterHub stores, and :class:`PodRequirements`. A ``SelectionError`` has one problem for each
wrong field. This package does not depend on users, policies or KubeSpawner.

- ``field_definitions`` declares each field with a class from ``fields``.
- ``options`` reads forms and links, ``selection`` validates user options, ``checks`` checks single values and writes
  the error messages that the form shows beside the fields.
- ``pod_requirements`` computes what the pod must contain: image, CPU, memory and GPUs, node selector and affinity,
  tolerations, environment variables, ``/dev/shm``.
- ``candidate`` reads the same from a finished pod, such as that of a profile of KubeSpawner.
"""
