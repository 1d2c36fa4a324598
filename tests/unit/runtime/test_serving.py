"""Listening sockets."""

import pytest

from gpushare.errors import ConfigError
from gpushare.runtime.serving import bind_socket


def test_a_port_that_is_taken_is_named() -> None:
    with bind_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: "):
            bind_socket("127.0.0.1", port)


def test_the_error_for_a_foreign_address_names_it() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        bind_socket("192.0.2.1", 0)
