"""Which certificates are made, kept and renewed, as OpenSSL sees them."""

import ssl
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpushare.adapters.x509 import LeafRequest, PemKeyPair, certificate_of, issue, new_authority
from gpushare.cli.certificates.renewals import LEAF_LIFE, SecretChange, authority_of, leaf_of
from gpushare.errors import ConfigError
from gpushare.runtime.certificates import PeerCertificate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""Before today, so that OpenSSL accepts the authority."""
SERVER = LeafRequest("extender.svc", is_server=True)
CLIENT = LeafRequest("scheduler")
AUTHORITY, MADE = authority_of({}, NOW)
OTHER, _ = authority_of({}, NOW)


def leaf(
    request: LeafRequest = SERVER, now: datetime = NOW, authority: PemKeyPair = AUTHORITY
) -> SecretChange:
    change = leaf_of({}, request, authority, now)
    assert change is not None
    return change


def reason(data: dict[str, bytes], request: LeafRequest = SERVER, now: datetime = NOW) -> str:
    change = leaf_of(data, request, AUTHORITY, now)
    return change.reason if change else ""


def test_empty_secrets_get_an_authority_and_certificates_of_it() -> None:
    assert MADE is not None
    assert MADE.data == {"tls.crt": AUTHORITY.cert, "tls.key": AUTHORITY.key}
    assert MADE.reason == "a new authority"
    made = leaf()
    assert made.reason == "a new certificate"
    assert made.data["ca.crt"] == AUTHORITY.cert
    assert AUTHORITY.key not in made.data.values()


def test_a_second_run_changes_nothing() -> None:
    assert MADE is not None
    assert authority_of(MADE.data, NOW) == (AUTHORITY, None)
    for request in (SERVER, CLIENT):
        assert leaf_of(leaf(request).data, request, AUTHORITY, NOW) is None


def test_a_certificate_is_renewed_when_a_third_of_its_life_is_left() -> None:
    made = dict(leaf().data)
    assert reason(made, now=NOW + LEAF_LIFE * 0.66) == ""
    assert reason(made, now=NOW + LEAF_LIFE * 0.67) == "renewed, because it expires at 2027-01-01T00:00:00Z"


def test_a_certificate_can_be_renewed_at_any_time() -> None:
    change = leaf_of(leaf().data, SERVER, AUTHORITY, NOW, renew=True)
    assert change is not None
    assert change.reason == "renewed as requested"


def test_a_certificate_ends_with_its_authority() -> None:
    late = NOW + timedelta(days=3600)
    assert certificate_of(leaf(now=late).data["tls.crt"]).not_valid_after_utc == NOW + timedelta(days=3650)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"tls.key": b""}, "repaired"),
        ({"tls.key": OTHER.key}, "repaired"),
        ({"ca.crt": b""}, "repaired"),
        (dict(leaf(authority=OTHER).data), "replaced, because an earlier authority signed it"),
        (dict(leaf(LeafRequest("old")).data), "renamed to extender.svc"),
    ],
)
def test_a_certificate_that_does_not_fit_is_replaced(change: dict[str, bytes], expected: str) -> None:
    assert reason({**leaf().data, **change}) == expected


def test_a_certificate_of_another_authority_is_an_error_and_stays() -> None:
    issuer = new_authority("corporate", NOW, timedelta(days=1))
    theirs = issue(issuer, SERVER, NOW, timedelta(days=1))
    with pytest.raises(
        ConfigError, match=r"tls.crt is of another authority, CN=corporate; keep it in a Secret"
    ):
        reason({"tls.crt": theirs.cert, "tls.key": theirs.key})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"tls.crt": AUTHORITY.cert}, "tls.crt or tls.key is missing; restore it, or remove both"),
        ({"tls.crt": AUTHORITY.cert, "tls.key": OTHER.key}, "tls.key is not the key of tls.crt; remove"),
        ({"tls.crt": b"half", "tls.key": AUTHORITY.key}, "not a certificate"),
    ],
)
def test_an_unusable_authority_is_an_error_and_stays(data: dict[str, bytes], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        authority_of(data, NOW)


def test_an_expired_authority_is_an_error() -> None:
    assert MADE is not None
    with pytest.raises(ConfigError, match="the authority has expired at 2035-12-30T00:00:00Z; remove"):
        authority_of(MADE.data, NOW + timedelta(days=3650))


@dataclass
class Sides:
    """Both ends of a TLS connection, in memory."""

    server: ssl.SSLObject
    client: ssl.SSLObject

    def shake_hands(self) -> None:
        """Raises SSLError if one refuses the other; the second turn of the client completes TLS 1.3."""
        for side in (self.client, self.server, self.client, self.server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()


def sides(folder: Path, server: SecretChange, client: SecretChange, name: str) -> Sides:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving, calling = (
        context(folder / kind, change, protocol)
        for kind, change, protocol in (
            ("server", server, ssl.PROTOCOL_TLS_SERVER),
            ("client", client, ssl.PROTOCOL_TLS_CLIENT),
        )
    )
    return Sides(
        serving.wrap_bio(to_server, to_client, server_side=True),
        calling.wrap_bio(to_client, to_server, server_hostname=name),
    )


def context(folder: Path, change: SecretChange, protocol: int) -> ssl.SSLContext:
    folder.mkdir()
    for name, content in change.data.items():
        (folder / name).write_bytes(content)
    made = ssl.SSLContext(protocol)
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    made.load_verify_locations(folder / "ca.crt")
    return made


TODAY = datetime.now(UTC)


@pytest.mark.parametrize("client", [CLIENT, SERVER], ids=["scheduler", "replica"])
def test_the_extender_and_its_clients_accept_each_other(client: LeafRequest, tmp_path: Path) -> None:
    both = sides(tmp_path, leaf(now=TODAY), leaf(client, TODAY), SERVER.name)
    both.shake_hands()
    names = PeerCertificate.of(both.server.getpeercert())
    assert names is not None
    assert names.common_name == client.name


def test_the_certificate_of_the_scheduler_is_not_valid_for_a_server(tmp_path: Path) -> None:
    both = sides(tmp_path, leaf(CLIENT, TODAY), leaf(CLIENT, TODAY), CLIENT.name)
    with pytest.raises(ssl.SSLCertVerificationError):
        both.shake_hands()


def test_a_client_of_another_authority_is_refused(tmp_path: Path) -> None:
    other = leaf(CLIENT, TODAY, OTHER)
    trusting = SecretChange({**other.data, "ca.crt": AUTHORITY.cert}, "")
    with pytest.raises(ssl.SSLCertVerificationError):
        sides(tmp_path, leaf(now=TODAY), trusting, SERVER.name).shake_hands()
