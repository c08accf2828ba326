"""A registry of container images that the node pulls from: on this machine, over plain HTTP, with the test in charge.

containerd takes a registry on a loopback address for one without TLS. The registry serves the notebook
image (devcluster.images), under as many names as there are ways to pull it or not to.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from devcluster import images, prerequisites
from devcluster.ports import free_ports

_LOOPBACK = "127.0.0.1"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_OWN_BYTES = 1_000_000
_LONGEST_S = 120


class _Image:
    """The registry's data of one image."""

    def __init__(self, name: str, config: bytes, layer: bytes) -> None:
        self.own_layer = _layer(name)
        described = json.loads(config)
        described["rootfs"]["diff_ids"].append(_digest(self.own_layer))
        described["history"].append({"created_by": name})
        config = json.dumps(described).encode()
        self.blobs = {_digest(blob): blob for blob in (config, layer, self.own_layer)}
        layers = [_described(_LAYER, layer), _described(_LAYER, self.own_layer)]
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": _described(_CONFIG, config), "layers": layers}
        self.manifest = json.dumps(manifest).encode()


class Registry:
    """Serves the notebook image under any name but those that it refuses, each with a layer of its own."""

    def __init__(self, archive: Path) -> None:
        self._released = threading.Event()
        self._released.set()
        (self._port,) = free_ports([_LOOPBACK])
        self._base = _content(archive)
        self._server = ThreadingHTTPServer((_LOOPBACK, self._port), self._handler())
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        """Return what the reference of each image here begins with."""
        return f"{_LOOPBACK}:{self._port}"

    def image(self, name: str) -> str:
        """Return the reference of an image; one called ``missing`` is not there, one called ``private`` is locked."""
        return f"{self.address}/{name}:1"

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body for a path of the registry's API."""
        name, _, rest = path.removeprefix("/v2/").partition("/")
        if name == "private":
            return (
                401,
                {"WWW-Authenticate": 'Basic realm="registry"'},
                _error("UNAUTHORIZED", "authentication required"),
            )
        if name == "missing":
            return 404, {}, _error("MANIFEST_UNKNOWN", "manifest unknown")
        image = _Image(name, *self._base)
        if rest.startswith("manifests/"):
            headers = {"Content-Type": _MANIFEST, "Docker-Content-Digest": _digest(image.manifest)}
            return 200, headers, image.manifest
        digest = rest.removeprefix("blobs/")
        if digest == _digest(image.own_layer):
            self._released.wait(_LONGEST_S)
        if digest in image.blobs:
            return 200, {"Content-Type": "application/octet-stream"}, image.blobs[digest]
        return (200, {}, b"{}") if path == "/v2/" else (404, {}, _error("UNSUPPORTED", "no such path"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have pulls last as long as the block."""
        self._released.clear()
        try:
            yield
        finally:
            self._released.set()

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            # containerd tries TLS first, and takes no for an answer only where it comes as HTTP.
            protocol_version = default_request_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, headers, body = registry.answer(self.path.partition("?")[0])
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Say nothing: only the kubelet's reaction matters."""

        return Handler


@contextmanager
def serving() -> Iterator[Registry]:
    """Have a registry inside the block."""
    registry = Registry(images.archives(prerequisites.check().busybox)[1])
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()


def _content(archive: Path) -> tuple[bytes, bytes]:
    """Return the configuration and the layer of an image archive."""
    with tarfile.open(archive) as opened:

        def read(name: str) -> bytes:
            member = opened.extractfile(name)
            assert member is not None, name
            return member.read()

        (image,) = json.loads(read("manifest.json"))
        return read(image["Config"]), read(image["Layers"][0])


def _layer(name: str) -> bytes:
    """Return a layer that no other image has: a file of a megabyte."""
    buffer = io.BytesIO()
    with tarfile.TarFile(fileobj=buffer, mode="w") as layer:
        member = tarfile.TarInfo(f"opt/{name}")
        member.size = _OWN_BYTES
        layer.addfile(member, io.BytesIO(bytes(_OWN_BYTES)))
    return buffer.getvalue()


def _described(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _error(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()
