"""The spawner: where JupyterHub's and KubeSpawner's calls meet the gate, the form and the placement.

Each method does one of four things: show the form, read what was sent, let a choice through, or tell an error.
Everything else is KubeSpawner's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kubespawner import KubeSpawner
from prometheus_client import REGISTRY
from traitlets import default, observe
from typing_extensions import override

from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.build import build_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.policy.admission import Admission, UnreadClusterError
from gpuspawner.core.request.options import parse_form, parse_query
from gpuspawner.core.text.i18n import ENGLISH, use_language
from gpuspawner.core.warnings.wording import build_warnings_view
from gpuspawner.hub.admission.admin_traits import parse_admin_tolerations
from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.config.offer import Offer, OfferFactory, ParsedSettings
from gpuspawner.hub.config.settings_files import ReloadingSettings, SettingsFilesCache
from gpuspawner.hub.config.traits import GPUSpawnerTraits
from gpuspawner.hub.errors import RefusedStart, explain_cluster_error, make_refusal, make_unread_cluster_failure
from gpuspawner.hub.form.live import build_live
from gpuspawner.hub.form.rendering import render
from gpuspawner.hub.form.warnings import AdminWarnings, WarningScope
from gpuspawner.hub.kubespawner.events import PodEvent, select_pod_events
from gpuspawner.hub.kubespawner.reflectors import (
    EventsAccess,
    forgive_refused_start,
    give_up_dead_reflectors,
    is_given_up,
    make_nonfatal_reflector,
    make_takeover_reflector,
    unregister_failed_reflector,
    wait_for_first_list,
)
from gpuspawner.hub.metrics import registry, starts
from gpuspawner.hub.metrics.collectors import ClusterMetrics, SettingsMetrics
from gpuspawner.hub.pod import run_time
from gpuspawner.hub.pod.overrides import list_gpu_resources
from gpuspawner.hub.pod.trait_values import PodChoice, build_trait_values
from gpuspawner.hub.request import context, languages
from gpuspawner.hub.request.context import read_choice_header
from gpuspawner.hub.request.links import LINK_PREFIX
from gpuspawner.hub.start import cancellation
from gpuspawner.hub.start.preflight import draft_pod, run_preflight
from gpuspawner.hub.start.state import StartState
from gpuspawner.hub.start.stream import stream_progress
from gpuspawner.hub.start.supervisor import supervise_start
from gpuspawner.hub.trait_overrides import TraitOverrides
from gpuspawner.kube.store import StoreTiming

_OWN_FORM = ("options_form", "options_from_form")


class GPUSpawner(GPUSpawnerTraits, KubeSpawner):
    """A KubeSpawner whose form lets people pick an image, CPU, memory and a GPU by type and count.

    Everything that can be set on KubeSpawner can be set here and keeps its meaning. A site that has a ``profile_list``
    or a form of its own, and no gpuspawner settings, gets KubeSpawner as it is.

    :raises SettingsError: the settings are wrong. JupyterHub is told so when it starts, see
        :mod:`gpuspawner.hub.startup`.
    """

    _offer_factory = OfferFactory()
    _admin_warnings = AdminWarnings()
    _admission = AdmissionService()
    _events_access = EventsAccess()
    _settings_files = SettingsFilesCache()
    _start_future: asyncio.Future[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # KubeSpawner's own constructor may come back to us, so these are there first.
        self._trait_overrides = TraitOverrides(self)
        self._start_state = StartState()
        self._reloading_settings: ReloadingSettings | None = None
        super().__init__(*args, **kwargs)
        if self.settings_files:
            # Before anything changes a trait for this person.
            self._reloading_settings = self._settings_files.get_settings(
                self.settings_files, self.collect_settings(), parse=self._offer_factory.parse, log=self.log
            )
        self._parse_settings()

    # -- the form ------------------------------------------------------------------------------------------------------

    @default("options_form")
    def _options_form_default(self) -> Any:
        return self._show_form if self._is_ours() else super()._options_form_default()

    def _show_form(self, spawner: KubeSpawner) -> Awaitable[str]:
        # Not a coroutine itself: what this request sent is only to be found in the request's own task.
        return self._render_form(context.take_draft(), read_choice_header(self.handler))

    async def _render_form(self, draft: context.FormDraft | None, asked: Mapping[str, str] | None) -> str:
        offer = await self._make_offer()
        options = self.user_options if isinstance(self.user_options, Mapping) else None
        typed = draft.typed if draft else asked
        allowed = await self._admission.find_allowance(self, offer)
        filled = fill_fields(offer.catalogue, options=options, typed=typed, allowance=allowed)
        view = build_view(
            offer.catalogue,
            offer.inventory,
            filled=filled,
            problems=draft.problems if draft else (),
            live=await build_live(self, offer, selection=filled.selection, reach=allowed.catalogue),
            allowance=allowed,
        )
        with use_language(ENGLISH):  # as in the hub's log
            flags = (
                build_warnings_view(self._admin_warnings.find_warnings(offer, self._make_warning_scope()))
                if context.is_viewer_admin()
                else None
            )
        view = replace(view, flags=flags, link_prefix=LINK_PREFIX)
        return render(view, template_dirs=tuple(self.additional_profile_form_template_paths))

    @observe("handler")
    def _note_viewer(self, change: Any) -> None:
        context.note_viewer(change.new)
        languages.note_request_language(change.new, choice=self.language)
        if self._is_ours():
            context.take_prefill(change.new)

    # -- what was sent -------------------------------------------------------------------------------------------------

    @default("options_from_form")
    def _options_from_form_default(self) -> Any:
        return self._read_form if self._is_ours() else super()._options_from_form_default()

    def _read_form(self, form_data: Mapping[str, object]) -> Awaitable[dict[str, object]]:
        # Not a coroutine itself, for the same reason as the form.
        draft = context.keep_draft(form_data)
        languages.recall_form_language(self.language or form_data.get(languages.LANGUAGE_FIELD))
        return self._admit_form(form_data, parse_form, draft=draft)

    @override
    def options_from_query(self, query_data: Mapping[str, object]) -> Any:
        """Return the user options a link stands for; called by JupyterHub, which waits for the result."""
        if self.options_from_form != self._read_form:
            return super().options_from_query(query_data)
        return self._admit_form(query_data, parse_query, draft=context.keep_draft(query_data))

    async def _admit_form(
        self, sent: Mapping[str, object], parse: Callable[[Mapping[str, object]], object], *, draft: context.FormDraft
    ) -> dict[str, object]:
        offer = await self._make_offer()
        try:
            return (await self._admission.admit(self, parse(sent), offer=offer, is_start=False)).options
        except UnreadClusterError as error:
            raise make_unread_cluster_failure(offer.unread_reason) from error
        except SelectionError as error:
            draft.problems = error.problems
            registry.count_refusal(error.code)
            raise make_refusal(error, beside_form=True) from error

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
        offer = await self._make_offer()
        admission = await self._admit_start(self.user_options, offer)
        choice = PodChoice(placement=admission.placement, resources=list_gpu_resources(offer.catalogue))
        self._trait_overrides.assign(build_trait_values(choice, self._trait_overrides))
        self._start_state.removed_environment = admission.placement.removed_environment
        self._start_state.feed.gpu = admission.gpu
        self._start_state.pending_preflight = partial(run_preflight, self, offer=offer, gpu=admission.gpu)

    async def _admit_start(self, user_options: object, offer: Offer) -> Admission:
        starts.begin_measuring(self, user_options, catalogue=offer.catalogue)
        try:
            return await self._admission.admit(self, user_options, offer=offer, is_start=True)
        except UnreadClusterError as error:
            self._start_state.is_refused = True
            raise make_unread_cluster_failure(offer.unread_reason) from error
        except SelectionError as error:
            context.note_problems(error.problems)
            self._start_state.is_refused = self._start_state.is_forgivable = True
            raise make_refusal(error) from error

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
        return {name: value for name, value in environment.items() if name not in self._start_state.removed_environment}

    @override
    def clear_state(self) -> None:
        """Forget the last start; JupyterHub calls this before each start and after each stop."""
        super().clear_state()
        self._trait_overrides.restore()
        if self._start_state.is_forgivable:
            forgive_refused_start(self.user)
        self._start_future = None
        self._start_state = self._start_state.make_next()

    @property
    @override
    def events(self) -> list[PodEvent]:
        """Events of the pod since the start began, as KubeSpawner knows them, in the order they happened."""
        reflector = self.event_reflector
        return (
            select_pod_events(reflector.resources.values(), self.pod_name, after=self._last_event) if reflector else []
        )

    # -- starting ------------------------------------------------------------------------------------------------------

    @override
    async def _start_reflector(self, kind: str, **kwargs: Any) -> Any:
        """Start the watch of pods or events, or find the one there is; nobody waits for one that was given up."""
        reflectors, key = type(self).reflectors, self._get_reflector_key(kind)
        if kind == "events" and self._is_ours():
            kwargs["reflector_class"] = make_nonfatal_reflector(kwargs["reflector_class"])
        await wait_for_first_list(reflectors, key)
        before = reflectors.get(key)
        if before is not None and (kwargs.get("replace") or is_given_up(before)):
            kwargs |= {"reflector_class": make_takeover_reflector(kwargs["reflector_class"], before), "replace": True}
        with unregister_failed_reflector(reflectors, key):
            return await super()._start_reflector(kind, **kwargs)

    @override
    async def _start_watching_events(self, replace: bool = False) -> Any:
        """Start the watch of events, or find the one there is; a start goes on without where the hub may have none."""
        watch = partial(super()._start_watching_events, replace=replace)
        if not self._is_ours():
            return await watch()
        reflector = await self._events_access.start_events_reflector(self, watch)
        self._start_state.feed.lacks_events = reflector is None
        return reflector

    @override
    def start(self) -> asyncio.Future[Any]:
        """Start the pod; what Kubernetes refuses, and what nothing will come of, ends in one sentence."""
        give_up_dead_reflectors(type(self).reflectors)
        # Not in the task that is made here: in a busy hub it may have to wait, and JupyterHub's timer does not.
        self._start_state.feed.begin()
        starting = asyncio.ensure_future(super().start())
        self._start_future = future = asyncio.ensure_future(self._explain_errors(starting))
        # A task that is cut off before it has begun cuts off nothing itself.
        future.add_done_callback(lambda _: starting.cancel())
        future.add_done_callback(lambda _: self._admission.reservations.release_seen(self))
        return future

    @override
    def progress(self) -> AsyncGenerator[dict[str, Any]]:
        """Yield what is said of the start, for one open page."""
        return stream_progress(self, self._start_state.feed) if self._is_ours() else super().progress()

    # Whichever of these three KubeSpawner calls first, the rehearsal comes before it. The last two are called again and
    # again until they return true.

    @override
    async def _ensure_namespace(self) -> Any:
        await self._run_preflight()
        return await super()._ensure_namespace()

    @override
    async def _make_create_pvc_request(self, pvc: Any, request_timeout: float) -> Any:
        await self._run_preflight()
        return await super()._make_create_pvc_request(pvc, request_timeout)

    @override
    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> Any:
        await self._run_preflight(pod)
        self._start_state.feed.note_pod_sent(cancellation.find_pod(self))
        with self._admission.reservations.track_creation(self):
            is_made = await super()._make_create_pod_request(pod, request_timeout)
        if is_made:
            starts.note_pod(self, {})
        return is_made

    async def _run_preflight(self, pod: Any = None) -> None:
        """Look at the pod of a start, once; at a draft of it where there is none yet."""
        rehearsal, self._start_state.pending_preflight = self._start_state.pending_preflight, None
        if rehearsal is None:
            return
        try:
            await rehearsal(await draft_pod(self) if pod is None else pod)
        except RefusedStart:
            self._start_state.is_refused = True
            raise

    async def _explain_errors(self, start: Awaitable[Any]) -> Any:
        try:
            return await (supervise_start(self, start, feed=self._start_state.feed) if self._is_ours() else start)
        except Exception as error:
            explained = explain_cluster_error(error)
            self._start_state.is_forgivable = isinstance(explained or error, RefusedStart)
            if explained is None:
                raise
            self.log.exception("Starting %s failed in Kubernetes", self._log_name)
            raise explained from error
        finally:
            starts.note_pod(self)

    @override
    async def poll(self) -> int | None:
        """Return None while the pod runs; nothing runs after a refusal, so the cluster need not be asked.

        After a start that failed otherwise, or was cut off, a pod may be left in any state: JupyterHub is to remove it.
        """
        if self._start_state.is_refused:
            return 0
        if cancellation.can_have_left_pod(self):
            return None
        status: int | None = await super().poll()
        return await run_time.enforce_run_time(self) if status is None else status

    @override
    async def stop(self, now: bool = False) -> None:
        """Remove the pod; at once where nothing in it ran yet."""
        self._start_state.is_removing = True
        try:
            await super().stop(now or cancellation.has_never_run(self))
        finally:
            self._start_state.is_removing = False

    # -- settings and cluster ------------------------------------------------------------------------------------------

    def _parse_settings(self) -> ParsedSettings:
        followed = self._reloading_settings
        return (
            followed.parse(self.collect_settings()) if followed else self._offer_factory.parse(self.collect_settings())
        )

    def _is_ours(self) -> bool:
        """Tell whether choices are gpuspawner's, or those of a KubeSpawner that was set up before."""
        if self.settings_files or not self._parse_settings().is_empty:
            return True
        configured = self._find_my_config(self.config)
        return not self.profile_list and not any(name in configured for name in _OWN_FORM)

    async def _make_offer(self) -> Offer:
        store = self._offer_factory.get_store(
            self.api, pace=StoreTiming(first_sync_timeout_s=self.capacity_timeout), log=self.log
        )
        viewpoint = self._make_warning_scope()
        offer = await self._offer_factory.make_offer(viewpoint.settings, store, image=self._trait_overrides["image"])
        self._admin_warnings.schedule_log(offer, viewpoint, log=self.log)
        return offer

    def _make_warning_scope(self) -> WarningScope:
        return WarningScope(self._parse_settings(), parse_admin_tolerations(self._trait_overrides["tolerations"]))


async def _apply_user_options(spawner: GPUSpawner, user_options: object) -> None:
    """Let a choice through, set its timeout, which JupyterHub reads before the start, and store it as understood.

    Everything else waits for the start, after the admin's hooks: one that changes a list in place must not get to hold
    what a choice added there.
    """
    admission = await spawner._admit_start(user_options, await spawner._make_offer())
    timeout_s = admission.placement.start_timeout_s
    if timeout_s is not None:
        spawner._trait_overrides.assign({"start_timeout": timeout_s})
    spawner.user_options = admission.options
    stored = spawner.orm_spawner
    if stored is not None and stored.user_options != admission.options:
        # What came through the REST API has no summary yet; the hub's admin page shows it. The hub commits right after
        # this; left for later, the end of any other request would roll it back.
        stored.user_options = admission.options


REGISTRY.register(ClusterMetrics(lambda: GPUSpawner.reflectors, lambda: GPUSpawner._offer_factory.known_store))
REGISTRY.register(SettingsMetrics(GPUSpawner._settings_files))
