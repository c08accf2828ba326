"""Who looks at a form: whose request it is, which need not be the person whom the server is for.

JupyterHub gives a spawner the handler of a request that opens its form. The spawner keeps it, also while a request of
somebody else asks for the same form, so it is remembered for the request that it came with. Each request of tornado
runs in a context of its own.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

_handler: ContextVar[Any] = ContextVar("gpuspawner_handler", default=None)


def note(handler: Any) -> None:
    """Remember the handler of this request; to be called in the request's own task."""
    _handler.set(handler)


def is_admin() -> bool:
    """Tell whether an admin of the hub looks; not so where nobody said who does, as after a form that was wrong."""
    user = getattr(_handler.get(), "current_user", None)
    return getattr(user, "admin", False) is True
