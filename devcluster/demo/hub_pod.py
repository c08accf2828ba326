"""Hub and proxy as one pod, for clusters whose pods cannot reach this machine. Plain values: nothing is sent anywhere.

The hub image is zero-to-jupyterhub's own; gpuspawner comes into it out of the checkout, as an archive in a ConfigMap.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent.parent
POD = "hub"
CONFIG = "hub-config"
CODE = "gpuspawner"
PROXY_PORT = 8000
HUB_PORT = 8081
PROXY_API_PORT = 8001
STATE_DIR = Path("/run/gpuspawner")

# Folders that the wheel puts into the package, and their places in the checkout (pyproject.toml, tool.hatch.build).
_PARTS = {"gpuspawner": "gpuspawner", "templates": "gpuspawner/templates", "helm-values": "gpuspawner/helm-values"}

_RUN_HUB = (
    f"python3 -m zipfile -e /etc/gpuspawner/code/{CODE}.zip {STATE_DIR}/code && "
    f"exec env PYTHONPATH={STATE_DIR}/code python3 -m jupyterhub "
    "--config=/etc/gpuspawner/config/jupyterhub_config.json "
    f'"--JupyterHub.hub_connect_url=http://$POD_IP:{HUB_PORT}"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubPod:
    """The builder of one hub's objects.

    :param config: the hub's configuration, section by section.
    :param proxy_token: secret that hub and proxy share.
    """

    namespace: str
    service_account: str
    hub_image: str
    proxy_image: str
    config: Mapping[str, Any]
    proxy_token: str

    def secret(self) -> dict[str, Any]:
        """Return the Secret with the configuration, which holds a token."""
        content = {"jupyterhub_config.json": json.dumps(self.config), "proxy-token": self.proxy_token}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": CONFIG}, "stringData": content}

    def code(self) -> dict[str, Any]:
        """Return the ConfigMap with the package."""
        archive = {f"{CODE}.zip": base64.b64encode(package_archive()).decode()}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CODE}, "binaryData": archive}

    def pod(self) -> dict[str, Any]:
        """Return the pod."""
        volumes = [
            {"name": "config", "secret": {"secretName": CONFIG}},
            {"name": "code", "configMap": {"name": CODE}},
            {"name": "state", "emptyDir": {}},
        ]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": POD, "labels": {"app": "gpuspawner-demo", "component": "hub"}},
            "spec": {
                "serviceAccountName": self.service_account,
                "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
                "terminationGracePeriodSeconds": 5,
                "volumes": volumes,
                "containers": [self._hub(), self._proxy()],
            },
        }

    def _hub(self) -> dict[str, Any]:
        mounts = [
            {"name": "config", "mountPath": "/etc/gpuspawner/config", "readOnly": True},
            {"name": "code", "mountPath": "/etc/gpuspawner/code", "readOnly": True},
            {"name": "state", "mountPath": str(STATE_DIR)},
        ]
        pod_ip = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        return {
            "name": "hub",
            "image": self.hub_image,
            "command": ["sh", "-c", _RUN_HUB],
            "workingDir": str(STATE_DIR),
            "env": [pod_ip, self._token()],
            "volumeMounts": mounts,
            "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
            "readinessProbe": {"httpGet": {"path": "/hub/health", "port": HUB_PORT}, "periodSeconds": 2},
        }

    def _proxy(self) -> dict[str, Any]:
        # On the pod's own loopback: users come through the API server, and no other way should work.
        options = [f"--ip=127.0.0.1 --port={PROXY_PORT} --api-ip=127.0.0.1 --api-port={PROXY_API_PORT}"]
        return {
            "name": "proxy",
            "image": self.proxy_image,
            "command": ["configurable-http-proxy", *options[0].split()],
            "env": [self._token()],
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
        }

    def _token(self) -> dict[str, Any]:
        reference = {"secretKeyRef": {"name": CONFIG, "key": "proxy-token"}}
        return {"name": "CONFIGPROXY_AUTH_TOKEN", "valueFrom": reference}


def package_archive() -> bytes:
    """Return the package as a zip file, laid out as in its wheel."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder, place in _PARTS.items():
            for path in _files(CHECKOUT / folder):
                archive.write(path, Path(place) / path.relative_to(CHECKOUT / folder))
    return buffer.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
