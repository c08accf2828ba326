"""Describes a user's servers on JupyterHub's home page: the choice, the GPU, the state and the end of the run time.

The pages in ``templates/hub`` extend pages of JupyterHub. They get a :class:`HomePage` as a variable, which renders
``templates/hub/servers.html``. The script beside it, ``servers.js``, shows times in the browser's time zone. It also
makes the button that stops a server and opens the form with the server's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from jupyterhub.utils import url_escape_path, url_path_join
from markupsafe import Markup

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.form.fields import try_validate
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.request.options import split_options
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
from gpuspawner.core.request.selection import summarize_selection
from gpuspawner.core.text.i18n import ENGLISH, get_language, gettext, use_language
from gpuspawner.core.units.duration import format_duration
from gpuspawner.hub.admission.profiles import find_profile_name
from gpuspawner.hub.form.rendering import render_template
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import find_pod
from gpuspawner.hub.pod.patch import read_chosen_gpus
from gpuspawner.hub.pod.run_time import find_end_time, read_run_time_s
from gpuspawner.hub.request.languages import note_request_language

HOME_PAGE_VARIABLE = "gpuspawner_home"
"""JupyterHub's template variable that holds the :class:`HomePage`."""

RUNNING = "running"
STARTING = "starting"
STOPPING = "stopping"
STOPPED = "stopped"

_SERVERS_TEMPLATE = "hub/servers.html"
_LAST_CHOICE_TEMPLATE = "hub/last_choice.html"
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_MAX_HOURS = 48
"""A longer time than this many hours is shown in days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDescription:
    """One server of a user, as texts in the current language.

    :param name: the server's name; empty for the default server.
    :param title: name for the heading.
    :param state: ``running``, ``starting``, ``stopping`` or ``stopped``.
    :param choice: what the user chose ("PyTorch · 4 CPUs · 16 GiB · 1 × A100 80 GB"); empty if unknown.
    :param gpus: the GPUs of the server's pod ("1 × A100 80 GB"); empty without a GPU, or if no pod is known.
    :param ends_at: end of the run time; None if it is unknown or if there is none.
    :param end: sentence about the end of the run time; empty if there is none.
    :param open_url: address of the running server, or of the page that shows the progress of a start.
    :param form_url: address of the form, which fills in the server's choice.
    :param api_url: address of the server in JupyterHub's REST API; a DELETE request stops the server.
    """

    name: str
    title: str
    state: str
    choice: str
    gpus: str
    ends_at: datetime | None
    end: str
    open_url: str
    form_url: str
    api_url: str


class HomePage:
    """Renders what gpuspawner adds to JupyterHub's pages about a user's servers."""

    async def render(self, user: Any, static_url: Any) -> Markup:
        """Return the HTML of the section about all servers of a user; empty if there is nothing to show.

        After an error, the result is empty, too: JupyterHub's own part of the page stays usable.

        :param user: JupyterHub's user, who must also be the viewer of the page.
        :param static_url: JupyterHub's function of this name in a template. It is a method of the request's handler,
            which JupyterHub does not pass to templates.
        """
        viewed = _Viewed.of(user, static_url)
        return Markup() if viewed is None else await viewed.render_servers()

    async def render_last_choice(self, user: Any, static_url: Any, *, server_name: str) -> Markup:
        """Return the HTML about the last choice for a server that does not run; empty if there is nothing to show.

        :param user: JupyterHub's user, who must also be the viewer of the page.
        :param server_name: name of the server; empty for the default server.
        :param static_url: JupyterHub's function of this name in a template.
        """
        viewed = _Viewed.of(user, static_url)
        return Markup() if viewed is None else await viewed.render_last_choice(server_name)


@dataclass(frozen=True, slots=True)
class _Viewed:
    """A user who views a page about their own servers.

    :param user: JupyterHub's user.
    :param handler: tornado's handler of the request.
    """

    user: Any
    handler: Any

    @classmethod
    def of(cls, user: Any, static_url: Any) -> _Viewed | None:
        """Return None if the viewer is another user, such as an admin, or if the spawner is of another class."""
        handler = getattr(static_url, "__self__", None)
        viewer = getattr(handler, "current_user", None)
        if viewer is None or getattr(user, "name", "") != viewer.name:
            return None
        return cls(user, handler) if hasattr(user.spawner, "has_fields") else None

    async def render_servers(self) -> Markup:
        try:
            with use_language(ENGLISH):  # restores the language afterwards
                note_request_language(self.handler, choice=self.user.spawner.language)
                servers = describe_servers(self.user, catalog=await self._find_catalog())
                return Markup(render_template(_SERVERS_TEMPLATE, servers=servers, status_url=_status_url(self.user)))  # noqa: S704 - rendered with autoescape
        except Exception:  # whatever is wrong, the page of JupyterHub is shown
            self.user.spawner.log.exception("Cannot describe the servers of %s", self.user.name)
            return Markup()

    async def render_last_choice(self, server_name: str) -> Markup:
        try:
            with use_language(ENGLISH):  # restores the language afterwards
                note_request_language(self.handler, choice=self.user.spawner.language)
                row = self.user.orm_spawners.get(server_name)
                choice = _translate(
                    _read_stored_choice(row, self.user), user=self.user, server=row, catalog=await self._find_catalog()
                )
                return Markup(render_template(_LAST_CHOICE_TEMPLATE, choice=choice))  # noqa: S704 - rendered with autoescape
        except Exception:  # whatever is wrong, the page of JupyterHub is shown
            self.user.spawner.log.exception("Cannot describe the last server of %s", self.user.name)
            return Markup()

    async def _find_catalog(self) -> Catalog | None:
        """Return what users can choose; None in English, because the stored choices are in English, too."""
        if get_language() is ENGLISH:
            return None
        catalog: Catalog = (await self.user.spawner.make_offer()).catalog
        return catalog


def describe_servers(
    user: Any, *, catalog: Catalog | None = None, now: datetime | None = None
) -> tuple[ServerDescription, ...]:
    """Return descriptions of a user's servers, the default server first.

    A server without a choice that does not run is left out: the user has never started it.

    :param user: JupyterHub's user.
    :param catalog: what users can choose, to translate choices that were stored in English; None to leave them.
    :param now: current time, for tests.
    """
    at = now or datetime.now(UTC)
    described = (_describe(user, server, catalog=catalog, now=at) for server in user.all_spawners())
    return tuple(server for server in described if server.choice or server.state != STOPPED)


def _describe(user: Any, server: Any, *, catalog: Catalog | None, now: datetime) -> ServerDescription:
    """Return the description of a server.

    :param server: the spawner; for a server that does not run, JupyterHub may give its row of the database instead.
    """
    state = _find_state(server)
    pod = find_pod(server) if state in (RUNNING, STARTING) and hasattr(server, "pod_reflector") else None
    summary = "" if pod is None else as_text(_annotations(pod).get(f"{ANNOTATION_PREFIX}summary"))
    ends_at = None if pod is None else find_end_time(pod)
    base, path = user.spawner.hub.base_url, url_path_join(user.escaped_name, url_escape_path(server.name))
    pending_url = url_path_join(base, "spawn-pending", path)
    default_title = gettext("Default server")
    return ServerDescription(
        name=server.name,
        title=(getattr(server, "display_name", "") or server.name) if server.name else default_title,
        state=state,
        choice=_translate(summary or _read_stored_choice(server, user), user=user, server=server, catalog=catalog),
        gpus="" if pod is None else read_chosen_gpus(_annotations(pod)).text,
        ends_at=ends_at,
        end=_describe_end(pod, ends_at, state=state, now=now),
        open_url=user.server_url(server.name) if state == RUNNING else pending_url,
        form_url=url_path_join(base, "spawn", path),
        api_url=url_path_join(_status_url(user), "servers" if server.name else "server", url_escape_path(server.name)),
    )


def _status_url(user: Any) -> str:
    url: str = url_path_join(user.spawner.hub.base_url, "api/users", user.escaped_name)
    return url


def _find_state(server: Any) -> str:
    pending, is_ready = getattr(server, "pending", None), getattr(server, "ready", False)
    # While JupyterHub stops a server whose start it has cancelled, it says for a moment that the server is ready.
    if pending == "stop" or (is_ready and _has_failed_start(server)):
        return STOPPING
    # After its own restart, JupyterHub checks the servers that ran before.
    if is_ready or pending == "check":
        return RUNNING
    # JupyterHub renames only servers that do not run.
    if pending == "rename":
        return STOPPED
    return STARTING if getattr(server, "active", False) else STOPPED


def _has_failed_start(server: Any) -> bool:
    start = private_api.get_start_future(server)
    return start is not None and start.done() and (start.cancelled() or start.exception() is not None)


def _read_stored_choice(server: Any, user: Any) -> str:
    """Return what a server's stored user options say was chosen; empty if they say nothing.

    The key ``profile`` has gpuspawner's summary of a choice in its form, or the slug of KubeSpawner's profile.

    :param server: the spawner, or the server's row of the database, whose options may contain anything.
    :param user: the server's user.
    """
    options = getattr(server, "user_options", None)
    choice = as_text(options.get("profile")) if isinstance(options, Mapping) else ""
    return choice if user.spawner.has_fields else find_profile_name(user.spawner.profile_list, choice)


def _translate(choice: str, *, user: Any, server: Any, catalog: Catalog | None) -> str:
    """Return a server's choice in the current language if it is the English text of the stored options, else unchanged.

    :param user: the server's user.
    :param server: the spawner, or the server's row of the database.
    """
    if catalog is None or choice != _read_stored_choice(server, user):
        return choice
    selection = try_validate(as_dict(split_options(server.user_options, user.spawner.extra_options).own), catalog)
    if selection is None:
        return choice
    with use_language(ENGLISH):
        is_same = summarize_selection(selection, catalog) == choice
    return summarize_selection(selection, catalog) if is_same else choice


def _annotations(pod: Mapping[str, object]) -> dict[str, object]:
    return as_dict(as_dict(pod.get("metadata")).get("annotations"))


def _describe_end(pod: Mapping[str, object] | None, ends_at: datetime | None, *, state: str, now: datetime) -> str:
    if pod is None:
        return gettext("It's not known at the moment when it ends.") if state == RUNNING else ""
    if ends_at is not None:
        return _format_end(ends_at, now=now)
    seconds = read_run_time_s(pod)
    if seconds is None:
        return ""
    return gettext(
        "The time limit of {duration} begins when the server gets a node.", duration=format_duration(seconds)
    )


def _format_end(ends_at: datetime, *, now: datetime) -> str:
    """Return a sentence with the end in UTC; the page's script replaces it with the browser's local time."""
    left, end = ends_at - now, ends_at.astimezone(UTC)
    if left <= timedelta():
        return gettext("Its time is over, so it ends now.")
    if left < _MINUTE:
        return gettext("Ends in less than a minute.")
    if end.date() == now.astimezone(UTC).date():
        return gettext("Ends at {time}, in {left}", time=f"{end:%H:%M} UTC", left=_format_left(left))
    return gettext(
        "Ends on {date} at {time}, in {left}", date=f"{end:%Y-%m-%d}", time=f"{end:%H:%M} UTC", left=_format_left(left)
    )


def _format_left(left: timedelta) -> str:
    hours, minutes = left // _HOUR, left % _HOUR // _MINUTE
    if not hours:
        return gettext("{minutes} min", minutes=minutes)
    if hours < _MAX_HOURS:
        return gettext("{hours} h {minutes} min", hours=hours, minutes=minutes)
    return gettext("{days} d {hours} h", days=left // _DAY, hours=left % _DAY // _HOUR)
