"""Admits or refuses a choice, and reserves GPUs for a start until its pod exists.

What enters: a spawner, user options and the :class:`~gpuspawner.hub.config.offer.Offer`. What leaves: an
:class:`~gpuspawner.core.policy.admission.Admission`, or an error for the form. The room reads what
:func:`gpuspawner.core.policy.admission.admit` needs to know: groups, servers and quotas. It applies no policy itself
and knows neither pages nor pod manifests.

- ``service``: :class:`AdmissionService`, the room's interface; one for the hub's process.
- ``reservations``: :class:`Reservations`, the GPUs of running servers and of starts without a pod.
- ``admin_traits``: what the admin's KubeSpawner traits say of where a pod can run.

The package imports no module, so that the CLI can import ``admin_traits`` without JupyterHub.
"""
