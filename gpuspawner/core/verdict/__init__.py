"""Predicts when a server would start: now, after an autoscaler adds a node, later for another reason, or never.

Input: a pod as it would be created, an inventory of the cluster, and the chosen GPU type.
Output: a :class:`Verdict` with its reason; the availability of each GPU type; similar selections that would start now.
This package must not depend on the user, the policy, the form, or the failures of a start in progress. It reads no
clock: the inventory contains the age of its data.

:mod:`.verdict` makes the prediction, compares the pod with the quotas of its queue, and counts the pods that
kube-scheduler places before this pod. :mod:`.reasons` says why a pod fits no node. :mod:`.availability` counts total,
healthy and free GPUs, and the CPU and memory that are free on the same nodes. It also
divides the CPU and memory of nodes among their GPUs.
:class:`gpuspawner.core.catalog.queue.QueueState` counts the Workloads that Kueue takes before the server's Workload.
:mod:`.alternatives` finds similar selections that fit, in the order in which users see them. :mod:`.wording` formats a
verdict as a sentence with the verdict's reason.
"""
