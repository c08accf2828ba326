"""Builds gpuspawner's page of a server that starts, which takes the place of JupyterHub's.

JupyterHub renders ``templates/hub/spawn_pending.html``, which asks :class:`WaitingPages` for the page's content.
gpuspawner renders the content from ``templates/waiting.html``, in the language of the user who starts the server. The
page's script ``templates/waiting.js`` reads JupyterHub's progress events and keeps the page up to date. Without
JavaScript, the page reloads itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from jupyterhub.utils import url_path_join
from markupsafe import Markup

from gpuspawner.core.form.fields import try_validate
from gpuspawner.core.form.wording import describe_selection
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.progress.model import Report, Stage
from gpuspawner.core.request.options import split_options
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
from gpuspawner.core.request.selection import find_image
from gpuspawner.core.text.i18n import gettext, use_language
from gpuspawner.core.units.duration import format_clock
from gpuspawner.hub.form.rendering import render_template
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import find_pod
from gpuspawner.hub.pod.patch import read_chosen_gpus
from gpuspawner.hub.request.context import build_form_url, build_prefill_url
from gpuspawner.hub.start.state import StartingSpawner
from gpuspawner.hub.start.stream import ProgressFeed, build_api_path, build_status

PAGES_VARIABLE = "gpuspawner_waiting_pages"
"""JupyterHub's template variable that holds the :class:`WaitingPages`."""

_TEMPLATE = "waiting.html"
_POD_BUILT_S = 1.0
_REPEATED_AFTER_S = 30.0
"""The log of the page repeats no message within this many seconds."""
_STEPS: Mapping[Stage, int] = {
    Stage.CHECKING: 0,
    Stage.QUEUED: 1,
    Stage.WAITING: 1,
    Stage.SCALING: 1,
    Stage.SCHEDULED: 2,
    Stage.PULLING: 2,
    Stage.STARTING: 3,
    Stage.READY: 4,
}
"""Stage of a start → position of the page's step for it."""


_HUBS_WORDS = {"requested": "Server requested", "canceled": "Spawn cancelled"}
"""Messages of JupyterHub's own progress events, which are English on all pages: the first event of a start, and the
last event of a start that was canceled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPage:
    """The content of a page."""

    title: str
    content: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What the user has chosen, as texts in the current language; all empty if the settings no longer contain it.

    :param line: all of the choice in one line.
    :param gpus: number and type of the GPUs ("4 × A100"); empty without a GPU.
    :param url: link to the form that fills in the choice and starts nothing.
    """

    line: str = ""
    gpus: str = ""
    image: str = ""
    url: str = ""


class WaitingPages:
    """Builds pages of starting servers; a template variable of JupyterHub's template ``spawn_pending.html``."""

    async def build(self, spawner: object, progress_url: str) -> WaitingPage | None:
        """Return the page of a starting server, or None if JupyterHub's own page is the right one.

        That is the case for spawners of other classes, and after an error.

        :param spawner: the spawner of the server, of any class.
        """
        if not hasattr(spawner, "starts_profile"):
            return None
        ours = cast("StartingSpawner", spawner)
        try:
            with use_language(ours.start_state.feed.language):
                return _build_page(ours, await _find_choice(ours), progress_url=progress_url)
        except Exception:  # log any exception: JupyterHub's own page shows the progress, too
            ours.log.exception("Cannot build the page of %s", private_api.get_log_name(ours))
            return None


async def _find_choice(spawner: StartingSpawner) -> _Choice:
    if spawner.starts_profile:
        return await _find_profile(spawner)
    offer = await spawner.make_offer()
    own = split_options(spawner.user_options, spawner.extra_options).own
    selection = try_validate(as_dict(own), offer.catalog)
    if selection is None:
        return _Choice()
    gpu = offer.catalog.gpus.get(selection.gpu or "")
    return _Choice(
        line=describe_selection(selection, offer.catalog),
        gpus=gettext("{number} × {gpu}", number=selection.gpu_count, gpu=gpu.display_name) if gpu else "",
        image=find_image(selection, offer.catalog).display_name,
        url=build_prefill_url(spawner, selection),
    )


async def _find_profile(spawner: StartingSpawner) -> _Choice:
    """Return what a profile of KubeSpawner gives. Only its pod says which GPUs, so wait a moment for it."""
    if (pod := find_pod(spawner)) is None:
        with suppress(TimeoutError):
            await asyncio.wait_for(spawner.start_state.is_pod_built.wait(), _POD_BUILT_S)
    annotations = spawner.start_state.annotations or as_dict(as_dict((pod or {}).get("metadata")).get("annotations"))
    gpus, line = read_chosen_gpus(annotations).text, as_text(annotations.get(f"{ANNOTATION_PREFIX}summary"))
    profile = spawner.start_state.profile or line.removesuffix(gpus).removesuffix(" · ")
    return _Choice(line=line or profile, gpus=gpus, image=profile, url=build_form_url(spawner))


def _build_page(spawner: StartingSpawner, choice: _Choice, *, progress_url: str) -> WaitingPage:
    feed = spawner.start_state.feed
    status = build_status(feed, report=feed.last, timeout_s=float(spawner.start_timeout))
    headlines, titles = _build_headlines(choice), _build_titles(choice)
    state = find_state(status["stage"])
    data = {
        "progress_url": progress_url,
        "server_url": build_api_path(spawner),
        "user_url": url_path_join(spawner.hub.base_url, "api/users", spawner.user.escaped_name),
        "server": spawner.name,
        "home_url": url_path_join(spawner.hub.base_url, "home"),
        "change_url": choice.url,
        "headlines": headlines,
        "titles": titles,
        "steps": {stage.value: number for stage, number in _STEPS.items()},
        "states": {stage.value: find_state(stage.value) for stage in Stage},
        "status": status,
        "hubs_words": _HUBS_WORDS,
    }
    content = render_template(
        _TEMPLATE,
        data=data,
        status=status,
        headline=headlines[state],
        choice=choice.line,
        server=spawner.name,
        steps=_list_steps(),
        step=_STEPS.get(Stage(status["stage"]), 0),
        elapsed=format_clock(status["elapsed_s"]),
        limit=format_clock(status["limit_s"]),
        log=_build_log(feed, timeout_s=float(spawner.start_timeout)),
    )
    return WaitingPage(title=titles[state], content=Markup(content))  # noqa: S704 - rendered with autoescape


def find_state(stage: str) -> str:
    """Return the state in the headline for a stage: ``waiting``, ``starting`` or ``failed``.

    In the stage READY, the program runs; only JupyterHub says that the server answers.
    """
    match Stage(stage):
        case Stage.QUEUED | Stage.WAITING | Stage.SCALING:
            return "waiting"
        case Stage.FAILED:
            return "failed"
        case _:
            return "starting"


def _build_headlines(choice: _Choice) -> dict[str, str]:
    waiting, starting = gettext("Waiting for a free node"), gettext("Starting your server")
    if choice.gpus:
        waiting = gettext("Waiting for {what}", what=choice.gpus)
    if choice.image:
        starting = gettext("Starting {what}", what=_append(choice.image, choice.gpus))
    return {
        "waiting": waiting,
        "starting": starting,
        "ready": gettext("Your server is ready"),
        "failed": gettext("Your server didn't start"),
        "canceled": gettext("This start was canceled"),
    }


def _build_titles(choice: _Choice) -> dict[str, str]:
    words = {
        "waiting": gettext("Waiting"),
        "starting": gettext("Starting"),
        "ready": gettext("Ready"),
        "failed": gettext("Failed"),
        "canceled": gettext("Canceled"),
    }
    return {state: _append(word, choice.gpus or choice.image) for state, word in words.items()}


def _append(text: str, part: str) -> str:
    return gettext("{choice} · {part}", choice=text, part=part) if part else text


def _list_steps() -> list[str]:
    return [
        gettext("Set up"),
        gettext("Find a node"),
        gettext("Fetch the image"),
        gettext("Start the program"),
        gettext("Open"),
    ]


def _build_log(feed: ProgressFeed, *, timeout_s: float) -> list[dict[str, Any]]:
    """Return the page's log, newest first: time in UTC and text of each report; :mod:`waiting.js` writes the same."""
    lines: list[dict[str, Any]] = []
    for report in feed.reports:
        status = build_status(feed, report=report, timeout_s=timeout_s)
        text, at = _format_line(report), datetime.fromtimestamp(status["at"], UTC)
        recent = [each["text"] for each in lines if status["at"] - each["seconds"] < _REPEATED_AFTER_S]
        if text not in recent and not (lines and lines[0]["text"] == text):
            lines.insert(0, {"text": text, "seconds": status["at"], "at": at.isoformat(), "time": f"{at:%H:%M:%S} UTC"})
    return lines


def _format_line(report: Report) -> str:
    detail = report.detail or report.sentence
    return gettext("{text} {sentence}", text=detail, sentence=report.place) if report.place else detail
