"""Why something of the cluster is not known, in sentences for people; they tell nothing that is the admin's alone."""

from __future__ import annotations

from http import HTTPStatus

from gpuspawner.core.text.language import later

NOT_READ_YET = later("The cluster is still being read; open this page again in a few seconds.")
READ_AGAIN = later("The cluster is being read again.")
NOT_UNDERSTOOD = later("The Kubernetes API server's answer could not be understood.")
STOPPED = later("The hub is shutting down.")

_STATUS_REASONS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: later("Kubernetes refused the hub's credentials."),
    HTTPStatus.TOO_MANY_REQUESTS: later("The Kubernetes API server is overloaded."),
}


def explain(status: int | None, *, forbidden: str) -> str:
    """Return why a request failed.

    :param status: HTTP status, None without an answer.
    :param forbidden: the sentence for a missing right.
    """
    if status is None:
        # Which address was tried is the admin's business, so it is not part of the sentence.
        return later("The Kubernetes API server cannot be reached.")
    if status == HTTPStatus.FORBIDDEN:
        return forbidden
    return _STATUS_REASONS.get(status) or later(
        "The Kubernetes API server answered with an error ({status}).", status=status
    )


def forbidden(verb: str, *, what: str) -> str:
    """Return that the hub has no right to do something: ``forbidden("list", what="the cluster's nodes")``."""
    return later("The hub may not {verb} {what}.", verb=verb, what=what)
