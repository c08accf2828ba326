"""The device plugin of the node that runs pods: `python -m devcluster.device_plugin DEVICES_FOLDER`.

One gRPC server per resource, in the kubelet's folder of plugins. A kubelet that (re)starts empties that folder and
creates its own socket anew; the plugin watches for that and serves and registers again, as vendors' plugins do. What
fails of the GPUs, or of the plugin itself, is for devcluster.gpu_faults to say.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from devcluster.device_api import MESSAGES, PACKAGE
from devcluster.gpu_faults import is_absent, is_unhealthy
from devcluster.gpus import KINDS, GPUKind
from devcluster.registration import PLUGINS, kubelet_identity, note

logger = logging.getLogger("devcluster.device_plugin")

_POLL_S = 0.1


class Plugin:
    """Serves one kind of GPU to the kubelet."""

    def __init__(self, kind: GPUKind, devices: Path) -> None:
        self.kind = kind
        self._devices = devices
        self._stopped = threading.Event()
        self._server: grpc.Server | None = None

    def serve(self) -> None:
        """Listen on the plugin's socket."""
        socket = PLUGINS / self.kind.socket
        socket.unlink(missing_ok=True)
        self._stopped = threading.Event()
        # The kubelet holds one thread with ListAndWatch for as long as it lives.
        self._server = grpc.server(ThreadPoolExecutor(max_workers=8))
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix://{socket}")
        self._server.start()

    def register(self) -> None:
        """Tell the kubelet about the socket; raises grpc.RpcError where it does not listen yet."""
        request = MESSAGES["RegisterRequest"](
            version=PACKAGE, endpoint=self.kind.socket, resource_name=self.kind.resource
        )
        with grpc.insecure_channel(f"unix://{PLUGINS / 'kubelet.sock'}") as channel:
            call = channel.unary_unary(
                f"/{PACKAGE}.Registration/Register",
                request_serializer=MESSAGES["RegisterRequest"].SerializeToString,
                response_deserializer=MESSAGES["Empty"].FromString,
            )
            call(request, timeout=5)

    def stop(self) -> None:
        """End the server and the kubelet's watch."""
        self._stopped.set()
        if self._server is not None:
            self._server.stop(grace=None).wait()

    def list_and_watch(self, _request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yield all devices, again when the health of one changes; the kubelet takes the end for the plugin's death."""
        stopped = self._stopped
        context.add_callback(stopped.set)
        told: dict[int, str] = {}
        while not stopped.is_set():
            health = {number: self._health(number) for number in self.kind.numbers}
            if health != told:
                told = health
                devices = [MESSAGES["Device"](ID=self.kind.device_id(n), health=health[n]) for n in health]
                yield MESSAGES["ListAndWatchResponse"](devices=devices)
            stopped.wait(_POLL_S)

    def _health(self, number: int) -> str:
        return "Unhealthy" if is_unhealthy(self._devices, self.kind, number=number) else "Healthy"

    def allocate(self, request: Any, _context: grpc.ServicerContext) -> Any:
        """Return the device files and the environment of each container."""
        responses = [self._container(sorted(container.devices_ids)) for container in request.container_requests]
        return MESSAGES["AllocateResponse"](container_responses=responses)

    def _container(self, ids: list[str]) -> Any:
        numbers = [number for number in self.kind.numbers if self.kind.device_id(number) in ids]
        specs = [
            MESSAGES["DeviceSpec"](
                container_path=self.kind.path.format(number),
                host_path=str(self.kind.device_file(self._devices, number)),
                permissions="rw",
            )
            for number in numbers
        ]
        response = MESSAGES["ContainerAllocateResponse"](devices=specs)
        if self.kind.environment:
            value = ",".join(self.kind.device_id(number) for number in numbers)
            response.envs.add(key=self.kind.environment, value=value)
        return response

    def _handlers(self) -> grpc.GenericRpcHandler:
        def unary(method: Any, request: str, response: str) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(
                method, MESSAGES[request].FromString, MESSAGES[response].SerializeToString
            )

        return grpc.method_handlers_generic_handler(
            f"{PACKAGE}.DevicePlugin",
            {
                "GetDevicePluginOptions": unary(
                    lambda _request, _context: MESSAGES["DevicePluginOptions"](), "Empty", "DevicePluginOptions"
                ),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self.list_and_watch,
                    MESSAGES["Empty"].FromString,
                    MESSAGES["ListAndWatchResponse"].SerializeToString,
                ),
                "Allocate": unary(self.allocate, "AllocateRequest", "AllocateResponse"),
            },
        )


def run(devices: Path) -> None:
    """Serve every kind of GPU, again after each restart of the kubelet, for ever."""
    plugins = [Plugin(kind, devices) for kind in KINDS]
    seen = ""
    while True:
        now = kubelet_identity()
        if is_absent(devices):
            for plugin in plugins:
                plugin.stop()
            seen = ""
        elif now not in ("", seen):
            try:
                _register_all(plugins)
                seen = now
                note(devices, now)
            except grpc.RpcError as error:
                logger.info("the kubelet does not answer yet: %s", error)
        time.sleep(_POLL_S)


def _register_all(plugins: list[Plugin]) -> None:
    for plugin in plugins:
        plugin.stop()
        plugin.serve()
        plugin.register()
        logger.info("registered %s × %s", plugin.kind.count, plugin.kind.resource)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    run(Path(sys.argv[1]))
