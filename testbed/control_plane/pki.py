"""Certificate authorities, certificates and kubeconfigs.

What belongs here: creating keys, certificates and kubeconfig texts. What does not: which component uses
which of them (``testbed.control_plane.commands``).
"""

import datetime as dt
import ipaddress
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpushare.errors import ConfigError

_VALID = dt.timedelta(days=365)
_SKEW = dt.timedelta(hours=1)
_MAX_NAME = 64
_SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True)
class PkiPair:
    """A certificate and its private key, both PEM."""

    cert: bytes
    key: bytes

    def write(self, folder: Path, stem: str) -> None:
        """Write ``<stem>.crt`` and ``<stem>.key``; the key is readable by the owner only."""
        (folder / f"{stem}.crt").write_bytes(self.cert)
        write_private(folder / f"{stem}.key", self.key)


class Authority:
    """A certificate authority."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, cert: x509.Certificate) -> None:
        self._key = key
        self._cert = cert

    @classmethod
    def create(cls, name: str, *, end: dt.datetime | None = None) -> "Authority":
        """Create an authority with the common name ``name``, valid for a year or until ``end``."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name, ())
        builder = _builder(subject, subject, key, end).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        return cls(key, builder.sign(key, hashes.SHA256()))

    def pair(self) -> PkiPair:
        """Return the certificate and key of the authority."""
        return PkiPair(self._cert.public_bytes(serialization.Encoding.PEM), _pem(self._key))

    def client(self, user: str, groups: Sequence[str] = ()) -> PkiPair:
        """Return a client certificate of ``user`` in ``groups``.

        Raises ConfigError for names that are too long for a certificate (64 characters).
        """
        return self._issue(_subject(user, groups), [ExtendedKeyUsageOID.CLIENT_AUTH], ())

    def server(self, name: str, hosts: Sequence[str]) -> PkiPair:
        """Return a server certificate for ``hosts`` (DNS names and IP addresses)."""
        return self._issue(_subject(name, ()), [ExtendedKeyUsageOID.SERVER_AUTH], hosts)

    def peer(self, name: str, hosts: Sequence[str]) -> PkiPair:
        """Return a certificate for servers on ``hosts`` that are also clients of each other."""
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(_subject(name, ()), usages, hosts)

    def _issue(
        self, subject: x509.Name, usages: Sequence[x509.ObjectIdentifier], hosts: Sequence[str]
    ) -> PkiPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._cert.subject, key).add_extension(
            x509.ExtendedKeyUsage(usages), critical=False
        )
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        cert = builder.sign(self._key, hashes.SHA256())
        return PkiPair(cert.public_bytes(serialization.Encoding.PEM), _pem(key))


def signing_key() -> PkiPair:
    """Return a key for service-account tokens: public and private part, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return PkiPair(public, _pem(key))


def groups_of(user: str) -> tuple[str, ...]:
    """Return the groups of a service account; none for other users."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return ()
    namespace = user.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def kubeconfig(server: str, ca_file: Path, cert_file: Path, key_file: Path) -> str:
    """Return a kubeconfig that names the certificate files by absolute path."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "testbed", "cluster": {"server": server, "certificate-authority": str(ca_file)}}
        ],
        "users": [
            {"name": "user", "user": {"client-certificate": str(cert_file), "client-key": str(key_file)}}
        ],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
        "current-context": "testbed",
    }
    return json.dumps(document, indent=1)


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600 from its creation."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def _subject(name: str, groups: Sequence[str]) -> x509.Name:
    for part in (name, *groups):
        if not 0 < len(part) <= _MAX_NAME:
            raise ConfigError(
                f"user or group {part!r} has {len(part)} characters, but a certificate allows 1 to "
                f"{_MAX_NAME}: choose another name"
            )
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    end: dt.datetime | None = None,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(end or now + _VALID)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
