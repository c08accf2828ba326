"""Sends requests to the Kubernetes API server and parses the answers.

Callers pass an API method of `kubernetes_asyncio` and its arguments. A failed request raises an
:class:`APIUnavailableError`. KubeSpawner, and the code for starts in `gpuspawner.hub`, call `spawner.api` directly.

- `api_requests`: send a request, read its response, read a list in small pages, ask whether the hub has a right
  (SelfSubjectAccessReview).
- `pacing`: take turns with other tasks, share and cache answers, back off after a failure.
"""
