"""Reports to a user how the start of a server proceeds, and decides when a start cannot succeed.

Input: :class:`Facts`: the pod and its events as JSON, the verdict (a prediction of when the pod starts), the pod's
place in Kueue's queue, and the seconds since the start began.
Output: :class:`Report` values with a stage, a sentence, a percentage and, if the start has failed, a failure code.
This package must not read a clock or the API. No sentence may contain text from Kubernetes about other users' pods.

:mod:`.tracker` reports what has changed since the last report, and measures how long each problem lasts.
:mod:`.model` has the data classes. One module describes each state of the pod: :mod:`.waiting` (no node yet),
:mod:`.on_node` (disks, images, containers), :mod:`.endings` (failed, evicted, deleted). :mod:`.images` parses and
describes image pulls, :mod:`.runtime_errors` errors of container runtimes. :mod:`.scheduler_events` parses messages of
kube-scheduler, autoscalers and Kueue. :mod:`.events` parses events and redacts them. :mod:`.pod_status` reads the pod's
JSON.
"""
