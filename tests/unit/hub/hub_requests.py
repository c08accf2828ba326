"""JupyterHub's own way from a request to a start and its count, without its network: handlers, users and database."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

from jupyterhub import orm, roles
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

    def __init__(self, config: dict[str, Any], *, spawner_class: type[KubeSpawner] = GPUSpawner) -> None:
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
            "proxy": SimpleNamespace(delete_user=_delete_route),
            "slow_spawn_timeout": 30,
            "spawner_class": spawner_class,
            "statsd": SimpleNamespace(timing=lambda *_: None, incr=lambda _: None),  # JupyterHub 5
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


async def _delete_route(*_: object) -> None:
    pass
