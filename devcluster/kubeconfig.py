"""Kubeconfig files."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from devcluster.run_dir import Addresses, RunDir, write


def _document(run_dir: RunDir, addresses: Addresses, *, user: str, credentials: dict[str, Any]) -> str:
    authority = base64.b64encode(run_dir.ca_file.read_bytes()).decode()
    context = f"devcluster-{run_dir.name}"
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": context, "cluster": {"server": addresses.server, "certificate-authority-data": authority}}
            ],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
            "current-context": context,
        },
        sort_keys=False,
    )


def for_certificate(run_dir: RunDir, addresses: Addresses, *, user: str) -> Path:
    """Write the kubeconfig of a component or the administrator from its key pair, and return its path."""
    encoded = {
        "client-certificate-data": base64.b64encode((run_dir.pki / f"{user}.crt").read_bytes()).decode(),
        "client-key-data": base64.b64encode((run_dir.pki / f"{user}.key").read_bytes()).decode(),
    }
    return write(run_dir.kubeconfigs / user, _document(run_dir, addresses, user=user, credentials=encoded))


def for_token(run_dir: RunDir, addresses: Addresses, *, user: str, token: str) -> Path:
    """Write the kubeconfig of a bearer token, and return its path."""
    path = run_dir.kubeconfigs / user
    return write(path, _document(run_dir, addresses, user=user, credentials={"token": token}))
