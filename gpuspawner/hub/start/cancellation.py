"""Adds a cancel button to a start's progress page, and finds pods that a cancelled or failed start has left.

JupyterHub 6 has a stop button on that page, which always stops the user's default server, even during the start of a
named server. JupyterHub 5 has no button. The cancel button is part of the HTML of a progress message, and hides
JupyterHub's stop button. JupyterHub repeats each message in the page's event log, where the cancel button is hidden.
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
"""Whether JupyterHub's progress page has a button that stops the default server."""

_HIDDEN = Markup("<style>#progress-log .gs-cancel,#stop-server-btn{display:none}</style>")
# JupyterHub's page contains the XSRF token for the API. After the API has answered, the progress page of a named server
# may be a 404, because its pod is deleted or being deleted; the button therefore leads to the user's home page.
_BUTTON = Markup(
    '<span class="gs-cancel"><br><button type="button" class="btn btn-danger btn-sm mt-2" value="{}" data-failed="{}"'
    " onclick=\"this.disabled=true;fetch(this.value+'?_xsrf='+jhdata.xsrf_token,{{method:'DELETE'}})"
    ".then(r=>{{if(!r.ok)throw r;location=jhdata.base_url+'home'}}).catch(()=>{{this.disabled=false;"
    "this.nextElementSibling.textContent=' '+this.dataset.failed}})\">{}</button>"
    '<span role="alert"></span></span>'
)


def add_cancel_button(spawner: UserServer, sentence: str) -> str:
    """Return a sentence as HTML with a cancel button, or "" if JupyterHub's own button stops the server.

    :param spawner: the spawner of the server.
    :param sentence: plain text of a progress message.
    """
    if _HAS_STOP_BUTTON and not spawner.name:
        return ""
    failed = gettext("That did not work. Try again, or reload the page.")
    button = _BUTTON.format(_build_api_path(spawner), failed, gettext("Cancel"))
    return str(Markup("{}{}{}").format(sentence, button, _HIDDEN))


def can_have_left_pod(spawner: PodWatchingSpawner, *, is_pod_sent: bool) -> bool:
    """Return whether a cancelled or failed start may have left a pod, in any state.

    A cancelled start may have sent a pod that KubeSpawner's reflector does not hold yet.

    :param spawner: the spawner of the server.
    :param is_pod_sent: whether the start has sent its pod to the API server.
    """
    start = _find_failed_start(spawner)
    return start is not None and ((start.cancelled() and is_pod_sent) or find_pod(spawner) is not None)


def has_never_run(spawner: PodWatchingSpawner) -> bool:
    """Return whether a cancelled or failed start has left a pod in which no container ran; it needs no grace period.

    :param spawner: the spawner of the server.
    """
    if _find_failed_start(spawner) is None:
        return False
    pod = find_pod(spawner) or {}
    # Check init containers too: while one runs and may write to the user's volume, the pod's phase is Pending.
    return read_phase(pod) != "Running" and not any(each.is_running or each.end_reason for each in read_containers(pod))


def find_pod(spawner: PodWatchingSpawner) -> Mapping[str, object] | None:
    """Return the JSON of a server's pod from KubeSpawner's reflector, or None if the reflector has no such pod.

    :param spawner: the spawner of the server.
    """
    reflector = spawner.pod_reflector
    return None if reflector is None else reflector.pods.get(f"{spawner.namespace}/{spawner.pod_name}")


def _find_failed_start(spawner: PodWatchingSpawner) -> asyncio.Future[Any] | None:
    start = private_api.get_start_future(spawner)
    has_failed = start is not None and start.done() and (start.cancelled() or start.exception() is not None)
    return start if has_failed else None


def _build_api_path(spawner: UserServer) -> str:
    """Return the path with which JupyterHub's REST API stops a server."""
    server = ("servers", url_escape_path(spawner.name)) if spawner.name else ("server",)
    return str(url_path_join(spawner.hub.base_url, "api/users", spawner.user.escaped_name, *server))
