"""Sends requests to the Kubernetes API server and parses the answers.

Callers pass an API method of `kubernetes_asyncio` and its arguments. A failed request raises an
:class:`APIUnavailableError`. KubeSpawner, and the code for starts in `gpuspawner.hub`, call `spawner.api` directly.

- `api_requests`: send a request, read its response, read a list in small pages, ask whether the hub has a right
  (SelfSubjectAccessReview).
- `pacing`: take turns with other tasks, share a task between callers, back off after a failure, measure time with a
  clock that never goes back.
"""

from gpuspawner.kube.client.api_requests import (
    APIMethod,
    APIUnavailableError,
    CoreAPI,
    find_missing_verb,
    is_allowed,
    list_each,
    read_body,
    send_request,
)
from gpuspawner.kube.client.pacing import Backoff, SharedTasks, SteadyClock, take_turns

__all__ = [
    "APIMethod",
    "APIUnavailableError",
    "Backoff",
    "CoreAPI",
    "SharedTasks",
    "SteadyClock",
    "find_missing_verb",
    "is_allowed",
    "list_each",
    "read_body",
    "send_request",
    "take_turns",
]
