import socket

import pytest

from gpushare.errors import ConfigError
from gpushare.runtime.listener import bind_socket


@pytest.mark.parametrize("client", ["127.0.0.1", "::1"])
def test_any_address_is_of_both_families(client: str) -> None:
    with bind_socket("::", 0) as listener:
        family = listener.family
        if family == socket.AF_INET and ":" in client:
            return  # a machine without IPv6
        with socket.create_connection((client, listener.getsockname()[1]), timeout=5):
            pass


def test_on_a_machine_without_ipv6_any_address_is_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpushare.runtime.listener._has_ipv6", lambda: False)
    with bind_socket("::", 0) as listener:
        assert listener.family == socket.AF_INET


def test_a_port_that_is_taken_is_named() -> None:
    with bind_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: "):
            bind_socket("127.0.0.1", port)


def test_the_error_for_a_foreign_address_names_it() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        bind_socket("192.0.2.1", 0)
