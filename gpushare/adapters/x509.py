"""A certificate authority and the certificates that it issues, with the library cryptography. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpushare.errors import ConfigError

_SKEW: Final = timedelta(hours=1)
"""Clocks of the nodes may be this far behind."""


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


@dataclass(frozen=True, slots=True)
class PemKeyPair:
    """A certificate and its private key, both PEM."""

    cert: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class LeafRequest:
    """Name and use of a certificate; a server has its name as DNS name too."""

    name: str
    is_server: bool = False


def new_authority(name: str, now: datetime, life: timedelta) -> PemKeyPair:
    """A certificate authority that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        _builder(subject, subject, key, (now, now + life))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .add_extension(own, critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue(authority: PemKeyPair, request: LeafRequest, now: datetime, life: timedelta) -> PemKeyPair:
    """A certificate that is valid no longer than the authority. Raises ConfigError for invalid PEM."""
    issuer, signer = certificate_of(authority.cert), _signer(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + life, issuer.not_valid_after_utc)
    usages = [
        ExtendedKeyUsageOID.CLIENT_AUTH,
        *([ExtendedKeyUsageOID.SERVER_AUTH] if request.is_server else []),
    ]
    builder = (
        _builder(_subject(request.name), issuer.subject, key, (now, end))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if request.is_server:
        names = x509.SubjectAlternativeName([x509.DNSName(request.name)])
        builder = builder.add_extension(names, critical=False)
    return _pair(builder.sign(signer, hashes.SHA256()), key)


def certificate_of(pem: bytes) -> x509.Certificate:
    """The first certificate. Raises ConfigError if there is none."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise ConfigError(f"not a certificate: {error}") from error


def is_issued_by(certificate: x509.Certificate, authority: PemKeyPair) -> bool:
    """Whether the authority has signed the certificate."""
    try:
        certificate.verify_directly_issued_by(certificate_of(authority.cert))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def has_key(pair: PemKeyPair) -> bool:
    """Whether the private key belongs to the certificate. Raises ConfigError for an invalid certificate."""
    try:
        key = serialization.load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError):
        return False
    return key.public_key() == certificate_of(pair.cert).public_key()


def names_of(certificate: x509.Certificate) -> Sequence[str]:
    """The common names of the subject."""
    return [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]


def _signer(authority: PemKeyPair) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(authority.key, password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"not a private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError("not a private key of an elliptic curve")
    return key


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    valid: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    begin, end = valid
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - _SKEW)
        .not_valid_after(end)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> PemKeyPair:
    return PemKeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
