"""Adds a cancel button to the page of a start, and finds what a cancelled start has left.

The page of JupyterHub 6 has a stop button, which stops the user's default server even if the page is about another
server; JupyterHub 5 has none. The button added here is part of the progress messages, which may be HTML, and hides
JupyterHub's. The page repeats each message in its log, where the button is hidden.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import jupyterhub
from jupyterhub.utils import url_escape_path, url_path_join
from markupsafe import Markup

from gpuspawner.core.progress.pod_status import read_containers, read_phase
from gpuspawner.core.text.i18n import gettext
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.spawner_protocol import PodWatchingSpawner, UserServer

_HAS_STOP_BUTTON = jupyterhub.version_info >= (6,)
"""JupyterHub's page has a button that stops the default server."""

_HIDDEN = Markup("<style>#progress-log .gs-cancel,#stop-server-btn{display:none}</style>")
# The hub's page holds the XSRF token for the API. The API answers when the pod is deleted or being deleted; the page of
# a named server may be a 404 by then, so the button leads to the user's home page.
_BUTTON = Markup(
    '<span class="gs-cancel"><br><button type="button" class="btn btn-danger btn-sm mt-2" value="{}" data-failed="{}"'
    " onclick=\"this.disabled=true;fetch(this.value+'?_xsrf='+jhdata.xsrf_token,{{method:'DELETE'}})"
    ".then(r=>{{if(!r.ok)throw r;location=jhdata.base_url+'home'}}).catch(()=>{{this.disabled=false;"
    "this.nextElementSibling.textContent=' '+this.dataset.failed}})\">{}</button>"
    '<span role="alert"></span></span>'
)


def add_cancel_button(spawner: UserServer, sentence: str) -> str:
    """Return a sentence as HTML with a cancel button; empty where JupyterHub's own button stops the server.

    :param spawner: the server's.
    :param sentence: plain text.
    """
    if _HAS_STOP_BUTTON and not spawner.name:
        return ""
    failed = gettext("That did not work. Try again, or reload the page.")
    button = _BUTTON.format(_build_api_path(spawner), failed, gettext("Cancel"))
    return str(Markup("{}{}{}").format(sentence, button, _HIDDEN))


def can_have_left_pod(spawner: PodWatchingSpawner, *, is_pod_sent: bool) -> bool:
    """Return whether a cancelled or failed start may have left a pod, in any state.

    A cancelled start may have sent a pod that the reflector does not hold yet.

    :param spawner: the server's.
    :param is_pod_sent: whether the start has sent its pod to the API server.
    """
    start = _find_failed_start(spawner)
    return start is not None and ((start.cancelled() and is_pod_sent) or find_pod(spawner) is not None)


def has_never_run(spawner: PodWatchingSpawner) -> bool:
    """Return whether no container has run in the pod of a cancelled or failed start, so that it needs no grace period.

    :param spawner: the server's.
    """
    if _find_failed_start(spawner) is None:
        return False
    pod = find_pod(spawner) or {}
    # A pod is Pending while an init container runs, which may be writing to the user's volume.
    return read_phase(pod) != "Running" and not any(each.is_running or each.end_reason for each in read_containers(pod))


def find_pod(spawner: PodWatchingSpawner) -> Mapping[str, object] | None:
    """Return the pod of a server as KubeSpawner's reflector holds it, or None.

    :param spawner: the server's.
    """
    reflector = spawner.pod_reflector
    return None if reflector is None else reflector.pods.get(f"{spawner.namespace}/{spawner.pod_name}")


def _find_failed_start(spawner: PodWatchingSpawner) -> asyncio.Future[Any] | None:
    start = private_api.get_start_future(spawner)
    has_failed = start is not None and start.done() and (start.cancelled() or start.exception() is not None)
    return start if has_failed else None


def _build_api_path(spawner: UserServer) -> str:
    """Return the path of a server in JupyterHub's REST API."""
    server = ("servers", url_escape_path(spawner.name)) if spawner.name else ("server",)
    return str(url_path_join(spawner.hub.base_url, "api/users", spawner.user.escaped_name, *server))
