"""A way to the API server whose answers a test can hold back."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import yaml

CHUNK = 65536


class Relay:
    """Passes connections on to an API server.

    It listens on the API server's own address, so that the server's certificate stays right.

    :ivar accepted: how many connections it has accepted.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._may_answer = threading.Event()
        self._may_answer.set()
        self.accepted = 0
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hold_answers(self) -> None:
        """Pass requests on, and hold all answers back until :meth:`release_answers`."""
        self._may_answer.clear()

    def release_answers(self) -> None:
        self._may_answer.set()

    def end(self) -> None:
        """Cut every connection and refuse new ones."""
        self.release_answers()
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            target = socket.create_connection(self._target)
            self._connections += [connection, target]
            for pair in ((connection, target, None), (target, connection, self._may_answer)):
                threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, may_pass: threading.Event | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            if may_pass is not None:
                may_pass.wait()
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def changed(kubeconfig: Path, path: Path, *, server: str = "", token: str = "") -> Path:
    """Write a copy of a kubeconfig that leads to another server or holds another token."""
    config = yaml.safe_load(kubeconfig.read_text())
    if server:
        config["clusters"][0]["cluster"]["server"] = server
    if token:
        config["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    return path
