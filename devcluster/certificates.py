"""Keys and certificates of one cluster: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from devcluster.run_dir import Addresses, RunDir, write

_LIFETIME = datetime.timedelta(days=365)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


def _public_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _certificate_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, issuer: x509.Name) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A clock that is set back a little must not make the cluster refuse itself.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that writes key pairs into a folder."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls, folder: Path) -> Authority:
        """Create an authority; its certificate becomes ca.crt, and its key is never stored."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "devcluster")])
        certificate = (
            _builder(name, key, issuer=name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write(folder / "ca.crt", _certificate_pem(certificate))
        return cls(folder, key, certificate)

    def issue(self, name: str, user: str, *, group: str = "", addresses: tuple[str, ...] = ()) -> None:
        """Write NAME.crt and NAME.key for Kubernetes' `user` (and `group`), serving at these IP addresses.

        Every certificate is good for both directions: etcd and the API server show theirs to each other.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        if group:
            subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        builder = _builder(x509.Name(subject), key, issuer=self.certificate.subject).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
        )
        if addresses:
            names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        write(self.folder / f"{name}.crt", _certificate_pem(builder.sign(self.key, hashes.SHA256())))
        write(self.folder / f"{name}.key", _private_pem(key))


def create(run_dir: RunDir, addresses: Addresses, *, real_node: str) -> None:
    """Write every key and certificate of a cluster."""
    authority = Authority.create(run_dir.pki)
    serving = (addresses.gateway, addresses.loopback)
    authority.issue("etcd", "etcd", addresses=serving)
    authority.issue("apiserver", "kube-apiserver", group="system:masters", addresses=serving)
    authority.issue("admin", "admin", group="system:masters")
    authority.issue("kube-controller-manager", "system:kube-controller-manager", group="system:masters")
    authority.issue("kube-scheduler", "system:kube-scheduler")
    # Shown to API servers that are aggregated to this one, as Kueue's visibility API is.
    authority.issue("front-proxy", "front-proxy")
    authority.issue("kwok", "kwok", group="system:masters")
    authority.issue("kubelet", f"system:node:{real_node}", group="system:nodes", addresses=serving)
    tokens = ec.generate_private_key(ec.SECP256R1())
    write(run_dir.pki / "service-account.key", _private_pem(tokens))
    write(run_dir.pki / "service-account.pub", _public_pem(tokens))
