"""The spawner: receives the calls of JupyterHub and KubeSpawner, and passes them to the packages of ``gpuspawner.hub``.

Its methods show the form, read and admit the user's choice, start and stop the pod, and turn errors into messages.
KubeSpawner does everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from kubernetes_asyncio.client.rest import ApiException
from kubespawner import KubeSpawner
from prometheus_client import REGISTRY
from traitlets import default, observe
from typing_extensions import override

from gpuspawner.core.catalog.model import NO_RESOURCES
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.policy.admission import Admission, UnreadClusterError
from gpuspawner.core.request.options import (
    parse_form,
    parse_query,
    read_typed_amounts,
    split_form,
    split_profile_fields,
)
from gpuspawner.hub.admission.profiles import LoadedProfiles, check_profile_options, names_profile
from gpuspawner.hub.admission.service import AdmissionService, guard_stored_options
from gpuspawner.hub.config.offer import Offer, OfferFactory
from gpuspawner.hub.config.settings_files import ReloadingSettings, SettingsFilesCache
from gpuspawner.hub.config.shared_dict import share_settings
from gpuspawner.hub.config.traits import SETTING_TRAITS, STARTS_FROM_LINKS, GPUSpawnerTraits
from gpuspawner.hub.errors import (
    FailureCount,
    explain_cluster_error,
    find_start_failure,
    has_failed,
    is_webhook_outage,
    make_refusal,
    make_unread_cluster_failure,
)
from gpuspawner.hub.form.live import build_page
from gpuspawner.hub.form.profiles import ProfileCards, load_profiles, shows_cards
from gpuspawner.hub.form.refresh import RefreshPace, answer_refresh, compute_tag
from gpuspawner.hub.form.rendering import render
from gpuspawner.hub.form.warnings import AdminWarnings, WarningScope
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import POD_EVENTS, PodEvent, ensure_pods_watched, find_pod, select_pod_events
from gpuspawner.hub.kubespawner.reflectors import (
    EventsAccess,
    give_up_dead_reflectors,
    is_given_up,
    make_lasting_reflector,
    unregister_failed_reflector,
    wait_for_first_list,
)
from gpuspawner.hub.metrics import registry, starts
from gpuspawner.hub.metrics.registry import ClusterMetrics, SettingsMetrics
from gpuspawner.hub.pod import override_checks, run_time
from gpuspawner.hub.pod.admin_values import parse_admin_tolerations, read_own_resources
from gpuspawner.hub.pod.patch import PodChoice, apply_choice, list_gpu_resources
from gpuspawner.hub.pod.preview import copy_with_group_overrides
from gpuspawner.hub.request import context, languages
from gpuspawner.hub.start import endings, resumption
from gpuspawner.hub.start.gpu_nodes import GPUNodeExclusion
from gpuspawner.hub.start.open_starts import OpenStarts, raise_if_over
from gpuspawner.hub.start.preflight import NewClaims, draft_pod, drop_draft, run_preflight, send_pod, use_draft
from gpuspawner.hub.start.server_life import ServerLife
from gpuspawner.hub.start.state import StartState
from gpuspawner.hub.start.stream import stream_progress
from gpuspawner.hub.start.supervisor import supervise_start
from gpuspawner.hub.trait_overrides import TraitOverrides, copy_nested
from gpuspawner.kube.store import StoreTiming
from gpuspawner.settings import Settings

_MAX_FAILED_STARTS = 256
"""Maximum number of failed starts that the hub keeps for open forms; each keeps an HTTP request in memory."""


class GPUSpawner(ServerLife, GPUSpawnerTraits, KubeSpawner):
    """A KubeSpawner whose form lets users choose an image, CPU, memory, and the type and number of GPUs.

    All of KubeSpawner's traits keep their meaning, and the pods of a ``profile_list`` are KubeSpawner's. The form shows
    its profiles as cards, beside the fields if the settings describe some. A form of the admin's own stays theirs.

    :raises SettingsError: the settings are invalid. :mod:`gpuspawner.hub.startup` also checks them at the hub's start.
    """

    offer_factory = OfferFactory(override_checks.parse_settings)
    admin_warnings = AdminWarnings()
    refresh_pace = RefreshPace()
    admission = AdmissionService()
    cards = ProfileCards()
    _events_access = EventsAccess()
    _gpu_node_exclusion = GPUNodeExclusion()
    settings_files_cache = SettingsFilesCache()
    failure_count = FailureCount()
    new_claims = NewClaims()
    _state_writer = resumption.StateWriter()
    failed_starts: ClassVar[dict[tuple[str, str], asyncio.Future[Any]]] = {}
    user_options: Any
    api: Any
    _start_future: asyncio.Future[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Set these attributes before super().__init__: KubeSpawner's constructor may call methods overridden here.
        self.trait_overrides = TraitOverrides(self)
        self.start_state = StartState()
        self.open_starts = OpenStarts()
        self._reloading_settings: ReloadingSettings | None = None
        super().__init__(*args, **kwargs)
        share_settings(self, SETTING_TRAITS)
        self.api = private_api.make_pod_creating_api(self.api)
        if self.settings_files:
            # Read gpuspawner's traits in the constructor, before a hook or a group override changes them for this user.
            self._reloading_settings = self.settings_files_cache.get_settings(
                self.settings_files, self.collect_settings(), parse=self.offer_factory.parse, log=self.log
            )
        self.parse_settings()
        self._stored_options = self.user_options
        self._sent_options = self._read_row_options()

    # -- the form ------------------------------------------------------------------------------------------------------

    @default("options_form")
    def _options_form_default(self) -> Any:
        return self._show_form if self._has_own_form() else super()._options_form_default()

    def _has_own_form(self) -> bool:
        return self.has_fields or (shows_cards(self) and not self.has_configured_form())

    def _show_form(self, spawner: KubeSpawner) -> Awaitable[str]:
        # JupyterHub may run a coroutine in another task, but take_form_request() works only in the request's own.
        return self._render_form(context.take_form_request())

    async def _render_form(self, request: context.FormRequest) -> str:
        spawner = await copy_with_group_overrides(self)
        spawner.links = self.links  # The request's query was read by this value, before the groups were known.
        offer = await spawner.make_offer()
        allowance = await self.admission.find_allowance(spawner, offer)
        is_refresh = request.refresh is not None
        loaded = await load_profiles(spawner, is_refresh=is_refresh) if shows_cards(spawner) else LoadedProfiles()
        self.kept_profiles = spawner.kept_profiles
        view = await build_page(spawner, loaded, offer=offer, allowance=allowance, request=request)
        if is_refresh:
            answer_refresh(request.refresh, view, pace=self.refresh_pace)
        scope = spawner._make_warning_scope()
        warnings = self.admin_warnings.build_view(offer, scope) if context.is_viewer_admin() else None
        view = replace(view, flags=warnings, tag=compute_tag(view))
        return render(view, template_dirs=tuple(spawner.additional_profile_form_template_paths))

    @observe("handler")
    def _note_viewer(self, change: Any) -> None:
        context.note_viewer(change.new)
        context.note_choice_header(change.new)
        context.note_refresh(change.new)
        languages.note_request_language(change.new, choice=self.language)
        if self._has_own_form():
            guard_stored_options()
            # A link to a profile alone starts it, as with KubeSpawner.
            asks_first = self.has_fields and self.options_form == self._show_form and self.links != STARTS_FROM_LINKS
            context.take_prefill(change.new, asks_first=asks_first, has_profiles=shows_cards(self))
        if change.new is not None:
            self._keep_failed_start(change.new)
            self._follow_start()

    def _keep_failed_start(self, handler: Any) -> None:
        """Show the error of the server's failed start again when an open form refreshes itself.

        JupyterHub shows the error only if the spawner has the failed start's future. After a failed start, it makes a
        new spawner for each request for the form, so give the future to the new spawner.
        """
        failed = self.failed_starts.pop((self.user.name, self.name), None)
        # A start of this spawner is newer than the failed start, so keep it.
        is_new = private_api.get_spawn_future(self) is None
        if failed is not None and has_failed(failed) and is_new and context.is_refresh(handler):
            self.failed_starts[self.user.name, self.name] = failed
            private_api.set_spawn_future(self, failed)
            # JupyterHub 6 forgets the new spawner after the request, so its other pages would not show the error.
            self.user.spawners[self.name] = self

    # -- the choice ----------------------------------------------------------------------------------------------------

    @default("options_from_form")
    def _options_from_form_default(self) -> Any:
        return self._read_form if self._has_own_form() else super()._options_from_form_default()

    def _read_form(self, form_data: Mapping[str, object]) -> Awaitable[dict[str, object]]:
        # Do not use `async def`: JupyterHub may run a coroutine in another task, but keep_draft() needs the request's.
        languages.recall_form_language(self.language or form_data.get(languages.LANGUAGE_FIELD))
        own, extra = split_form(read_typed_amounts(form_data), self.extra_options)
        draft = context.keep_draft(own, has_profiles=shows_cards(self))
        return self._admit_form(own, parse_form, draft=draft, extra=extra)

    @override
    def options_from_query(self, query_data: Mapping[str, object]) -> Any:
        """Return an awaitable of the user options in the query of a link that starts a server.

        :param query_data: the query of the spawn page: a list of values for each name.
        """
        if self.options_from_form != self._read_form:
            return super().options_from_query(query_data)
        draft = context.keep_link(query_data, has_profiles=shows_cards(self))
        return self._admit_form(query_data, parse_query, draft=draft)

    async def _admit_form(
        self,
        sent: Mapping[str, object],
        parse: Callable[[Mapping[str, object]], dict[str, object]],
        *,
        draft: context.FormDraft,
        extra: Mapping[str, object] = {},
    ) -> dict[str, object]:
        spawner = await copy_with_group_overrides(self)
        offer = await spawner.make_offer()
        try:
            profile, sent = split_profile_fields(sent) if shows_cards(spawner) else ({}, sent)
            if profile or not spawner.has_fields:
                options = private_api.read_profile_form(spawner, profile)
                await check_profile_options(spawner, options, loaded=await load_profiles(spawner), offer=offer)
                return {**extra, **options}
            chosen = {**extra, **parse(sent)}
            return (await self.admission.admit(spawner, chosen, offer=offer, is_start=False)).options
        except UnreadClusterError as error:
            raise make_unread_cluster_failure(offer.unread_reason) from error
        except SelectionError as error:
            draft.problems = error.problems
            registry.count_refusal(error.code)
            raise make_refusal(error, beside_form=True) from error

    # -- admission -----------------------------------------------------------------------------------------------------

    @default("apply_user_options")
    def _apply_user_options_default(self) -> Any:
        return _apply_user_options if self.has_fields else None

    @override
    async def load_user_options(self) -> None:
        """Put the choice in the user options over what the admin and the hooks have set.

        First check the options, unless ``apply_user_options`` has checked the same options with the same catalog.
        """
        self.start_state.has_read_options = True
        offer = await self.make_offer()
        if self.starts_profile:
            starts.begin_measuring(self, registry.OTHER_LABEL)
            await self.apply_profile(offer)
            self.start_state.pending_preflight = partial(self._check_profile_pod, offer=offer)
        else:
            await self._apply_fields(offer)
            self.start_state.pending_preflight = partial(run_preflight, self, offer=offer)

    async def _check_profile_pod(self, pod: Any, *, offer: Offer) -> None:
        await self.admit_profile_pod(pod, offer=offer)
        await run_preflight(self, pod, offer=offer)

    async def _apply_fields(self, offer: Offer) -> None:
        admission, self.start_state.admission = self.start_state.admission, None
        if admission is None or admission.catalog is not offer.catalog or admission.options != self.user_options:
            admission = await self._admit_start(self.user_options, offer)
        apply_choice(self, PodChoice(placement=admission.placement, resources=list_gpu_resources(offer.catalog)))
        self.start_state.avoided = admission.placement.avoided
        self.start_state.feed.gpu = admission.gpu

    async def _admit_start(self, user_options: object, offer: Offer) -> Admission:
        starts.begin_measuring(self, starts.find_gpu_label(user_options, offer.catalog))
        with self.refuse_problems(offer):
            admission = await self.admission.admit(self, user_options, offer=offer, is_start=True)
        self.start_state.is_admitted = True
        return admission

    @override
    def _expand_user_properties(self, template: str, slug_scheme: str | None = None) -> str:
        """Expand a template. Return a text without braces unchanged: this saves a third of the time to build a pod."""
        if "{" not in template and "}" not in template:
            return template
        expanded: str = super()._expand_user_properties(template, slug_scheme)
        return expanded

    @override
    async def get_pod_manifest(self) -> Any:
        """Return KubeSpawner's pod with the user's choice in it, if there is one."""
        with self.blame_texts():
            pod = await super().get_pod_manifest()
        return pod if self.trait_overrides.patch is None else self.trait_overrides.patch(pod)

    @override
    def clear_state(self) -> None:
        """Restore the admin's trait values, and reset the start's state, before each start and after each stop."""
        super().clear_state()
        drop_draft(self)
        self.trait_overrides.restore()
        self._settle_failure()
        self._sent_options = self._read_row_options()
        self._start_future = None
        if private_api.is_stop_pending(self):
            self.open_starts.close_earlier()  # JupyterHub calls clear_state() at the end of a stop
        self.start_state = self.start_state.make_next(follows_open_start=self.has_open_start)

    def _follow_start(self) -> None:
        start = private_api.get_spawn_future(self)
        if start is not None and not start.done():
            self.failure_count.follow(start, self.user)

    def _settle_failure(self) -> None:
        start, failure = private_api.get_spawn_future(self), find_start_failure()
        was_canceled = failure is None and private_api.is_stop_pending(self) and not private_api.is_start_complete(self)
        if self.start_state.is_admitted and not was_canceled:
            self._stored_options = self.user_options
        elif (was_canceled or failure is not None) and (self.start_state.has_read_options or not self.starts_profile):
            # JupyterHub committed the options to its database when the start began, and commits again after
            # clear_state(). Restore the options of the last start that was neither refused nor canceled, unless an
            # admin has changed the options in the database since the start began.
            if (options := self._read_row_options()) != self._sent_options:
                self._stored_options = options
            self.user_options = self._stored_options
            if self.orm_spawner is not None:
                self.orm_spawner.user_options = self._stored_options
        if start is None or start.done() or failure is None:
            return
        self.failed_starts[self.user.name, self.name] = start
        if len(self.failed_starts) > _MAX_FAILED_STARTS:
            del self.failed_starts[next(iter(self.failed_starts))]
        if self.start_state.is_resumed:
            return
        self.failure_count.settle(start, failure, user=self.user)
        self.start_state.end = endings.read_failure(failure)

    def _read_row_options(self) -> Any:
        # Copy the options: hooks may change the spawner's in place.
        return {} if self.orm_spawner is None else copy_nested(self.orm_spawner.user_options or {})

    # -- the hub's database --------------------------------------------------------------------------------------------

    @override
    def get_state(self) -> dict[str, Any]:
        """Return the server's state for the hub's database, so that a start outlasts the hub's process."""
        state: dict[str, Any] = super().get_state()
        return {**state, **resumption.build_record(self)}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the server's state from the hub's database; resume a start that a restart of the hub interrupted."""
        super().load_state(state)
        resumption.load_record(self, state)

    @property
    @override
    def server(self) -> Any:
        """JupyterHub's record of the server's address; with None, JupyterHub does not check the server at its start."""
        return None if self.start_state.is_hidden else KubeSpawner.server.fget(self)

    @server.setter
    @override
    def server(self, server: Any) -> None:
        KubeSpawner.server.fset(self, server)

    @property
    @override
    def events(self) -> list[PodEvent]:
        """JSON of the pod's Kubernetes events since the start began, oldest first."""
        reflector = self.event_reflector
        own = POD_EVENTS.list_events(reflector, self.pod_name) if reflector else []
        return select_pod_events(own, self.pod_name, after=self._last_event)

    # -- starting ------------------------------------------------------------------------------------------------------

    @override
    async def _start_reflector(self, kind: str, **kwargs: Any) -> Any:
        reflectors, key = type(self).reflectors, self._get_reflector_key(kind)
        await wait_for_first_list(reflectors, key)
        before = reflectors.get(key)
        kwargs["replace"] = before is not None and (kwargs.get("replace", False) or is_given_up(before))
        kwargs["reflector_class"] = make_lasting_reflector(kwargs["reflector_class"], before=before)
        with unregister_failed_reflector(reflectors, key, spares_hub=private_api.is_starting(self)):
            return await super()._start_reflector(kind, **kwargs)

    @override
    async def _start_watching_events(self, replace: bool = False) -> Any:
        watch = partial(super()._start_watching_events, replace=replace)
        reflector = await self._events_access.start_events_reflector(self, watch)
        self.start_state.feed.lacks_events = reflector is None
        return reflector

    @override
    def start(self) -> asyncio.Future[Any]:
        """Start the pod; the returned future raises an error with a message for users if Kubernetes cannot start it."""
        give_up_dead_reflectors(type(self).reflectors)
        # JupyterHub counts start_timeout from now, so begin here: in a busy hub, the start's task runs only later.
        self.start_state.feed.begin()
        self._follow_start()
        self.start_state.end = None
        # JupyterHub may ignore its own cancellation of a start, and go on to here.
        context.raise_if_cancelled()
        return self._follow(partial(self.begin_start, super().start))

    def resume(self) -> asyncio.Future[Any]:
        """Continue a start that an earlier process of the hub began; return a future like that of :meth:`start`."""
        return self._follow(partial(resumption.wait_for_pod, self))

    def _follow(self, begin: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
        self._start_future = future = self.open_starts.follow(begin, self._explain_errors)
        future.add_done_callback(lambda _: self.admission.reservations.release_seen(self))
        return future

    @override
    def progress(self) -> AsyncGenerator[dict[str, Any]]:
        """Yield the progress of the start for one open progress page."""
        return stream_progress(self, self.start_state.feed)

    # KubeSpawner calls each of the next two methods until it returns True. The first call runs the preflight, because
    # the preflight's dry run and many hooks need the user's namespace, which now exists.

    @override
    async def _make_create_pvc_request(self, pvc: Any, request_timeout: float) -> Any:
        raise_if_over()
        await self._run_preflight()
        await self.new_claims.mark(self, pvc, token=self.start_state.token)
        return await super()._make_create_pvc_request(pvc, request_timeout)

    @override
    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> Any:
        raise_if_over()
        await self._run_preflight(pod)
        await self.new_claims.note_use(self, token=self.start_state.token)
        raise_if_over()
        self.start_state.feed.note_pod_sent(find_pod(self))
        is_first, self.start_state.is_pod_unseen = not self.start_state.is_pod_unseen, True
        send = partial(super()._make_create_pod_request, request_timeout=request_timeout)
        send = partial(send_pod, self, send=send, is_repeated=not is_first)
        try:
            with self.admission.reservations.track_creation(self):
                is_made = await self._gpu_node_exclusion.create_pod(self, pod, create=send)
        except ApiException as error:
            # If a repeated request is refused, the pod may still exist: an earlier request may have created it.
            was_refused = is_first and (endings.is_refusal(error) or is_webhook_outage(error))
            if was_refused:
                self.start_state.is_pod_unseen = False
            if was_refused and self.new_claims.can_remove(self, token=self.start_state.token):
                # Reset KubeSpawner's `_pvc_exists`, so that the next start creates the claim again.
                self._pvc_exists = False
                await self.new_claims.remove(self, token=self.start_state.token)
            raise
        if is_made:
            starts.note_pod(self, {})
            self._state_writer.schedule(self)
        return is_made

    async def _run_preflight(self, pod: Any = None) -> None:
        """Run the checks before the pod's creation, once for each start. If ``pod`` is None, build the pod first."""
        preflight, self.start_state.pending_preflight = self.start_state.pending_preflight, None
        if not (preflight or self.start_state.has_read_options or self.start_state.is_admitted):
            # A subclass has loaded the user's options in its own way.
            preflight = partial(self._check_profile_pod, offer=await self.make_offer())
        if preflight is None:
            return
        try:
            draft = await draft_pod(self) if pod is None else pod
            await preflight(draft)
        except Exception:
            self.start_state.is_refused = True
            raise
        if pod is None:
            use_draft(self, draft)

    async def _explain_errors(self, start: Awaitable[Any]) -> Any:
        token = self.start_state.token
        try:
            return await supervise_start(self, start, feed=self.start_state.feed)
        except Exception as error:
            explained = explain_cluster_error(error, pod_name=self.pod_name, namespace=self.namespace)
            if explained is None:
                raise
            self.log.exception("Starting %s failed in Kubernetes", self._log_name)
            raise explained from error
        finally:
            self.new_claims.forget(self, token=token)
            starts.note_pod(self)

    @override
    async def poll(self) -> int | None:
        """Return None while the pod runs, else an exit code.

        - After a refused start: 0, because no pod exists.
        - After a cancelled or failed start: None if it may have left a pod, so that JupyterHub deletes the pod; else 1.
        - While the hub cannot read pods: None, because JupyterHub forgets a server that has an exit code.
        """
        resumption.store_failure(self)  # JupyterHub calls poll() before each stop
        await endings.wait_for_cancelled_start(self)
        if private_api.is_stop_pending(self):
            await self.open_starts.end()  # a start that goes on could send its pod after the stop
        if self.start_state.is_refused and not self.start_state.follows_open_start:
            return 0
        if endings.has_failed_start(self) or self.has_open_start:
            # JupyterHub stops a server only if poll() returns None.
            needs_stop = self.open_starts.has_lost_stop and not private_api.is_stop_pending(self)
            may_have_pod = endings.may_have_pod(self, is_pod_unseen=self.start_state.is_pod_unseen)
            return None if needs_stop or may_have_pod else 1
        if not await resumption.can_read_pods(self):
            return None
        # Remember the pod now, because KubeSpawner's poll() below may delete the pod if it has ended.
        self.start_state.last_pod = find_pod(self) or self.start_state.last_pod
        status: int | None = await super().poll()
        if status is None:
            status = await run_time.enforce_run_time(self)
        if status is not None:
            try:
                await endings.note_end(self, language=self.start_state.feed.language)
            except Exception:  # Even after an error here, JupyterHub must learn that the server has ended.
                self.log.exception("Cannot tell why the server of %s has ended", self._log_name)
        return status

    @override
    async def stop(self, now: bool = False) -> None:
        """Delete the pod; give no grace period if the start failed or was cancelled before any container ran.

        Wait until the pod is gone. Without permission to list pods, do not wait: the hub cannot see when it is gone.

        :param now: whether to delete the pod without a grace period in any case.
        """
        await endings.stop_server(self, super().stop, now=now)
        self.open_starts.close_earlier()

    @override
    async def _make_delete_pod_request(
        self, pod_name: str, delete_options: Any, grace_seconds: int, request_timeout: float
    ) -> Any:
        # If a stop fails, JupyterHub forgets the server, although its pod runs. So repeat it until it is accepted.
        send = super()._make_delete_pod_request
        delete = partial(send, pod_name, delete_options, grace_seconds, request_timeout)
        return await endings.repeat_until_accepted(self, delete, purpose="delete the pod")

    # -- settings and cluster ------------------------------------------------------------------------------------------

    @override
    def parse_settings(self) -> Settings:
        """Return the settings of the user's server."""
        return (self._reloading_settings or self.offer_factory).parse(self.collect_settings())

    async def make_offer(self) -> Offer:
        """Return what users can choose and the cluster's state; schedule a task that logs new warnings for admins.

        The method waits for the API server at most ``capacity_timeout`` seconds, however many requests it makes.
        """
        answer_by = asyncio.get_running_loop().time() + self.capacity_timeout
        store = self.offer_factory.get_store(
            self.api, pace=StoreTiming(first_sync_timeout_s=self.capacity_timeout), log=self.log
        )
        scope, admins = self._make_warning_scope(), self.trait_overrides
        # Only the fields put the admin's resources aside.
        own = read_own_resources(admins) if self.has_fields else NO_RESOURCES
        making = self.offer_factory.make_offer(
            scope.settings, store, image=admins["image"], own=own, answer_by=answer_by
        )
        if scope.settings.configured.policy is not None and self.pod_reflector is None:
            # Policy limits on GPUs need the pods in KubeSpawner's reflector. Start it while `making` runs.
            offer, _ = await asyncio.gather(making, ensure_pods_watched(self, timeout_s=self.capacity_timeout))
        else:
            offer = await making
        self.admin_warnings.schedule_log(offer, scope, log=self.log)
        return offer

    def _make_warning_scope(self) -> WarningScope:
        return WarningScope(self.parse_settings(), parse_admin_tolerations(self.trait_overrides["tolerations"]))


async def _apply_user_options(spawner: GPUSpawner, user_options: object) -> None:
    """Check user options, set the start timeout that the choice requires, and store the normalized options.

    Only the timeout is set now, because JupyterHub reads it before the start. ``load_user_options`` sets all other
    traits, after the admin's hooks.
    """
    if spawner.profile_list and names_profile(user_options):
        spawner.user_options = user_options
        return  # KubeSpawner reads the options at the start
    admission = await spawner._admit_start(user_options, await spawner.make_offer())
    timeout_s = admission.placement.start_timeout_s
    if timeout_s is not None:
        spawner.trait_overrides.assign({"start_timeout": timeout_s})
    # Copy the options: load_user_options() compares them with user_options, which hooks may change in place.
    spawner.start_state.admission = replace(admission, options=copy_nested(admission.options))
    spawner.user_options = admission.options
    stored = spawner.orm_spawner
    if stored is not None and stored.user_options != admission.options:
        # JupyterHub's admin page shows the key `profile`, which the user's own options may lack. Store the admitted
        # options now, because JupyterHub may roll back a later assignment.
        stored.user_options = admission.options
    spawner._sent_options = spawner._read_row_options()


REGISTRY.register(ClusterMetrics(lambda: GPUSpawner.reflectors, lambda: GPUSpawner.offer_factory.known_store))
REGISTRY.register(SettingsMetrics(GPUSpawner.settings_files_cache))
