"""The spawner: where JupyterHub's and KubeSpawner's calls meet the gate, the form and the placement.

Each method does one of four things: show the form, read what was sent, let a choice through, or tell an error.
Everything else is KubeSpawner's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kubespawner import KubeSpawner
from prometheus_client import REGISTRY
from traitlets import default, observe
from typing_extensions import override

from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.formview import build_view
from gpuspawner.core.form.formview_filled import fill
from gpuspawner.core.request.options import from_form, from_query
from gpuspawner.core.text.language import ENGLISH, speaking
from gpuspawner.core.warnings.flags_view import flags_view
from gpuspawner.hub.admission.allowances import Allowances
from gpuspawner.hub.admission.gate import Admission, UnreadClusterError
from gpuspawner.hub.admission.room import tolerations
from gpuspawner.hub.base import Base
from gpuspawner.hub.config.offers import Offer, Offers, ParsedSettings
from gpuspawner.hub.config.settings_files import FollowedSettings, SettingsFiles
from gpuspawner.hub.config.traits import GPUSpawnerTraits
from gpuspawner.hub.errors import RefusedStart, cluster_error, refusal, undecided
from gpuspawner.hub.form.concerns import Concerns, Viewpoint
from gpuspawner.hub.form.outlook import look
from gpuspawner.hub.form.rendering import render
from gpuspawner.hub.kubespawner.event_rights import EventRights, ending_alone
from gpuspawner.hub.kubespawner.pod_events import Event, of_pod
from gpuspawner.hub.kubespawner.upkeep import (
    first_list,
    forgive_refusal,
    give_up_dead,
    is_given_up,
    no_abandoned_reflectors,
    taking_over,
)
from gpuspawner.hub.metrics import metrics, spawn_meter
from gpuspawner.hub.metrics.cluster_metrics import ClusterMetrics
from gpuspawner.hub.metrics.settings_metrics import SettingsMetrics
from gpuspawner.hub.pod import time_limits
from gpuspawner.hub.pod.apply import trait_values
from gpuspawner.hub.request import drafts, languages, onlooker, prefill
from gpuspawner.hub.request.choice_header import chosen
from gpuspawner.hub.request.links import LINK_PREFIX
from gpuspawner.hub.start import cancelling
from gpuspawner.hub.start.deciding import decided
from gpuspawner.hub.start.one_start import OneStart
from gpuspawner.hub.start.progress import told
from gpuspawner.hub.start.rehearsal import draft, rehearse
from gpuspawner.kube.store import Pace

_OWN_FORM = ("options_form", "options_from_form")


class GPUSpawner(GPUSpawnerTraits, KubeSpawner):
    """A KubeSpawner whose form lets people pick an image, CPU, memory and a GPU by type and count.

    Everything that can be set on KubeSpawner can be set here and keeps its meaning. A site that has a ``profile_list``
    or a form of its own, and no gpuspawner settings, gets KubeSpawner as it is.

    :raises SettingsError: the settings are wrong. JupyterHub is told so when it starts, see
        :mod:`gpuspawner.hub.startup`.
    """

    _offers = Offers()
    _concerns = Concerns()
    _allowances = Allowances()
    _event_rights = EventRights()
    _settings_files = SettingsFiles()
    _start_future: asyncio.Future[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # KubeSpawner's own constructor may come back to us, so these are there first.
        self._base = Base(self)
        self._this_start = OneStart()
        self._followed_settings: FollowedSettings | None = None
        super().__init__(*args, **kwargs)
        if self.settings_files:
            # Before anything changes a trait for this person.
            self._followed_settings = self._settings_files.of(
                self.settings_files, self.raw_settings(), parse=self._offers.parse, log=self.log
            )
        self._parsed()

    # -- the form ------------------------------------------------------------------------------------------------------

    @default("options_form")
    def _options_form_default(self) -> Any:
        return self._show_form if self._is_ours() else super()._options_form_default()

    def _show_form(self, spawner: KubeSpawner) -> Awaitable[str]:
        # Not a coroutine itself: what this request sent is only to be found in the request's own task.
        return self._render_form(drafts.take(), chosen(self.handler))

    async def _render_form(self, draft: drafts.Draft | None, asked: Mapping[str, str] | None) -> str:
        offer = await self._offer()
        options = self.user_options if isinstance(self.user_options, Mapping) else None
        typed = draft.typed if draft else asked
        allowed = await self._allowances.look(self, offer)
        filled = fill(offer.catalogue, options=options, typed=typed, allowance=allowed)
        view = build_view(
            offer.catalogue,
            offer.inventory,
            filled=filled,
            problems=draft.problems if draft else (),
            live=await look(self, offer, selection=filled.selection, reach=allowed.catalogue),
            allowance=allowed,
        )
        with speaking(ENGLISH):  # as in the hub's log
            flags = flags_view(self._concerns.of(offer, self._viewpoint())) if onlooker.is_admin() else None
        view = replace(view, flags=flags, link_prefix=LINK_PREFIX)
        return render(view, template_dirs=tuple(self.additional_profile_form_template_paths))

    @observe("handler")
    def _note_onlooker(self, change: Any) -> None:
        onlooker.note(change.new)
        languages.note(change.new, choice=self.language)
        if self._is_ours():
            prefill.take(change.new)

    # -- what was sent -------------------------------------------------------------------------------------------------

    @default("options_from_form")
    def _options_from_form_default(self) -> Any:
        return self._read_form if self._is_ours() else super()._options_from_form_default()

    def _read_form(self, form_data: Mapping[str, object]) -> Awaitable[dict[str, object]]:
        # Not a coroutine itself, for the same reason as the form.
        languages.recall(self.language or form_data.get(languages.FIELD))
        return self._read(form_data, from_form, draft=drafts.keep(form_data))

    @override
    def options_from_query(self, query_data: Mapping[str, object]) -> Any:
        """Return the user options a link stands for; called by JupyterHub, which waits for the result."""
        if self.options_from_form != self._read_form:
            return super().options_from_query(query_data)
        return self._read(query_data, from_query, draft=drafts.keep(query_data))

    async def _read(self, sent: Mapping[str, object], reader: Any, *, draft: drafts.Draft) -> dict[str, object]:
        offer = await self._offer()
        try:
            return (await self._allowances.admit(self, reader(sent), offer=offer, is_start=False)).options
        except UnreadClusterError as error:
            raise undecided(offer.unread) from error
        except SelectionError as error:
            draft.problems = error.problems
            metrics.refused(error.code)
            raise refusal(error, beside_form=True) from error

    # -- the gate ------------------------------------------------------------------------------------------------------

    @default("apply_user_options")
    def _apply_user_options_default(self) -> Any:
        return _apply_user_options if self._is_ours() else None

    @override
    async def load_user_options(self) -> None:
        """Let the choice through a second time, and put it over what hooks have made of the admin's traits.

        Called by KubeSpawner at the beginning of a start, before anything is created. With an ``apply_user_options`` of
        the admin's own it is the first time.
        """
        if not self._is_ours():
            await super().load_user_options()
            return
        offer = await self._offer()
        admission = await self._pass_gate(self.user_options, offer)
        self._base.assign(trait_values(admission.choice, self._base))
        self._this_start.removed_environment = admission.choice.placement.removed_environment
        self._this_start.following.gpu = admission.gpu
        self._this_start.unrehearsed = partial(rehearse, self, offer=offer, gpu=admission.gpu)

    async def _pass_gate(self, user_options: object, offer: Offer) -> Admission:
        spawn_meter.begin(self, user_options, catalogue=offer.catalogue)
        try:
            return await self._allowances.admit(self, user_options, offer=offer, is_start=True)
        except UnreadClusterError as error:
            self._this_start.is_refused = True
            raise undecided(offer.unread) from error
        except SelectionError as error:
            drafts.note(error.problems)
            self._this_start.is_refused = self._this_start.is_pardoned = True
            raise refusal(error) from error

    @override
    def _expand_user_properties(self, template: str, slug_scheme: str | None = None) -> str:
        """Return a text of the admin's with the person's properties in it; KubeSpawner calls this for each of a pod.

        Most texts name no property, and to work out all of them each time is a third of the work of a manifest.
        """
        if "{" not in template and "}" not in template:
            return template
        expanded: str = super()._expand_user_properties(template, slug_scheme)
        return expanded

    @override
    def get_env(self) -> dict[str, Any]:
        """Return the pod's environment, without what must not be there whoever set it (``env_keep``, an auth hook)."""
        environment: dict[str, Any] = super().get_env()
        return {name: value for name, value in environment.items() if name not in self._this_start.removed_environment}

    @override
    def clear_state(self) -> None:
        """Forget the last start; JupyterHub calls this before each start and after each stop."""
        super().clear_state()
        self._base.restore()
        if self._this_start.is_pardoned:
            forgive_refusal(self.user)
        self._start_future = None
        self._this_start = self._this_start.next()

    @property
    @override
    def events(self) -> list[Event]:
        """Events of the pod since the start began, as KubeSpawner knows them, in the order they happened."""
        reflector = self.event_reflector
        return of_pod(reflector.resources.values(), self.pod_name, after=self._last_event) if reflector else []

    # -- starting ------------------------------------------------------------------------------------------------------

    @override
    async def _start_reflector(self, kind: str, **kwargs: Any) -> Any:
        """Start the watch of pods or events, or find the one there is; nobody waits for one that was given up."""
        reflectors, key = type(self).reflectors, self._get_reflector_key(kind)
        if kind == "events" and self._is_ours():
            kwargs["reflector_class"] = ending_alone(kwargs["reflector_class"])
        await first_list(reflectors, key)
        before = reflectors.get(key)
        if before is not None and (kwargs.get("replace") or is_given_up(before)):
            kwargs |= {"reflector_class": taking_over(kwargs["reflector_class"], before), "replace": True}
        with no_abandoned_reflectors(reflectors, key):
            return await super()._start_reflector(kind, **kwargs)

    @override
    async def _start_watching_events(self, replace: bool = False) -> Any:
        """Start the watch of events, or find the one there is; a start goes on without where the hub may have none."""
        watch = partial(super()._start_watching_events, replace=replace)
        if not self._is_ours():
            return await watch()
        reflector = await self._event_rights.watched(self, watch)
        self._this_start.following.lacks_events = reflector is None
        return reflector

    @override
    def start(self) -> asyncio.Future[Any]:
        """Start the pod; what Kubernetes refuses, and what nothing will come of, ends in one sentence."""
        give_up_dead(type(self).reflectors)
        # Not in the task that is made here: in a busy hub it may have to wait, and JupyterHub's timer does not.
        self._this_start.following.begin()
        starting = asyncio.ensure_future(super().start())
        self._start_future = future = asyncio.ensure_future(self._explained(starting))
        # A task that is cut off before it has begun cuts off nothing itself.
        future.add_done_callback(lambda _: starting.cancel())
        future.add_done_callback(lambda _: self._allowances.ledger.settle(self))
        return future

    @override
    def progress(self) -> AsyncGenerator[dict[str, Any]]:
        """Yield what is said of the start, for one open page."""
        return told(self, self._this_start.following) if self._is_ours() else super().progress()

    # Whichever of these three KubeSpawner calls first, the rehearsal comes before it. The last two are called again and
    # again until they return true.

    @override
    async def _ensure_namespace(self) -> Any:
        await self._rehearse()
        return await super()._ensure_namespace()

    @override
    async def _make_create_pvc_request(self, pvc: Any, request_timeout: float) -> Any:
        await self._rehearse()
        return await super()._make_create_pvc_request(pvc, request_timeout)

    @override
    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> Any:
        await self._rehearse(pod)
        self._this_start.following.send(cancelling.pod_of(self))
        with self._allowances.ledger.creating(self):
            is_made = await super()._make_create_pod_request(pod, request_timeout)
        if is_made:
            spawn_meter.note_pod(self, {})
        return is_made

    async def _rehearse(self, pod: Any = None) -> None:
        """Look at the pod of a start, once; at a draft of it where there is none yet."""
        rehearsal, self._this_start.unrehearsed = self._this_start.unrehearsed, None
        if rehearsal is None:
            return
        try:
            await rehearsal(await draft(self) if pod is None else pod)
        except RefusedStart:
            self._this_start.is_refused = True
            raise

    async def _explained(self, start: Awaitable[Any]) -> Any:
        try:
            return await (decided(self, start, following=self._this_start.following) if self._is_ours() else start)
        except Exception as error:
            explained = cluster_error(error)
            self._this_start.is_pardoned = isinstance(explained or error, RefusedStart)
            if explained is None:
                raise
            self.log.exception("Starting %s failed in Kubernetes", self._log_name)
            raise explained from error
        finally:
            spawn_meter.note_pod(self)

    @override
    async def poll(self) -> int | None:
        """Return None while the pod runs; nothing runs after a refusal, so the cluster need not be asked.

        After a start that failed otherwise, or was cut off, a pod may be left in any state: JupyterHub is to remove it.
        """
        if self._this_start.is_refused:
            return 0
        if cancelling.may_be_left(self):
            return None
        status: int | None = await super().poll()
        return await time_limits.enforce(self) if status is None else status

    @override
    async def stop(self, now: bool = False) -> None:
        """Remove the pod; at once where nothing in it ran yet."""
        self._this_start.is_removing = True
        try:
            await super().stop(now or cancelling.has_not_run(self))
        finally:
            self._this_start.is_removing = False

    # -- settings and cluster ------------------------------------------------------------------------------------------

    def _parsed(self) -> ParsedSettings:
        followed = self._followed_settings
        return followed.parse(self.raw_settings()) if followed else self._offers.parse(self.raw_settings())

    def _is_ours(self) -> bool:
        """Tell whether choices are gpuspawner's, or those of a KubeSpawner that was set up before."""
        if self.settings_files or not self._parsed().is_empty:
            return True
        configured = self._find_my_config(self.config)
        return not self.profile_list and not any(name in configured for name in _OWN_FORM)

    async def _offer(self) -> Offer:
        store = self._offers.store(self.api, pace=Pace(first_sync_timeout_s=self.capacity_timeout), log=self.log)
        viewpoint = self._viewpoint()
        offer = await self._offers.make(viewpoint.settings, store, image=self._base["image"])
        self._concerns.watch(offer, viewpoint, log=self.log)
        return offer

    def _viewpoint(self) -> Viewpoint:
        return Viewpoint(self._parsed(), tolerations(self._base["tolerations"]))


async def _apply_user_options(spawner: GPUSpawner, user_options: object) -> None:
    """Let a choice through, set its timeout, which JupyterHub reads before the start, and store it as understood.

    Everything else waits for the start, after the admin's hooks: one that changes a list in place must not get to hold
    what a choice added there.
    """
    admission = await spawner._pass_gate(user_options, await spawner._offer())
    timeout_s = admission.choice.placement.start_timeout_s
    if timeout_s is not None:
        spawner._base.assign({"start_timeout": timeout_s})
    spawner.user_options = admission.options
    stored = spawner.orm_spawner
    if stored is not None and stored.user_options != admission.options:
        # What came through the REST API has no summary yet; the hub's admin page shows it. The hub commits right after
        # this; left for later, the end of any other request would roll it back.
        stored.user_options = admission.options


REGISTRY.register(ClusterMetrics(lambda: GPUSpawner.reflectors, lambda: GPUSpawner._offers.known_store))
REGISTRY.register(SettingsMetrics(GPUSpawner._settings_files))
