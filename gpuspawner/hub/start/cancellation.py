"""A way to stop a server that is still starting, on the page that waits for it, where JupyterHub has none that works.

JupyterHub 6 has a button there that stops the person's default server, whichever server the page is about; JupyterHub 5
has none. What is added stands in the messages on that page, which may be HTML, and hides the button that would stop
another server. Each message is repeated in the page's log, where it is hidden.
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
# The hub's own page holds the token that its API asks for. Its answer comes when the pod is gone, or going; JupyterHub
# may have forgotten a named server by then, so that its page would be a 404.
_BUTTON = Markup(
    '<span class="gs-cancel"><br><button type="button" class="btn btn-danger btn-sm mt-2" value="{}" data-failed="{}"'
    " onclick=\"this.disabled=true;fetch(this.value+'?_xsrf='+jhdata.xsrf_token,{{method:'DELETE'}})"
    ".then(r=>{{if(!r.ok)throw r;location=jhdata.base_url+'home'}}).catch(()=>{{this.disabled=false;"
    "this.nextElementSibling.textContent=' '+this.dataset.failed}})\">{}</button>"
    '<span role="alert"></span></span>'
)


def add_cancel_button(spawner: UserServer, sentence: str) -> str:
    """Return a sentence as HTML with a button that stops the server; empty where JupyterHub's own button does.

    :param spawner: the server's.
    """
    if _HAS_STOP_BUTTON and not spawner.name:
        return ""
    failed = gettext("That did not work. Try again, or reload the page.")
    button = _BUTTON.format(_build_api_path(spawner), failed, gettext("Cancel"))
    return str(Markup("{}{}{}").format(sentence, button, _HIDDEN))


def can_have_left_pod(spawner: PodWatchingSpawner, *, is_pod_sent: bool) -> bool:
    """Tell whether a start that was cut off, or failed, may have left a pod, in whatever state.

    A start that is cut off can have sent a pod of which the watch does not know yet.

    :param spawner: the server's.
    :param is_pod_sent: the start has sent its pod to the API server.
    """
    start = _find_failed_start(spawner)
    return start is not None and ((start.cancelled() and is_pod_sent) or find_pod(spawner) is not None)


def has_never_run(spawner: PodWatchingSpawner) -> bool:
    """Tell whether nothing has run in the pod of such a start, so that it needs no time to end.

    :param spawner: the server's.
    """
    if _find_failed_start(spawner) is None:
        return False
    pod = find_pod(spawner) or {}
    # A pod is Pending as long as one that prepares it runs, which may be writing to the person's disk.
    return read_phase(pod) != "Running" and not any(each.is_running or each.end_reason for each in read_containers(pod))


def find_pod(spawner: PodWatchingSpawner) -> Mapping[str, object] | None:
    """Return the pod of a server as the watch has it, None for none.

    :param spawner: the server's.
    """
    reflector = spawner.pod_reflector
    return None if reflector is None else reflector.pods.get(f"{spawner.namespace}/{spawner.pod_name}")


def _find_failed_start(spawner: PodWatchingSpawner) -> asyncio.Future[Any] | None:
    start = private_api.get_start_future(spawner)
    has_failed = start is not None and start.done() and (start.cancelled() or start.exception() is not None)
    return start if has_failed else None


def _build_api_path(spawner: UserServer) -> str:
    """Return the address of a server in JupyterHub's REST API."""
    server = ("servers", url_escape_path(spawner.name)) if spawner.name else ("server",)
    return str(url_path_join(spawner.hub.base_url, "api/users", spawner.user.escaped_name, *server))
