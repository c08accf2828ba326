"""Why something of the cluster is not known, in sentences for people; they tell nothing that is the admin's alone."""

from __future__ import annotations

from http import HTTPStatus

from gpuspawner.core.text.language import gettext_lazy

NOT_READ_YET = gettext_lazy("The cluster is still being read; open this page again in a few seconds.")
BEING_READ_AGAIN = gettext_lazy("The cluster is being read again.")
NOT_UNDERSTOOD = gettext_lazy("The Kubernetes API server's answer could not be understood.")
HUB_STOPPING = gettext_lazy("The hub is shutting down.")

_STATUS_REASONS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: gettext_lazy("Kubernetes refused the hub's credentials."),
    HTTPStatus.TOO_MANY_REQUESTS: gettext_lazy("The Kubernetes API server is overloaded."),
}


def describe_failure(status: int | None, *, missing_right: str) -> str:
    """Return why a request failed.

    :param status: HTTP status, None without an answer.
    :param missing_right: the sentence for a missing right.
    """
    if status is None:
        # Which address was tried is the admin's business, so it is not part of the sentence.
        return gettext_lazy("The Kubernetes API server cannot be reached.")
    if status == HTTPStatus.FORBIDDEN:
        return missing_right
    return _STATUS_REASONS.get(status) or gettext_lazy(
        "The Kubernetes API server answered with an error ({status}).", status=status
    )


def describe_missing_right(verb: str, *, what: str) -> str:
    """Return that the hub has no right to do something: ``forbidden("list", what="the cluster's nodes")``."""
    return gettext_lazy("The hub may not {verb} {what}.", verb=verb, what=what)
