"""Names and expiry of certificates, as OpenSSL reads them."""

import ssl
from datetime import UTC, datetime

import pytest

from gpushare.errors import ConfigError
from gpushare.runtime.certificates import PeerCertificate, expiry_of
from testbed.control_plane.pki import Authority

END = datetime(2051, 1, 2, 3, 4, 5, tzinfo=UTC)
"""Such a year has four digits in a certificate (RFC 5280, section 4.1.2.5), earlier ones have two."""


@pytest.mark.parametrize("end", [END, END.replace(year=2049)])
def test_the_end_of_the_first_certificate_of_a_file(end: datetime) -> None:
    authority = Authority.create("a", end=end)
    text = "Subject: x\n" + authority.pair().cert.decode() + Authority.create("b").pair().cert.decode()
    assert expiry_of(text) == end.timestamp()


def test_the_end_of_a_certificate_with_another_label_of_openssl() -> None:
    text = Authority.create("a", end=END).pair().cert.decode()
    assert expiry_of(text.replace("CERTIFICATE", "X509 CERTIFICATE")) == END.timestamp()
    auxiliary = b"\x30\x00"  # as `openssl x509 -trustout` adds it
    trusted = ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(text) + auxiliary)
    assert expiry_of(trusted.replace("CERTIFICATE", "TRUSTED CERTIFICATE")) == END.timestamp()


@pytest.mark.parametrize(
    "text", ["", "text", "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"]
)
def test_a_text_that_is_no_certificate_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="not a certificate"):
        expiry_of(text)


def test_names_are_the_common_name_and_the_dns_names() -> None:
    found = PeerCertificate.of(
        {
            "subject": ((("organizationName", "o"),), (("commonName", "c"),)),
            "subjectAltName": (("DNS", "d"), ("IP Address", "10.0.0.1"), ("DNS", "e")),
            "notAfter": "Jan  2 03:04:05 2049 GMT",
        }
    )
    assert found == PeerCertificate("c", ("d", "e"), END.replace(year=2049).timestamp())
    assert found.names == ("c", "d", "e")


def test_an_unverified_client_has_no_certificate() -> None:
    assert PeerCertificate.of(None) is None
    assert PeerCertificate.of({}) is None
