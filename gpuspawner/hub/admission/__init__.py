"""Admits or refuses a user's choice of image and GPUs, and reserves the GPUs while the server starts.

The input is a spawner, user options and the :class:`~gpuspawner.hub.config.offer.Offer`. The output is an
:class:`~gpuspawner.core.policy.admission.Admission`, or an error for the form. This package reads groups, servers and
quotas; :func:`gpuspawner.core.policy.admission.admit` applies the policy to them. The package contains no code for
pages or pod manifests.

- ``service``: :class:`AdmissionService`, the interface of this package; the hub's process has one such object.
- ``reservations``: :class:`Reservations` counts the GPUs of running servers and of starts whose pod does not exist yet.
"""
