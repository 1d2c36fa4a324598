"""The proxy of the environment, as Go's httpproxy chooses it, which kubectl uses."""

import pytest

from gpushare.adapters.proxies import proxy_of
from gpushare.errors import ConfigError

PROXY = "http://proxy.test:3128"


def bypassed(url: str, no_proxy: str = "") -> bool:
    return proxy_of(url, {"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": no_proxy}) is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]"])
def test_this_machine_needs_no_proxy(host: str) -> None:
    assert bypassed(f"https://{host}:6443")


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://10.96.0.1", "10.96.0.0/12"),
        ("https://10.96.0.1", "10.96.7.7/12"),
        ("https://[fd00::1]:6443", "fd00::/8"),
        ("https://[::ffff:10.96.0.1]", "10.96.0.0/12"),
        ("https://10.96.0.1:6443", "10.96.0.1"),
        ("https://10.96.0.1", "10.96.0.1:443"),
        ("http://10.96.0.1", "10.96.0.1:80"),
        ("https://[fd00::1]:6443", "[fd00::1]:6443"),
        ("https://[fd00::1]:6443", "fd00::1"),
        ("https://api.test:6443", "api.test"),
        ("https://api.test:6443", "API.test:6443"),
        ("https://api.test:6443", "test"),
        ("https://api.test:6443", ".test"),
        ("https://api.test:6443", "*.test"),
        ("https://api.test:6443", "*.test:6443"),
        ("https://api.test:6443", "other.test , api.test"),
        ("https://api.test:6443", "*"),
        ("https://10.96.0.1", "other.test,*"),
    ],
)
def test_an_entry_that_excludes_the_api_server(url: str, entry: str) -> None:
    assert bypassed(url, entry)


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://10.96.0.1", "10.97.0.0/16"),
        ("https://10.96.0.1", "10.96.0.0/255.240.0.0"),
        ("https://10.96.0.1", "10.96.0.1:6443"),
        ("https://10.96.0.1", "fd00::/8"),
        ("https://10.96.0.1", "10.96."),
        ("https://[fd00::1]:6443", "[fd00::1]:443"),
        ("https://api.test:6443", "api.test:443"),
        ("https://api.test:6443", ".api.test"),
        ("https://api.test:6443", "*.api.test"),
        ("https://myapi.test:6443", "api.test"),
        ("https://api.test:6443", "a*"),
        ("https://api.test:6443", "*:6443"),
        ("https://a.api.test:6443", "*api.test"),
        ("https://api.test:6443", ",, :6443,"),
    ],
)
def test_an_entry_for_others(url: str, entry: str) -> None:
    assert not bypassed(url, entry)


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"HTTP_PROXY": PROXY}, None),
        ({"HTTPS_PROXY": "proxy.test:3128"}, PROXY),
        ({"HTTPS_PROXY": "proxy.test"}, "http://proxy.test"),
        ({"HTTPS_PROXY": "https://user:word@proxy.test"}, "https://user:word@proxy.test"),
        ({"HTTPS_PROXY": "http://a.test", "https_proxy": "http://b.test"}, "http://b.test"),
        ({"HTTPS_PROXY": "http://a.test", "https_proxy": ""}, "http://a.test"),
        ({"https_proxy": PROXY, "no_proxy": "api.test"}, None),
        ({"https_proxy": PROXY, "NO_PROXY": "api.test", "no_proxy": "x.test"}, PROXY),
    ],
)
def test_the_variables(environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_of("https://api.test:6443", environ) == proxy


@pytest.mark.parametrize(
    "value", ["socks5://user:word@proxy.test:1080", "http://proxy.test:port", "http://[", "http://a b"]
)
def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(value: str) -> None:
    with pytest.raises(ConfigError, match="HTTPS_PROXY is not like http://host:3128") as caught:
        proxy_of("https://api.test", {"HTTPS_PROXY": value})
    assert "word" not in str(caught.value)


def test_a_proxy_that_cannot_be_used_is_no_error_if_none_is_needed() -> None:
    assert proxy_of("https://api.test", {"https_proxy": "socks5://proxy.test", "no_proxy": "*"}) is None
