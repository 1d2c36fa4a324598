"""Which clients may call the verbs of the scheduler's port."""

import pytest

from gpushare.extender.clients import Clients, is_open
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.settings import DEFAULT_NAMES
from gpushare.runtime.certificates import PeerCertificate

EXPIRY = "gpushare_extender_certificate_expiration_timestamp_seconds"


@pytest.mark.parametrize(
    "certificate",
    [
        PeerCertificate("system:kube-scheduler", (), 1e9),
        PeerCertificate("gpushare-schd-extender.kube-system.svc", (), 1e9),
        PeerCertificate("", ("other", "gpushare-schd-extender.kube-system.svc"), 1e9),
    ],
)
def test_the_scheduler_and_other_replicas_may_call_by_default(certificate: PeerCertificate) -> None:
    assert Clients(DEFAULT_NAMES, ExtenderMetrics()).rejection(certificate) == ""


@pytest.mark.parametrize(
    ("certificate", "client"),
    [
        (PeerCertificate("system:node:n", (), 1e9), "'system:node:n'"),
        (PeerCertificate("kubelet", ("n.example.com",), 1e9), "'kubelet' and 'n.example.com'"),
        (PeerCertificate("", (), 1e9), "without a name"),
    ],
)
def test_another_certificate_of_the_authority_is_refused_with_the_reason(
    certificate: PeerCertificate, client: str
) -> None:
    assert Clients(["a", "b"], ExtenderMetrics()).rejection(certificate) == (
        f"the client certificate {client} may not call the extender: allowed are a, b (flag --client-name)"
    )


def test_without_tls_everybody_may_call() -> None:
    assert Clients(["a"], ExtenderMetrics()).rejection(None) == ""


def test_the_expiry_of_the_last_certificate_of_each_allowed_name_is_reported() -> None:
    metrics = ExtenderMetrics()
    clients = Clients(["a", "b"], metrics)
    for name, expires_at in (("a", 1.0), ("b", 5.0), ("a", 2.0), ("c", 3.0)):
        clients.rejection(PeerCertificate(name, (), expires_at))
    values = {name: metrics.registry.get_sample_value(EXPIRY, {"certificate": name}) for name in "abc"}
    assert values == {"a": 2.0, "b": 5.0, "c": None}


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("::", False),
        ("10.0.0.1", False),
        ("::1234:5", False),
        ("localhost.example", False),
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
    ],
)
def test_a_port_without_tls_is_open_unless_it_is_on_loopback(host: str, *, is_loopback: bool) -> None:
    assert is_open(host, tls=False) is not is_loopback
    assert not is_open(host, tls=True)
