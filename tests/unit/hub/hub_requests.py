"""JupyterHub's own way from a request to a start and its count, without its network: handlers, users and database."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from types import SimpleNamespace
from typing import Any

from jupyterhub import orm, roles
from jupyterhub.apihandlers.users import UserAPIHandler, UserServerAPIHandler
from jupyterhub.app import JupyterHub
from jupyterhub.auth import DummyAuthenticator
from jupyterhub.handlers.base import BaseHandler
from jupyterhub.objects import Hub
from jupyterhub.user import User, UserDict
from kubespawner import KubeSpawner
from tornado import web
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from traitlets.config import Config

from gpuspawner.hub.spawner import GPUSpawner


class RealHub:
    """Users of JupyterHub, whose servers are started as its handlers start them.

    :ivar application: JupyterHub's, with the settings in which it counts failed starts.
    :ivar app: to be JupyterHub's one instance.
    """

    def __init__(
        self, config: dict[str, Any], *, spawner_class: type[KubeSpawner] = GPUSpawner, **settings: object
    ) -> None:
        db = orm.new_session_factory("sqlite:///:memory:")()
        for role in roles.get_default_roles():
            roles.create_role(db, role)
        db.add(orm.OAuthClient(identifier="jupyterhub"))
        db.commit()
        self.settings = {
            "authenticator": DummyAuthenticator(),
            "base_url": "/",
            "config": Config(config),
            "db": db,
            "eventlog": SimpleNamespace(emit=lambda **_: None),
            "hub": Hub(ip="127.0.0.1", port=8081),
            "log": logging.getLogger("real-hub"),
            "proxy": SimpleNamespace(add_user=_change_route, delete_user=_change_route),
            "slow_spawn_timeout": 30,
            "spawner_class": spawner_class,
            "statsd": SimpleNamespace(timing=lambda *_: None, incr=lambda _: None),  # JupyterHub 5
            "hub_version": "",
            **settings,
        }
        self._users = UserDict(lambda: db, self.settings)
        self.settings["users"] = self._users
        self.application = web.Application(**self.settings)
        self.app = JupyterHub()
        self.app.tornado_application = self.application

    @property
    def failures(self) -> int:
        """The counts of JupyterHub."""
        return int(self.application.settings.get("failure_count", 0))

    def add_user(self, name: str) -> User:
        db = self.settings["db"]
        orm_user = orm.User(name=name)
        db.add(orm_user)
        db.commit()
        roles.assign_default_roles(db, entity=orm_user)
        return self._users[orm_user.id]

    def list_active(self) -> list[KubeSpawner]:
        """Return the spawners of all servers that start, run or stop."""
        self.settings["db"].rollback()
        found = [spawner for user in self._users.values() for spawner in user.spawners.values()]
        return [spawner for spawner in found if spawner.active]

    def find_user(self, name: str) -> User:
        return self._users[name]

    def make_handler(self, headers: dict[str, str] | None = None, *, method: str = "POST") -> BaseHandler:
        """Return a handler as tornado makes it for a request."""
        connection = SimpleNamespace(set_close_callback=lambda _: None)
        request = HTTPServerRequest(
            start_line=RequestStartLine(method, "/hub/spawn", "HTTP/1.1"),
            headers=HTTPHeaders({"Host": "127.0.0.1"} | (headers or {})),
            connection=connection,
        )
        handler = BaseHandler(self.application, request)
        handler._jupyterhub_user = None
        return handler

    async def ask(self, method: str, user: str, server: str | None, body: object = None) -> int:
        """Do what JupyterHub does of a request for one of a user's servers, or for the user; return the status.

        The token that asks may do everything.
        """
        kind, names = (UserAPIHandler, (user,)) if server is None else (UserServerAPIHandler, (user, server))
        request = self.make_handler(method=method).request
        request.body = b"" if body is None else json.dumps(body).encode()
        handler = kind(self.application, request)
        handler._jupyterhub_user = SimpleNamespace(name="the token's", kind="service", admin=True)
        handler.parsed_scopes = {}
        answer = inspect.unwrap(getattr(kind, method.lower()))
        status: int
        try:
            await asyncio.create_task(answer(handler, *names))
            status = handler.get_status()
        except web.HTTPError as error:
            status = error.status_code
        except (Exception, asyncio.CancelledError):  # noqa: BLE001  # as tornado; the start may have been cancelled
            self.settings["log"].exception("%s %s/%s", method, user, server)
            self.settings["db"].rollback()
            status = 500
        if self.settings["db"].dirty:  # at the end of each request
            self.settings["db"].rollback()
        return status

    def open_form(self, user: User, headers: dict[str, str] | None = None) -> KubeSpawner:
        """Do what JupyterHub does of a request for the form before it asks for the form."""
        spawner = user.get_spawner("", replace_failed=True)
        spawner.handler = self.make_handler(headers, method="GET")
        return spawner

    async def start(
        self, user: User, options: object = None, *, headers: dict[str, str] | None = None, method: str = "POST"
    ) -> BaseException | None:
        """Start a user's server with options of the REST API; return what the start failed with."""
        user.get_spawner("", replace_failed=True)
        spawn = self.make_handler(headers, method=method).spawn_single_user(user, options=options)
        (failure,) = await asyncio.gather(spawn, return_exceptions=True)
        self.settings["db"].rollback()  # at the end of each request
        return failure

    def stored(self, user: User) -> object:
        """Return the options in the database."""
        self.settings["db"].expire_all()
        return user.orm_user.orm_spawners[""].user_options


async def _change_route(*_: object) -> None:
    pass


def bug(_: Any) -> None:
    """Fail as a mistake in a hook of the admin's does."""
    raise KeyError("a group of hers")
