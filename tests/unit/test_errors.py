"""What users read of an exception of Python, OpenSSL or the YAML parser."""

import ssl
from pathlib import Path

import pytest
import yaml

from gpushare.errors import cause_of


def raised(action: object, *arguments: object) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any
        action(*arguments)  # type: ignore[operator]
    assert isinstance(caught.value, Exception)
    return caught.value


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("a: [1,", "line 2, column 1: expected the node content, but found '<stream end>'"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed here"),
    ],
)
def test_the_yaml_parser_names_line_and_column(text: str, cause: str) -> None:
    assert cause_of(raised(yaml.safe_load, text + "\n" * text.endswith(","))) == cause


def test_python_names_no_codec_and_no_number() -> None:
    assert cause_of(raised(b"a\xff".decode)) == "byte 1 is not UTF-8"
    assert cause_of(raised(Path("/nowhere").read_text)) == "No such file or directory"
    assert cause_of(OSError("of a library")) == "of a library"
    assert cause_of(TimeoutError()) == "TimeoutError"


def test_openssl_names_the_file_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert cause_of(raised(context.load_cert_chain, tmp_path / "x")) == "not a certificate and its key in PEM"
    assert (
        cause_of(raised(context.load_verify_locations, tmp_path / "x"))
        == "the CA is not a certificate in PEM"
    )
