"""Who looks at a form: whose request it is, which need not be the person whom the server is for.

JupyterHub gives a spawner the handler of a request that opens its form. The spawner keeps it, also while a request of
somebody else asks for the same form, so it is remembered for the request that it came with. Each request of tornado
runs in a context of its own.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

_is_admin: ContextVar[bool] = ContextVar("gpuspawner_is_admin", default=False)


def note_viewer(handler: Any) -> None:
    """Remember whose request this is; to be called in the request's own task.

    Not the handler itself: tasks that begin in a request keep its context for as long as they run.
    """
    user = getattr(handler, "current_user", None)
    _is_admin.set(getattr(user, "admin", False) is True)


def is_viewer_admin() -> bool:
    """Tell whether an admin of the hub looks; not so where nobody said who does, as after a form that was wrong."""
    return _is_admin.get()
