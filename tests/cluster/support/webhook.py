"""Admission webhooks of a cluster's admin: an HTTPS server that the API server asks about each new pod."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.certificates import Authority
from devcluster.ports import free_ports
from tests.cluster.support.waiting import wait_for

Review = Callable[[dict[str, Any]], dict[str, Any] | None]
"""From a pod to the answer on it, without its uid; None for an HTTP status of 500."""

KUEUE_GATE = "kueue.x-k8s.io/admission"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_TOO_LONG_S = 12.0
"""Longer than an API server waits, which is ten seconds unless a webhook's settings say otherwise."""
_ASKED_ABOUT = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]


def refuse(_pod: dict[str, Any]) -> dict[str, Any]:
    """Answer as a webhook does that enforces a rule."""
    return {"allowed": False, "status": {"code": 403, "message": "Servers need a cost centre."}}


def break_down(_pod: dict[str, Any]) -> None:
    """Answer as a webhook does that is broken."""


def hang(_pod: dict[str, Any]) -> None:
    """Answer later than the API server waits for it."""
    time.sleep(_TOO_LONG_S)


def gate(_pod: dict[str, Any]) -> dict[str, Any]:
    """Answer as Kueue's webhook does: the pod is let in, and may not be scheduled before its turn."""
    patch = [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": KUEUE_GATE}]}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def gate_queued(pod: dict[str, Any]) -> dict[str, Any]:
    """Answer as Kueue's webhook does, which leaves pods alone that name no queue."""
    return gate(pod) if KUEUE_QUEUE in pod["metadata"].get("labels", {}) else {"allowed": True}


@contextmanager
def asked(cluster: Cluster, api: ApiClient, folder: Path, *, namespace: str, review: Review) -> Iterator[None]:
    """Have the API server ask about each new pod of a namespace inside the block.

    :param folder: for keys and certificates.
    """
    authority = Authority.create(folder)
    authority.issue("webhook", "webhook", addresses=(cluster.gateway,))
    (port,) = free_ports([cluster.gateway])
    server = ThreadingHTTPServer((cluster.gateway, port), _handler(review))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "webhook.crt", folder / "webhook.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = f"test.{namespace}.example.org"
    ca_bundle = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    hook = {
        "name": name,
        "clientConfig": {"url": f"https://{cluster.gateway}:{port}/", "caBundle": ca_bundle},
        "rules": _ASKED_ABOUT,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    admission = client.AdmissionregistrationV1Api(api)
    admission.create_mutating_webhook_configuration({"metadata": {"name": name}, "webhooks": [hook]})
    try:
        wait_for(lambda: _is_asked(api, namespace), "the API server asking its webhook")
        yield
    finally:
        admission.delete_mutating_webhook_configuration(name)
        # Until the API server has noticed, it would take no pods without an answer.
        wait_for(lambda: not _is_asked(api, namespace), "the API server no longer calling the webhook")
        server.shutdown()
        server.server_close()


def _is_asked(api: ApiClient, namespace: str) -> bool:
    """Tell whether a new pod would meet the webhook: it refuses it, or changes it."""
    probe = {
        "metadata": {"name": "probe", "labels": {KUEUE_QUEUE: "any"}},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    try:
        made = client.CoreV1Api(api).create_namespaced_pod(namespace, probe, dry_run="All")
    except client.ApiException:
        return True
    return bool(made.spec.scheduling_gates)


def _handler(review: Review) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = asked["request"]
            verdict = review(request["object"])
            response = {"uid": request["uid"], **(verdict or {})}
            body = json.dumps({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response}).encode()
            with contextlib.suppress(OSError):  # the API server waits no longer
                self.send_response(500 if verdict is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: only the API server's reaction matters."""

    return Handler
