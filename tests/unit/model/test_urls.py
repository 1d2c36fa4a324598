import pytest

from gpushare.model.urls import is_http_url


@pytest.mark.parametrize("text", ["http://host", "https://host:9090/path", "http://[::1]:9090"])
def test_the_address_of_a_service(text: str) -> None:
    assert is_http_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host:9090",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://host:0",
        "http://[::1",
        "http://a b",
        "http://a/b\nc",
    ],
)
def test_other_texts(text: str) -> None:
    assert not is_http_url(text)
