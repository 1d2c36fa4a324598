"""Flags and environment of the extender as settings."""

import re

import click
import pytest

from gpushare.errors import ConfigError
from gpushare.extender.main import command
from gpushare.extender.settings import ExtenderSettings, check, replica_of
from tests.support.builders.settings import parsed


def settings(*flags: str) -> ExtenderSettings:
    found = parsed(command, ExtenderSettings, *flags)
    check(found)
    return found


def address(*flags: str, **environ: str) -> str:
    return replica_of(settings(*flags), environ, "host", "1a2b").address


@pytest.mark.parametrize(
    ("pod_ip", "shown"), [("10.0.0.1", "10.0.0.1:39999"), ("fd00::1", "[fd00::1]:39999")]
)
def test_other_replicas_reach_it_at_the_address_of_its_pod(pod_ip: str, shown: str) -> None:
    assert address(POD_IP=pod_ip) == shown


def test_without_a_pod_they_reach_it_by_the_name_of_its_host_or_at_the_given_address() -> None:
    assert address() == "host:39999"
    assert address("--advertise-address=a:1", POD_IP="10.0.0.1") == "a:1"


def test_a_replica_has_a_name_that_no_earlier_process_had() -> None:
    names = [
        replica_of(settings(), environ, "host", "1a2b").identity for environ in ({}, {"POD_NAME": "pod"})
    ]
    assert names == ["host_1a2b", "pod_1a2b"]


def test_it_listens_on_every_address_of_both_families() -> None:
    found = settings()
    assert (found.host, found.ops_host) == ("::", "::")


TLS = ("--tls-cert=c", "--tls-key=k", "--client-ca=a")


def test_replicas_beside_a_scheduler_of_their_own_reach_each_other_on_a_second_port() -> None:
    flags = ("--host=127.0.0.1", "--port=12345", "--peer-port=12352", *TLS)
    found = settings(*flags)
    assert (found.port, found.peer_port) == (12345, 12352)
    assert address(*flags, POD_IP="10.0.0.1") == "10.0.0.1:12352"


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--host=127.0.0.1",), "--peer-port 1234 needs --tls-cert, --tls-key and --client-ca"),
        (TLS, "--host :: is not allowed with --peer-port, because --port then serves plain HTTP"),
        (("--host=10.0.0.1", *TLS), "--host 10.0.0.1 is not allowed with --peer-port"),
    ],
)
def test_a_second_port_needs_tls_and_the_first_loopback(flags: tuple[str, ...], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        settings("--peer-port=1234", *flags)


def test_with_tls_other_clients_may_be_named() -> None:
    assert settings(*TLS).client_names == ()
    assert settings(*TLS, "--client-name=x", "--client-name=y").client_names == ("x", "y")


def test_names_of_clients_need_tls() -> None:
    with pytest.raises(ConfigError, match="--client-name x needs --tls-cert, --tls-key and --client-ca"):
        settings("--client-name=x")


@pytest.mark.parametrize(
    ("flags", "given"),
    [
        (("--renew-deadline=15",), "3, 15, 15"),
        (("--renew-deadline=10.2", "--lease-duration=10.4"), "3, 10.2, 10"),
        (("--bind-timeout=0.1", "--renew-deadline=0.3", "--lease-duration=0.4"), "0.1, 0.3, 0"),
    ],
)
def test_durations_of_the_lease_rise_in_its_whole_seconds(flags: tuple[str, ...], given: str) -> None:
    text = re.escape(
        "0 < --bind-timeout < --renew-deadline < --lease-duration; "
        f"given {given} (the Lease has whole seconds)"
    )
    with pytest.raises(ConfigError, match=text):
        settings(*flags, "--retry-period=0.1")


@pytest.mark.parametrize("flag", ["lease-duration", "renew-deadline", "retry-period", "bind-timeout"])
@pytest.mark.parametrize("value", ["0", "-1", "inf", "nan"])
def test_durations_of_the_lease_are_positive_numbers(flag: str, value: str) -> None:
    with pytest.raises(click.BadParameter, match="is not in the range"):
        settings(f"--{flag}={value}")
