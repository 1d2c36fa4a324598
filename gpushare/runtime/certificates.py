"""What a certificate says: its names and when it expires."""

import binascii
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from gpushare.errors import ConfigError

_PEM: Final = re.compile(r"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----(.*?)-----END \1-----", re.DOTALL)
"""The labels that OpenSSL accepts. After a trusted certificate are its uses."""
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_LONG_LENGTH: Final = 0x80
_BEFORE_VALIDITY: Final = 3
"""Serial number, algorithm and issuer (RFC 5280, section 4.1)."""


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The verified certificate of a client. ``expires_at`` is in seconds of Unix time."""

    common_name: str
    dns_names: tuple[str, ...]
    expires_at: float

    @classmethod
    def of(cls, certificate: Mapping[str, Any] | None) -> Self | None:
        """From ``getpeercert`` of ``ssl``; None without a certificate."""
        if not certificate:
            return None
        subject = [pair for part in certificate.get("subject", ()) for pair in part]
        return cls(
            next((value for name, value in subject if name == "commonName"), ""),
            tuple(value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"),
            float(ssl.cert_time_to_seconds(certificate["notAfter"])),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Common name and DNS names."""
        return (self.common_name, *self.dns_names) if self.common_name else self.dns_names


def expiry_of(pem: str) -> float:
    """When the first certificate expires, in seconds of Unix time. Raises ConfigError if there is none.

    ``ssl`` tells this only of certificates that a peer has sent.
    """
    try:
        first = next(_PEM.finditer(pem))
        certificate, *_ = _elements(binascii.a2b_base64(first[2]))
        signed = list(_elements(next(_elements(certificate[1]))[1]))
        validity = signed[_BEFORE_VALIDITY + (signed[0][0] == _VERSION)]
        _, (kind, text) = _elements(validity[1])
        return _time(kind, text.decode()).timestamp()
    except (ValueError, IndexError, StopIteration) as error:
        raise ConfigError(f"not a certificate: {str(error) or 'a part is missing'}") from error


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element of a DER value."""
    at = 0
    while at < len(content):
        tag, length, at = content[at], content[at + 1], at + 2
        if length >= _LONG_LENGTH:
            size = length - _LONG_LENGTH
            length, at = int.from_bytes(content[at : at + size]), at + size
        yield tag, content[at : at + length]
        at += length


def _time(kind: int, text: str) -> datetime:
    """UTCTime has years of two digits: 50 to 99 are of the last century."""
    century = "" if kind != _UTC_TIME else "19" if text[:2] >= "50" else "20"
    return datetime.strptime(century + text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
