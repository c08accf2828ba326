"""etcd and Kubernetes' control plane."""

from __future__ import annotations

import json

from devcluster import kubeconfig
from devcluster.components import Component, Plan, flags
from devcluster.run_dir import write

_ACCOUNTS = ["system:serviceaccounts"]
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # The requests of hubs, without the answers. The cluster's own programs come with certificates.
        {"level": "Request", "userGroups": _ACCOUNTS, "resources": [{"group": "authorization.k8s.io"}]},
        {"level": "Metadata", "userGroups": _ACCOUNTS},
        {"level": "None"},
    ],
}
_AUDIT_LOG_MIB = 64


def components(plan: Plan) -> tuple[Component, ...]:
    """Write the control plane's kubeconfig files and return its programs in the order to start them."""
    return (_etcd(plan), _api_server(plan), _scheduler(plan), _controller_manager(plan))


def _etcd(plan: Plan) -> Component:
    pki = plan.run_dir.pki
    client = f"https://{plan.addresses.loopback}:{plan.addresses.etcd_port}"
    peer = f"https://{plan.addresses.loopback}:{plan.addresses.etcd_peer_port}"
    options = flags(
        data_dir=plan.run_dir.path / "etcd",
        listen_client_urls=client,
        advertise_client_urls=client,
        listen_peer_urls=peer,
        initial_advertise_peer_urls=peer,
        initial_cluster=f"default={peer}",
        trusted_ca_file=pki / "ca.crt",
        cert_file=pki / "etcd.crt",
        key_file=pki / "etcd.key",
        client_cert_auth="true",
        peer_trusted_ca_file=pki / "ca.crt",
        peer_cert_file=pki / "etcd.crt",
        peer_key_file=pki / "etcd.key",
        peer_client_cert_auth="true",
        # The cluster does not outlive the machine, so a power cut need not be survived.
        unsafe_no_fsync="true",
        log_level="warn",
    )
    return Component(name="etcd", argv=(str(plan.binaries / "etcd"), *options))


def _api_server(plan: Plan) -> Component:
    pki = plan.run_dir.pki
    options = flags(
        etcd_servers=f"https://{plan.addresses.loopback}:{plan.addresses.etcd_port}",
        etcd_cafile=pki / "ca.crt",
        etcd_certfile=pki / "apiserver.crt",
        etcd_keyfile=pki / "apiserver.key",
        bind_address=plan.addresses.gateway,
        advertise_address=plan.addresses.gateway,
        secure_port=plan.addresses.api_port,
        tls_cert_file=pki / "apiserver.crt",
        tls_private_key_file=pki / "apiserver.key",
        client_ca_file=pki / "ca.crt",
        authorization_mode="Node,RBAC",
        enable_admission_plugins="NodeRestriction",
        service_account_issuer="https://kubernetes.default.svc",
        service_account_key_file=pki / "service-account.pub",
        service_account_signing_key_file=pki / "service-account.key",
        service_cluster_ip_range=plan.addresses.service_subnet,
        # This one API server alone writes the kubernetes Service's endpoints, and nothing reads them.
        endpoint_reconciler_type="none",
        kubelet_certificate_authority=pki / "ca.crt",
        kubelet_client_certificate=pki / "apiserver.crt",
        kubelet_client_key=pki / "apiserver.key",
        kubelet_preferred_address_types="InternalIP",
        allow_privileged="true",
        # The aggregation layer: other API servers run as pods. No kube-proxy leads a Service's address to them.
        enable_aggregator_routing="true",
        proxy_client_cert_file=pki / "front-proxy.crt",
        proxy_client_key_file=pki / "front-proxy.key",
        requestheader_client_ca_file=pki / "ca.crt",
        requestheader_allowed_names="front-proxy",
        requestheader_extra_headers_prefix="X-Remote-Extra-",
        requestheader_group_headers="X-Remote-Group",
        requestheader_username_headers="X-Remote-User",
        audit_policy_file=write(plan.run_dir.etc / "audit-policy.json", json.dumps(_AUDIT_POLICY)),
        audit_log_path=plan.run_dir.audit_log,
        audit_log_maxsize=_AUDIT_LOG_MIB,
        audit_log_maxbackup=1,
        profiling="false",
    )
    return Component(name="kube-apiserver", argv=(str(plan.binaries / "kube-apiserver"), *options))


def _scheduler(plan: Plan) -> Component:
    config = kubeconfig.for_certificate(plan.run_dir, plan.addresses, user="kube-scheduler")
    options = flags(
        kubeconfig=config,
        leader_elect="false",
        secure_port=0,
        kube_api_qps=500,
        kube_api_burst=1000,
        profiling="false",
    )
    return Component(name="kube-scheduler", argv=(str(plan.binaries / "kube-scheduler"), *options), needs_api=True)


def _controller_manager(plan: Plan) -> Component:
    config = kubeconfig.for_certificate(plan.run_dir, plan.addresses, user="kube-controller-manager")
    options = flags(
        kubeconfig=config,
        leader_elect="false",
        secure_port=0,
        root_ca_file=plan.run_dir.ca_file,
        service_account_private_key_file=plan.run_dir.pki / "service-account.key",
        # Pods get their addresses from the CNI plugin on the node, and there is no cloud.
        controllers="*,-node-ipam-controller,-node-route-controller,-cloud-node-lifecycle-controller,-service-lb-controller",
        kube_api_qps=500,
        kube_api_burst=1000,
        profiling="false",
    )
    binary = plan.binaries / "kube-controller-manager"
    return Component(name="kube-controller-manager", argv=(str(binary), *options), needs_api=True)
