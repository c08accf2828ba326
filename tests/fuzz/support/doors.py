"""The ways in, as JupyterHub has them: bytes become a form, a link or JSON, and then a pod or a refusal.

tornado and JupyterHub process the bytes here themselves, or the code does what they do. Their servers,
databases and proxies are left out: that is what makes thousands of requests a minute possible.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from jupyterhub.apihandlers.users import UserServerAPIHandler
from jupyterhub.handlers.pages import SpawnHandler
from jupyterhub.orm import JSONDict
from jupyterhub.utils import maybe_future
from tornado.httputil import HTTPHeaders, HTTPInputError, HTTPServerRequest, RequestStartLine
from tornado.log import app_log
from tornado.web import Finish, HTTPError

from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.request.context import CHOICE_HEADER
from gpuspawner.hub.spawner import GPUSpawner
from tests.fuzz.support.judge import NOT_AN_OBJECT
from tests.fuzz.support.writing import MULTIPART, URLENCODED
from tests.unit.hub.starts import begin
from tests.unit.islands import faults

_RESERVED = frozenset({"next", "display_name"})
"""Arguments of a link that JupyterHub 6 keeps to itself; JupyterHub 5 only the first."""


class TurnedAwayError(Exception):
    """The request reaches no spawner: tornado or JupyterHub rejects it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of one request.

    :param names: names of the fields.
    :param fields: name → texts of a form or link; None of other requests.
    :param options: the user options of a server that starts.
    :param pod: the pod that would be created, None after a refusal.
    :param page: the form as it is shown next, empty where none is.
    :param is_sent_back: that form is the one that was sent, with what is wrong with it.
    """

    names: frozenset[str] = frozenset()
    fields: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    refused: RefusedStart | None = None
    pod: dict[str, Any] | None = None
    page: str = ""
    is_sent_back: bool = False


Door = Callable[[GPUSpawner, bytes], Awaitable[Answer]]


async def form(spawner: GPUSpawner, body: bytes) -> Answer:
    """Take the body of a form that a browser encodes by default."""
    return await _posted(spawner, body, URLENCODED)


async def upload(spawner: GPUSpawner, body: bytes) -> Answer:
    """Take the body of a form that may hold files; JupyterHub's own form is sent so."""
    return await _posted(spawner, body, MULTIPART)


async def link(spawner: GPUSpawner, query: bytes) -> Answer:
    """Take the query of an address that starts a server."""
    try:
        arguments = _request(f"/hub/spawn?{query.decode('latin1')}").query_arguments
        sent: Any = {name: [each.decode() for each in values] for name, values in arguments.items()}
        sent = {name: values for name, values in sent.items() if name not in _RESERVED}
        if hasattr(SpawnHandler, "_get_user_options"):
            sent = SpawnHandler._get_user_options(SimpleNamespace(log=app_log), sent)
    except (HTTPInputError, UnicodeDecodeError, HTTPError) as error:
        raise TurnedAwayError from error
    if not sent:
        raise TurnedAwayError
    # JupyterHub 5 leaves the prefix in place.
    names = frozenset(name.removeprefix("opt-") for name in sent)
    return await _chosen(spawner, sent, read=spawner.options_from_query, names=names)


async def api(spawner: GPUSpawner, body: bytes) -> Answer:
    """Take the body of a request to the REST API; afterwards the person opens the form."""
    options = _options(body)
    if not isinstance(options, dict):
        return await _straight(spawner, options)
    stored = _stored(options)
    names = frozenset(options)
    try:
        answer = Answer(names=names, options=options, pod=await _pod(spawner, options))
    except RefusedStart as refused:
        answer = Answer(names=names, refused=refused)
    # JupyterHub stores options before they are checked, and its REST API can change what is stored without a start.
    spawner.user_options = stored
    page = await spawner.get_options_form()
    return replace(answer, page=page)


async def header(spawner: GPUSpawner, text: bytes) -> Answer:
    """Take what the script of an open form sends when it asks for a newer one."""
    request = SimpleNamespace(headers=HTTPHeaders({CHOICE_HEADER: text.decode("latin1")}), method="GET")
    spawner.user_options = {}
    spawner.handler = SimpleNamespace(request=request)
    page = await spawner.get_options_form()
    spawner.handler = None
    return Answer(page=page)


class _Handler:
    """The parts of tornado's handler of a refresh that a spawner reads and sets."""

    current_user = None

    def __init__(self, headers: dict[str, str]) -> None:
        self.request = SimpleNamespace(
            headers=HTTPHeaders(headers), method="GET", query_arguments={}, request_time=lambda: 0.001
        )

    def set_status(self, _: int) -> None: ...

    def set_header(self, _: str, value: str) -> None:
        value.encode("latin1")


async def refresh(spawner: GPUSpawner, text: bytes) -> Answer:
    """Take the same, and the same as the tag of what the form has; the answer is data, as the schema says."""
    sent = text.decode("latin1")
    spawner.user_options = {}
    spawner.handler = handler = _Handler({CHOICE_HEADER: sent, "Accept": "application/json", "If-None-Match": sent})
    try:
        await spawner.get_options_form()
        body = ""
    except Finish as answer:
        (body,) = answer.args
    spawner.handler = None
    del handler
    found = faults(json.loads(body))
    assert found == [], found
    return Answer(page="")


def _request(uri: str, *, body: bytes = b"", content_type: str = "") -> HTTPServerRequest:
    line = RequestStartLine("POST" if body else "GET", uri, "HTTP/1.1")
    headers = HTTPHeaders({"Host": "hub.example"})
    if content_type:
        headers["Content-Type"] = content_type
    return HTTPServerRequest(start_line=line, headers=headers, body=body)


async def _posted(spawner: GPUSpawner, body: bytes, content_type: str) -> Answer:
    request = _request("/hub/spawn", body=body, content_type=content_type)
    try:
        request._parse_body()
        # Bytes that are no UTF-8 are an error of JupyterHub's own (500), with every spawner.
        arguments = request.body_arguments.items()
        sent: dict[str, Any] = {name: [each.decode() for each in values] for name, values in arguments}
    except (HTTPInputError, UnicodeDecodeError) as error:
        raise TurnedAwayError from error
    sent |= {f"{name}_file": files for name, files in request.files.items()}
    return await _chosen(spawner, sent, read=spawner.run_options_from_form, names=frozenset(sent))


async def _chosen(
    spawner: GPUSpawner, sent: Mapping[str, Any], *, read: Callable[[Any], Any], names: frozenset[str]
) -> Answer:
    spawner.user_options = {}
    try:
        options = await maybe_future(read(sent))
    except RefusedStart as refused:
        page = await spawner.get_options_form()
        return Answer(names=names, refused=refused, page=page, is_sent_back=True)
    fields = {name.removeprefix("opt-"): texts for name, texts in sent.items()}
    return Answer(names=names, fields=fields, options=options, pod=await _pod(spawner, options))


async def _pod(spawner: GPUSpawner, options: dict[str, Any]) -> dict[str, Any]:
    await begin(spawner, options)
    manifest = await spawner.get_pod_manifest()
    await spawner._run_preflight(manifest)
    pod: dict[str, Any] = spawner.api.api_client.sanitize_for_serialization(manifest)
    return pod


async def _straight(spawner: GPUSpawner, options: object) -> Answer:
    """Pass options that are no object, which no JupyterHub API lets through: whatever comes, the gate has to hold."""
    if not spawner.has_fields or spawner.profile_list:
        raise TurnedAwayError  # KubeSpawner reads them
    try:
        await spawner._admit_start(options, await spawner.make_offer())
    except RefusedStart as refused:
        return Answer(names=frozenset({NOT_AN_OBJECT}), refused=refused)
    raise AssertionError(options)


def _options(body: bytes) -> object:
    """Return the options in the body of a request as JupyterHub's own handler does, where they are an object."""
    handler = UserServerAPIHandler.__new__(UserServerAPIHandler)
    handler.request, handler.application = SimpleNamespace(body=body), SimpleNamespace(settings={})
    try:
        options = handler.get_json_body()
        if not options:
            return {}
        if isinstance(options, dict) and hasattr(handler, "get_server_json_body"):
            options = handler.get_server_json_body()["user_options"] or {}
    except HTTPError as error:
        raise TurnedAwayError from error
    return options


def _stored(options: dict[str, Any]) -> dict[str, Any]:
    """Return options as they come back from JupyterHub's database."""
    column: Any = JSONDict()
    try:
        stored = column.process_result_value(column.process_bind_param(options, None), None)
    except RecursionError as error:
        raise TurnedAwayError from error
    return stored if isinstance(stored, dict) else {}
