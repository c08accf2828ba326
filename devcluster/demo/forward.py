"""Makes a port of a pod a port of this machine, through the API server, as ``kubectl port-forward`` does."""

from __future__ import annotations

import contextlib
import socket
import threading

from kubernetes.client import ApiClient, Configuration, CoreV1Api
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward

_CHUNK = 65536


class Forward:
    """A listening port on 127.0.0.1 whose connections end in a pod.

    :param configuration: of the API server's client.
    :param pod: namespace and name.
    """

    def __init__(self, configuration: Configuration, pod: tuple[str, str], *, pod_port: int, port: int) -> None:
        self._configuration = configuration
        self._namespace, self._name = pod
        self._pod_port = pod_port
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Listen no longer; connections that exist go on until one side ends them."""
        # shutdown() wakes the thread that waits in accept(); close() alone would not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            # The call replaces a method of its ApiClient: each connection gets one of its own.
            core = CoreV1Api(ApiClient(self._configuration))
            forwarded = portforward(
                core.connect_get_namespaced_pod_portforward, self._name, self._namespace, ports=str(self._pod_port)
            )
        except (ApiException, OSError):
            # The pod or the API server is gone; a browser says that better than a connection that hangs.
            connection.close()
            return
        remote = forwarded.socket(self._pod_port)
        back = threading.Thread(target=_pump, args=(remote, connection), daemon=True)
        back.start()
        _pump(connection, remote)
        back.join()
        connection.close()
        remote.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until one side ends, then tell the other."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
