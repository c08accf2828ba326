"""The private names of JupyterHub, KubeSpawner and traitlets that gpuspawner reads, calls or overrides.

A new version of these projects may change private names. :data:`PRIVATE_NAMES` lists all that gpuspawner uses.
Importing this module compares the list with the installed versions. If a name is missing, the hub does not start, and
its log contains the name.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from http import HTTPStatus
from importlib import metadata
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import kubespawner.clients
import kubespawner.spawner
from jupyterhub.app import JupyterHub
from jupyterhub.handlers.base import BaseHandler
from jupyterhub.spawner import Spawner
from jupyterhub.user import User
from jupyterhub.utils import exponential_backoff
from kubernetes_asyncio.client import CoreV1Api, V1DeleteOptions
from kubernetes_asyncio.client.rest import ApiException, RESTResponse
from kubespawner import KubeSpawner
from kubespawner.reflector import ResourceReflector
from traitlets import HasTraits, TraitType
from traitlets.config import Configurable
from traitlets.log import get_logger
from typing_extensions import override

from gpuspawner.hub.errors import is_conflict


class PrivateName(NamedTuple):
    """A private name that gpuspawner needs.

    :param owner: the class or module that has the name.
    :param name: the private name, without its owner.
    :param lost: what does not work without the name, as a clause for the error message.
    :param parameters: names of a function's parameters, without ``self``; None if the name is no function.
    :param is_overridden: whether gpuspawner overrides the method. If so, the check fails if the installed method has a
        parameter that is not in ``parameters``, even a parameter with a default.
    """

    owner: Any
    name: str
    lost: str
    parameters: tuple[str, ...] | None = None
    is_overridden: bool = False


_STARTS = "starts in progress are not seen, so that limits do not count them"
_RESTARTS = "servers that are starting do not outlast a restart of the hub"
_NO_DRY_RUN = "nothing checks the pod before it is created"
_EVENTS = "the hub cannot read events, and nothing tells why a server waits"
_FORM = "a profile_list shows no form"
_PODS = "the hub cannot count running servers, so that limits do not hold"
_NO_PROFILES = "a wrong profile in a request counts as a failure of the hub"
_NO_EXPLAIN = "`gpuspawner explain` cannot read the cluster"
_OWNERS = "the hub cannot tell whose a pod is, so that limits do not hold"

PRIVATE_NAMES = (
    PrivateName(Spawner, "_log_name", "the log cannot name servers"),
    PrivateName(Spawner, "_spawn_future", "starts are not measured"),
    PrivateName(Spawner, "_spawn_pending", _STARTS),
    PrivateName(Spawner, "_failed", "a request fails in the moment in which a cancelled start ends"),
    PrivateName(Spawner, "_start_pending", _STARTS),
    PrivateName(Spawner, "_stop_pending", "a start that ends slowly cannot be cancelled"),
    PrivateName(Spawner, "_check_pending", _RESTARTS),
    PrivateName(Spawner, "_proxy_pending", _RESTARTS),
    PrivateName(Spawner, "_waiting_for_response", _RESTARTS),
    PrivateName(BaseHandler, "_stop_future", "a server that is removed while it stops leaves its pod"),
    PrivateName(User, "_wait_up", _RESTARTS, ("spawner",)),
    PrivateName(JupyterHub, "_start_future", _RESTARTS),
    PrivateName(KubeSpawner, "_start_future", _STARTS),
    PrivateName(KubeSpawner, "_get_pod_url", _RESTARTS, ("pod",)),
    PrivateName(KubeSpawner, "_ensure_not_exists", _RESTARTS, ("kind", "name")),
    PrivateName(KubeSpawner, "_make_create_resource_request", _RESTARTS, ("kind", "manifest")),
    PrivateName(KubeSpawner, "_expand_all", "a kubespawner_override is not checked before a start", ("src",)),
    PrivateName(KubeSpawner, "_pvc_exists", "a server whose volume claim was removed has no home at its next start"),
    PrivateName(KubeSpawner, "_last_event", "progress shows events of earlier pods"),
    PrivateName(KubeSpawner, "_get_reflector_key", _PODS, ("kind",)),
    PrivateName(KubeSpawner, "_namespace_default", _OWNERS, ()),
    PrivateName(KubeSpawner, "_start_watching_pods", _PODS, ("replace",)),
    PrivateName(KubeSpawner, "_start_watching_events", _EVENTS, ("replace",), is_overridden=True),
    PrivateName(KubeSpawner, "_start_reflector", _EVENTS, ("kind", "reflector_class", "replace", "kwargs")),
    PrivateName(KubeSpawner, "_stop_all_reflectors", "`gpuspawner explain` does not end", ()),
    PrivateName(KubeSpawner, "_expand_user_properties", _OWNERS, ("template", "slug_scheme"), is_overridden=True),
    PrivateName(KubeSpawner, "_make_create_pvc_request", _NO_DRY_RUN, ("pvc", "request_timeout"), is_overridden=True),
    PrivateName(KubeSpawner, "_make_create_pod_request", _NO_DRY_RUN, ("pod", "request_timeout"), is_overridden=True),
    PrivateName(
        KubeSpawner,
        "_make_delete_pod_request",
        "pods run on that are stopped while the API server is out of reach",
        ("pod_name", "delete_options", "grace_seconds", "request_timeout"),
        is_overridden=True,
    ),
    PrivateName(KubeSpawner, "_apply_overrides", "no server starts", ("spawner_override",)),
    PrivateName(KubeSpawner, "_deprecated_traits", "users of profiles may name an image that they must not use"),
    PrivateName(KubeSpawner, "_get_initialized_profile_list", _FORM, ("profile_list",)),
    PrivateName(KubeSpawner, "_render_options_form", _FORM, ("profile_list",)),
    PrivateName(KubeSpawner, "_sorted_dict_values", _FORM, ("src",)),
    PrivateName(KubeSpawner, "_options_from_form", _FORM, ("formdata",)),
    PrivateName(KubeSpawner, "_get_profile", _NO_PROFILES, ("slug", "profile_list")),
    PrivateName(KubeSpawner, "_load_profile", "a profile's values stay", ("slug", "profile_list"), is_overridden=True),
    PrivateName(KubeSpawner, "_validate_user_options", _NO_PROFILES, ("profile_list",), is_overridden=True),
    PrivateName(KubeSpawner, "_options_form_default", _FORM, (), is_overridden=True),
    PrivateName(KubeSpawner, "_options_from_form_default", _FORM, (), is_overridden=True),
    # The next five names have no underscore, but count as private: KubeSpawner's documentation does not name them.
    PrivateName(KubeSpawner, "reflectors", _PODS),
    PrivateName(ResourceReflector, "first_load_future", _PODS),
    PrivateName(ResourceReflector, "watch_task", "starts wait for pods that nothing watches any more"),
    PrivateName(ResourceReflector, "resources", _EVENTS),
    PrivateName(kubespawner.spawner, "load_config", _NO_EXPLAIN),
    PrivateName(kubespawner.clients, "_client_cache", _NO_EXPLAIN),
    PrivateName(HasTraits, "_trait_values", "forms cannot build a pod, so that they show no verdict"),
    PrivateName(Configurable, "_find_my_config", "the admin's own forms are not seen", ("cfg",)),
    PrivateName(TraitType, "_validate", "`gpuspawner check` cannot check values of KubeSpawner", ("obj", "value")),
)
"""All private names of other projects that gpuspawner uses."""

_DISTRIBUTIONS = {"kubespawner": "jupyterhub-kubespawner"}
"""Name of a project's top-level module → name of the project's package on PyPI, where the two differ."""


class IncompatibleVersionError(ImportError):
    """An installed version of another project lacks private names that gpuspawner needs."""


def check_private_names(names: Iterable[PrivateName] = PRIVATE_NAMES) -> None:
    """Compare private names with the installed versions, and log what is missing.

    :param names: the names that gpuspawner needs.
    :raises IncompatibleVersionError: a name is missing, or a function has other parameters.
    """
    problems = [problem for each in names for problem in _find_difference(each)]
    if problems:
        message = "\n".join(("gpuspawner cannot run with the versions that are installed here.", *problems))
        # Log what is missing: JupyterHub's own message says only that the spawner class could not be imported.
        get_logger().critical(message)
        raise IncompatibleVersionError(message)


def _find_difference(wanted: PrivateName) -> Iterator[str]:
    owner, name = wanted.owner, wanted.name
    module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    package = _DISTRIBUTIONS.get(top := module.partition(".")[0], top)
    subject = f"{package} {metadata.version(package)}: {owner.__name__}.{name}"
    if wanted.parameters is None:
        if not hasattr(owner, name) and name not in _list_assigned_names(owner):
            yield f"{subject} is gone; without it, {wanted.lost}."
        return
    found = inspect.getattr_static(owner, name, None)
    # Class methods and traitlets' `@default` wrap the function: it is in `__func__` or `func`.
    function = getattr(found, "__func__", getattr(found, "func", found))
    if not callable(function):
        yield f"{subject}() is gone; without it, {wanted.lost}."
    elif not _takes(function, wanted):
        parameters = ", ".join(list(inspect.signature(function).parameters)[1:])
        yield f"{subject} takes ({parameters}), not ({', '.join(wanted.parameters)}); so {wanted.lost}."


def _list_assigned_names(owner: Any) -> frozenset[str]:
    """Return the names that a class's methods use, such as attributes that only instances of the class have."""
    functions = (each for each in vars(owner).values() if isinstance(each, FunctionType))
    return frozenset(name for function in functions for name in function.__code__.co_names)


def _takes(function: Any, wanted: PrivateName) -> bool:
    _, *parameters = inspect.signature(function).parameters.values()
    wanted_names = wanted.parameters or ()
    known, added = parameters[: len(wanted_names)], parameters[len(wanted_names) :]
    is_harmless = not wanted.is_overridden and all(each.default is not each.empty for each in added)
    return tuple(each.name for each in known) == wanted_names and (not added or is_harmless)


def get_log_name(spawner: Any) -> str:
    """Return the names of user and server as JupyterHub logs them, such as ``ada:lab``."""
    return str(spawner._log_name)


def get_spawn_future(spawner: Any) -> asyncio.Future[Any] | None:
    """Return the future that JupyterHub completes when the server answers or the start fails.

    The result is None before a start and after a successful start.
    """
    future: asyncio.Future[Any] | None = spawner._spawn_future
    return future


def set_spawn_future(spawner: Any, future: asyncio.Future[Any]) -> None:
    """Store JupyterHub's future of a failed start in a new spawner; JupyterHub's pages then show the start's exception.

    :param future: the future of an earlier spawner of the server.
    """
    spawner._spawn_future = future


def mark_spawning(spawner: Any, future: asyncio.Future[Any]) -> None:
    """Mark a server as spawning until a future is done. If the future fails, JupyterHub's pages show its exception.

    ``BaseHandler.spawn_single_user`` of JupyterHub does the same, but needs an HTTP request.

    :param future: done when the server answers or the start fails.
    """
    spawner._spawn_pending, spawner._spawn_future = True, future

    def clear(done: asyncio.Future[Any]) -> None:
        if done.cancelled() or done.exception() is None:
            spawner._spawn_future = None
        spawner._spawn_pending = False

    future.add_done_callback(clear)


def is_start_cancelled(spawner: Any) -> bool:
    """Return whether JupyterHub has cancelled the start of a server and has not finished the cancellation."""
    spawn = spawner._spawn_future
    if not isinstance(spawn, asyncio.Task) or not spawn.cancelling():
        return False
    return not spawn.done() or bool(spawner._spawn_pending)


def is_stop_pending(spawner: Any) -> bool:
    """Return whether JupyterHub is stopping the server.

    JupyterHub's public ``pending`` does not suffice: while a cancelled start is still ending, ``pending`` is ``spawn``
    even if JupyterHub is already stopping the server.
    """
    return bool(spawner._stop_pending)


def is_checked(spawner: Any) -> bool:
    """Return whether JupyterHub, after its own start, is still checking whether this server runs.

    When JupyterHub starts, it checks all servers that its database lists as running.
    """
    return bool(spawner._check_pending)


async def wait_for_hub() -> None:
    """Wait until JupyterHub has started: it then answers requests, and the proxy has the routes of running servers."""
    if JupyterHub.initialized():
        await asyncio.wait([JupyterHub.instance()._start_future])


async def wait_until_answering(spawner: Any) -> None:
    """Let JupyterHub wait until the server answers; JupyterHub stops the server if ``http_timeout`` passes first.

    :raises Exception: the server did not answer, so JupyterHub has stopped the server.
    """
    spawner._waiting_for_response = True
    await spawner.user._wait_up(spawner)


@contextmanager
def note_proxy_pending(spawner: Any) -> Iterator[None]:
    """Mark the server as being added to the proxy while the ``with`` block runs."""
    spawner._proxy_pending = True
    try:
        yield
    finally:
        spawner._proxy_pending = False


def get_start_future(spawner: Any) -> asyncio.Future[Any] | None:
    """Return the future that the last ``start()`` returned, or None before a start and after ``clear_state()``."""
    future: asyncio.Future[Any] | None = spawner._start_future
    return future


def is_start_complete(spawner: Any) -> bool:
    """Return whether the last ``start()`` has ended by itself, with or without a server; False after a cancellation."""
    start = get_start_future(spawner)
    return start is not None and start.done() and not start.cancelled()


def is_starting(spawner: Any) -> bool:
    """Return whether a start of the spawner is in progress in JupyterHub or KubeSpawner.

    The public property ``pending`` does not suffice: GPUSpawner's ``pending`` does not report a cancelled start, which
    may still run.
    """
    start = spawner._start_future
    return bool(spawner._spawn_pending or spawner._start_pending or (start is not None and not start.done()))


def get_reflector_key(spawner: Any, kind: str) -> tuple[str, str | None]:
    """Return the key of a spawner's reflector in ``KubeSpawner.reflectors``.

    :param kind: ``pods`` or ``events``.
    """
    key: tuple[str, str | None] = spawner._get_reflector_key(kind)
    return key


async def start_pods_reflector(spawner: Any) -> None:
    """Start the reflector of pods if none is running, and wait for the reflector's first list.

    KubeSpawner does this itself only when a server starts or is polled, but the form needs the pods earlier.

    :raises SystemExit: KubeSpawner watches all namespaces, and the first list failed.
    """
    await spawner._start_watching_pods()


async def start_events_reflector(spawner: Any) -> None:
    """Start the reflector of events if none is running, and wait for the reflector's first list.

    :raises SystemExit: KubeSpawner watches all namespaces, and the first list failed.
    """
    await spawner._start_watching_events()


def get_pod_url(spawner: Any, pod: Mapping[str, Any]) -> str:
    """Return the URL of the server in a pod, as KubeSpawner's start returns it.

    :param pod: JSON of the running pod, as the API server sends it.
    """
    return str(spawner._get_pod_url(pod))


async def replace_object(spawner: Any, manifest: Any, *, kind: str) -> None:
    """Delete the Secret or Service of the server's earlier pod, and create a new one, as KubeSpawner's start does.

    :param manifest: the object as a model of the Kubernetes client.
    :param kind: ``secret`` or ``service``.
    :raises ApiException: the API server refuses the object.
    :raises TimeoutError: the API server does not answer, or keeps the earlier object.
    """
    name = manifest.metadata.name
    await exponential_backoff(partial(spawner._ensure_not_exists, kind, name), f"Could not delete {kind} {name}")
    create = partial(spawner._make_create_resource_request, kind, manifest)
    await exponential_backoff(create, f"Could not create {kind} {name}")


async def delete_pod(spawner: Any, *, now: bool) -> None:
    """Delete the pod of a server, but do not wait until the pod is gone; KubeSpawner's ``stop()`` does wait."""
    grace_s = 0 if now else spawner.delete_grace_period
    options = V1DeleteOptions(grace_period_seconds=grace_s)
    await spawner._make_delete_pod_request(spawner.pod_name, options, grace_s, spawner.k8s_api_request_timeout)


async def stop_reflectors(kind: Any) -> None:
    """Stop all reflectors of a spawner class, so that a command such as ``gpuspawner explain`` can end."""
    await kind._stop_all_reflectors()


def make_stand_in(spawner: Any, *, user_id: object) -> SimpleNamespace:
    """Return an object that replaces a spawner in :func:`expand_user_properties`, for any user.

    The caller sets its ``user.name`` (name of the user) and ``name`` (name of the server).

    :param spawner: any spawner of the hub.
    :param user_id: the value for ``{userid}`` in templates.
    """
    # Call `_namespace_default` only once, because it reads a file.
    hub_namespace = spawner._namespace_default()
    return SimpleNamespace(
        user=SimpleNamespace(id=user_id),
        slug_scheme=spawner.slug_scheme,
        # Read the namespace from the configuration: the trait of `spawner` holds the namespace of one user.
        namespace=spawner._find_my_config(spawner.config).get("namespace", hub_namespace),
        _namespace_default=lambda: hub_namespace,
    )


def expand_user_properties(stand_in: SimpleNamespace, template: str) -> str:
    """Expand one of KubeSpawner's templates, such as ``jhub-{username}``, for a user.

    :param stand_in: result of :func:`make_stand_in`, with the names of the user and the server.
    :param template: text with fields in braces.
    """
    return str(KubeSpawner._expand_user_properties(stand_in, template))


def get_trait_values(spawner: Any) -> dict[str, Any]:
    """Return the dict in which traitlets stores the values of a spawner's traits."""
    values: dict[str, Any] = spawner._trait_values
    return values


def set_trait_values(spawner: Any, values: dict[str, Any]) -> None:
    """Replace the dict in which traitlets stores a spawner's trait values, without validation and observers."""
    spawner._trait_values = values


def apply_overrides(spawner: Any, override: dict[str, Any]) -> None:
    """Set a spawner's traits as KubeSpawner does for a profile's ``kubespawner_override``.

    :param override: name of a trait → its value; KubeSpawner merges a mapping into the trait's mapping in place.
    """
    spawner._apply_overrides(override)


def find_trait_name(name: str) -> str:
    """Return the present name of one of KubeSpawner's traits; another name stays as it is.

    :param name: the name, perhaps an old one such as ``image_spec``, which sets ``image``.
    """
    renamed: Mapping[str, tuple[str, str]] = KubeSpawner._deprecated_traits
    while name in renamed:
        name, _ = renamed[name]
    return name


def list_profiles(spawner: Any, profile_list: Any) -> Sequence[Mapping[str, Any]]:
    """Return the profiles of a ``profile_list`` that is a list or a mapping, in KubeSpawner's order."""
    profiles: Sequence[Mapping[str, Any]] = spawner._sorted_dict_values(profile_list)
    return profiles


def complete_profiles(spawner: Any, profiles: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return copies of profiles, with the slugs and defaults that KubeSpawner gives them."""
    completed: list[dict[str, Any]] = spawner._get_initialized_profile_list(profiles)
    return completed


def read_profile_form(spawner: Any, form: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the user options of a submitted form of profiles."""
    options: dict[str, Any] = spawner._options_from_form(form)
    return options


def validate_options(spawner: Any, options: Mapping[str, Any], *, profiles: Any) -> None:
    """Check user options as KubeSpawner does, without changing the spawner.

    :param profiles: the profiles, as KubeSpawner has completed them.
    :raises ValueError: KubeSpawner refuses the options.
    """
    stand_in = SimpleNamespace(user_options=options, _get_profile=partial(KubeSpawner._get_profile, spawner))
    KubeSpawner._validate_user_options(stand_in, profiles)


def renders_profiles_as_kubespawner(spawner: Any) -> bool:
    """Return whether no subclass of the admin renders the form of profiles in another way."""
    return type(spawner)._render_options_form is KubeSpawner._render_options_form


def validate_trait_value(trait: Any, value: object, *, owner: HasTraits) -> None:
    """Validate a value as traitlets does at an assignment, without assigning it.

    :param trait: a trait of any class.
    :param owner: the object that traitlets passes to the trait's validators.
    :raises TraitError: the trait does not accept the value. Validators may raise other exceptions.
    """
    trait._validate(owner, value)


def get_client_cache() -> MutableMapping[tuple[object, ...], CoreV1Api]:
    """Return KubeSpawner's cache of API clients, by event loop, class name and arguments.

    ``gpuspawner explain`` puts its own API client into this cache, because KubeSpawner has no traits for a kubeconfig
    context or an impersonated account.
    """
    cache: MutableMapping[tuple[object, ...], CoreV1Api] = kubespawner.clients._client_cache
    return cache


_is_for_kubespawner: ContextVar[bool] = ContextVar("gpuspawner_is_for_kubespawner", default=False)


class PodCreatingAPI(CoreV1Api):
    """A ``CoreV1Api`` whose :meth:`create_namespaced_pod` has two changes in ``with create_for_kubespawner():`` blocks.

    - It does not parse the API server's answer, because KubeSpawner ignores it, and parsing is slow.
    - If requests for several pods update a ResourceQuota at the same moment, the API server answers with status 409, as
      if the pod existed. The method then raises a :class:`TimeoutError`, so that KubeSpawner repeats the request. After
      status 409, KubeSpawner would delete the server's pod.
    """

    @override
    async def create_namespaced_pod(self, namespace: str, body: Any, **options: Any) -> Any:
        """Create a pod; see ``CoreV1Api.create_namespaced_pod``.

        :param body: the pod as a model of the client, or as a dict.
        :param options: options of the request.
        :returns: the created pod as a model of the client; None inside :func:`create_for_kubespawner`.
        :raises ApiException: the API server or an admission webhook rejects the pod.
        :raises TimeoutError: inside :func:`create_for_kubespawner`, the request conflicts with another request. This
            error makes KubeSpawner repeat the request.
        """
        create = super().create_namespaced_pod
        if not _is_for_kubespawner.get():
            return await create(namespace, body, **options)
        try:
            await read_answer(lambda **unparsed: create(namespace, body, **options, **unparsed))
        except ApiException as error:
            if is_conflict(error):
                raise TimeoutError(str(error)) from error
            raise
        return None


def make_pod_creating_api(api: Any) -> Any:
    """Return a :class:`PodCreatingAPI` that sends its requests through the same ``api_client`` as another client.

    :param api: KubeSpawner's ``CoreV1Api``. A client of a different class, which a site may have set, is returned
        unchanged.
    """
    if type(api) is not CoreV1Api:
        return api
    client: Any = api
    return PodCreatingAPI(client.api_client)


@contextmanager
def create_for_kubespawner() -> Iterator[None]:
    """Tell :class:`PodCreatingAPI` that KubeSpawner creates the pods in the ``with`` block and in tasks begun there.

    ``create_namespaced_pod`` then does not parse the created pod, and raises a :class:`TimeoutError` after a conflict.
    """
    token = _is_for_kubespawner.set(True)
    try:
        yield
    finally:
        _is_for_kubespawner.reset(token)


async def read_answer(send: Callable[..., Awaitable[Any]]) -> bytes:
    """Send a request and return the API server's answer as JSON text.

    :param send: method of a client of ``kubernetes_asyncio``, with all its arguments but ``_preload_content``.
    :raises ApiException: the status of the answer is an error.
    """
    response = await send(_preload_content=False)
    body: bytes = await response.read()
    if response.status >= HTTPStatus.MULTIPLE_CHOICES:
        answer: Any = RESTResponse(response, body)
        error: Any = ApiException(http_resp=answer)
        error.body = body.decode(errors="replace")  # decode the body as the client itself does
        raise error
    return body


check_private_names()
