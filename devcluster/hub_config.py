"""The configuration of a local JupyterHub, as plain values: no file is read or written here.

JupyterHub reads it as a JSON file, so nothing a caller passes in is ever executed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOME = "/home/jovyan"
HOME_VOLUME = "home"
# A user of its own in the notebook pod; 100 is the group of the public Jupyter images.
NOTEBOOK_UID = 1000
NOTEBOOK_GID = 100
# The rights of a tool (a test, the demo's clean-up) in the REST API.
SERVICE = "devcluster"
SERVICE_SCOPES = ("admin:users", "admin:servers", "access:servers", "read:hub")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """The settings of a hub that its caller decides.

    :param namespace: where its ServiceAccount, its pods and its volume claims live.
    :param gpuspawner: the section ``GPUSpawner``, as in an admin's Helm values.
    :param extra: further sections (``{"KubeSpawner": {"uid": 0}}``), merged over everything else.
    :param python: interpreter that runs the hub and, from the same environment, the notebook servers.
    :param port: of the address users open; 0 = any free one.
    :param password: everyone's but the admins', at least eight characters; empty = any password is right.
    :param admin_password: the admins', at least 32 characters; empty beside a password = no admin can log in.
    """

    namespace: str
    gpuspawner: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    spawner_class: str = "gpuspawner.GPUSpawner"
    python: Path = Path(sys.executable)
    port: int = 0
    password: str = ""
    admin_password: str = ""
    admin_users: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Addresses and secrets that belong to one run of a hub.

    :param hub_host: address the hub listens on; pods must be able to reach it.
    """

    hub_host: str
    hub_port: int
    public_port: int
    proxy_api_port: int
    api_token: str
    run_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """The program of a notebook pod.

    :param volumes: Kubernetes volumes as plain dicts; ``mounts`` likewise.
    """

    image: str
    pull_policy: str = "Never"
    volumes: Sequence[Mapping[str, Any]] = ()
    mounts: Sequence[Mapping[str, Any]] = ()
    cmd: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def hub_config(settings: HubSettings, wiring: Wiring, *, notebook: Notebook) -> dict[str, dict[str, Any]]:
    """Return the whole configuration, section by section, ready to be written as JSON."""
    sections: dict[str, dict[str, Any]] = {
        "JupyterHub": _hub(settings, wiring),
        "ConfigurableHTTPProxy": {
            "should_start": False,
            "api_url": f"http://127.0.0.1:{wiring.proxy_api_port}",
        },
        "Authenticator": {"allow_all": True, "admin_users": list(settings.admin_users)},
        "SharedPasswordAuthenticator": _passwords(settings),
        "Spawner": {"default_url": "/lab", "notebook_dir": HOME, "start_timeout": 120, "http_timeout": 90},
        "KubeSpawner": _kubespawner(settings, notebook),
        "GPUSpawner": dict(settings.gpuspawner),
    }
    for name, section in settings.extra.items():
        sections[name] = {**sections.get(name, {}), **section}
    return sections


def _passwords(settings: HubSettings) -> dict[str, str]:
    given = {"user_password": settings.password, "admin_password": settings.admin_password}
    return {name: value for name, value in given.items() if value and settings.password}


def _hub(settings: HubSettings, wiring: Wiring) -> dict[str, Any]:
    hub_url = f"http://{wiring.hub_host}:{wiring.hub_port}"
    return {
        "spawner_class": settings.spawner_class,
        "authenticator_class": "shared-password" if settings.password else "dummy",
        "bind_url": f"http://127.0.0.1:{wiring.public_port}",
        "hub_bind_url": hub_url,
        "hub_connect_url": hub_url,
        "db_url": f"sqlite:///{wiring.run_dir}/jupyterhub.sqlite",
        "cookie_secret_file": f"{wiring.run_dir}/cookie_secret",
        "pid_file": "",
        # As under zero-to-jupyterhub: servers outlive the hub.
        "cleanup_servers": False,
        # Seconds that the answer to a request for a server waits for it. With 0 the hub says "accepted" before it has
        # looked at the options; one is enough to refuse wrong ones in the answer itself.
        "tornado_settings": {"slow_spawn_timeout": 1},
        "allow_named_servers": True,
        "concurrent_spawn_limit": 64,
        "services": [{"name": SERVICE, "api_token": wiring.api_token}],
        "load_roles": [{"name": SERVICE, "scopes": list(SERVICE_SCOPES), "services": [SERVICE]}],
    }


def _kubespawner(settings: HubSettings, notebook: Notebook) -> dict[str, Any]:
    home = {"name": HOME_VOLUME, "emptyDir": {"sizeLimit": "1Gi"}}
    return {
        "namespace": settings.namespace,
        "image": notebook.image,
        "image_pull_policy": notebook.pull_policy,
        "cmd": list(notebook.cmd) or None,
        "working_dir": HOME,
        "uid": NOTEBOOK_UID,
        "gid": NOTEBOOK_GID,
        "fs_gid": NOTEBOOK_GID,
        "environment": {"HOME": HOME, "SHELL": "/usr/bin/bash", **notebook.environment},
        "volumes": [*notebook.volumes, home],
        "volume_mounts": [*notebook.mounts, {"name": HOME_VOLUME, "mountPath": HOME}],
        "storage_pvc_ensure": False,
        # Pods get no token: a notebook has no business with the API server.
        "enable_user_namespaces": False,
    }
