"""Which certificates are missing or due, and their replacements.

Keys are random; everything else follows from the Secrets and the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gpushare.adapters.x509 import (
    LeafRequest,
    PemKeyPair,
    certificate_of,
    has_key,
    is_issued_by,
    issue,
    names_of,
    new_authority,
)
from gpushare.contract import TLS_CA, TLS_CERT, TLS_KEY
from gpushare.errors import ConfigError

AUTHORITY_LIFE: Final = timedelta(days=3650)
LEAF_LIFE: Final = timedelta(days=365)
"""Renewed four months before its end, so that administrators have time to update the schedulers."""
_LEFT: Final = 1 / 3

Data = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class SecretChange:
    """The keys of a Secret to write, and why."""

    data: Data
    reason: str


def authority_of(data: Data, now: datetime) -> tuple[PemKeyPair, SecretChange | None]:
    """The authority in this Secret, or a new one with the change that stores it.

    Raises ConfigError if the Secret has only a part of it.
    """
    found = PemKeyPair(data.get(TLS_CERT, b""), data.get(TLS_KEY, b""))
    if found.cert and found.key:
        return _checked(found, now), None
    if found.cert or found.key:
        raise ConfigError(
            f"{TLS_CERT} or {TLS_KEY} is missing; restore it, or remove both to make a new authority"
        )
    made = new_authority("gpushare", now, AUTHORITY_LIFE)
    return made, SecretChange({TLS_CERT: made.cert, TLS_KEY: made.key}, "a new authority")


def _checked(authority: PemKeyPair, now: datetime) -> PemKeyPair:
    remedy = f"remove {TLS_CERT} and {TLS_KEY} to make a new authority"
    if not has_key(authority):
        raise ConfigError(f"{TLS_KEY} is not the key of {TLS_CERT}; {remedy}")
    end = certificate_of(authority.cert).not_valid_after_utc
    if now >= end:
        raise ConfigError(f"the authority has expired at {end:%Y-%m-%dT%H:%M:%SZ}; {remedy}")
    return authority


def leaf_of(
    data: Data, request: LeafRequest, authority: PemKeyPair, now: datetime, *, renew: bool = False
) -> SecretChange | None:
    """The change of a Secret that needs a certificate; None if its certificate is good.

    Raises ConfigError for a certificate of an authority that is not ours, which is not replaced.
    """
    reason = _defect(data, request, authority, now) or ("renewed as requested" if renew else "")
    if not reason:
        return None
    made = issue(authority, request, now, LEAF_LIFE)
    return SecretChange({TLS_CERT: made.cert, TLS_KEY: made.key, TLS_CA: authority.cert}, reason)


def _defect(data: Data, request: LeafRequest, authority: PemKeyPair, now: datetime) -> str:
    pair = PemKeyPair(data.get(TLS_CERT, b""), data.get(TLS_KEY, b""))
    if not pair.cert:
        return "a new certificate"
    certificate = certificate_of(pair.cert)
    if certificate.issuer != certificate_of(authority.cert).subject:
        raise ConfigError(
            f"{TLS_CERT} is of another authority, {certificate.issuer.rfc4514_string()}; keep it in a Secret "
            f"of another name (setting tlsSecret), and remove {TLS_CERT} here"
        )
    if not is_issued_by(certificate, authority):
        return "replaced, because an earlier authority signed it"
    if list(names_of(certificate)) != [request.name]:
        return f"renamed to {request.name}"
    if not has_key(pair) or data.get(TLS_CA) != authority.cert:
        return "repaired"
    end = certificate.not_valid_after_utc
    is_due = now >= end - (end - certificate.not_valid_before_utc) * _LEFT
    return f"renewed, because it expires at {end:%Y-%m-%dT%H:%M:%SZ}" if is_due else ""
