import stat
from pathlib import Path

from release.pypi import environment, secrets


def exports(text: str) -> dict[str, str]:
    pairs = (line.removeprefix("export ").partition("=") for line in text.splitlines())
    return {name: value for name, _, value in pairs}


def test_an_index_of_one_program_is_told_to_both() -> None:
    told = exports(environment({"UV_INDEX_URL": "https://pypi.example.com/simple"}, []))
    assert told["PIP_INDEX_URL"] == told["UV_DEFAULT_INDEX"] == "https://pypi.example.com/simple"


def test_a_program_with_an_index_of_its_own_keeps_it() -> None:
    told = exports(environment({"UV_DEFAULT_INDEX": "https://a", "PIP_INDEX_URL": "https://b"}, []))
    assert (told["UV_DEFAULT_INDEX"], told["PIP_INDEX_URL"]) == ("https://a", "https://b")


def test_proxies_are_passed_on_and_the_rest_is_not() -> None:
    given = {
        "https_proxy": "http://p:1",
        "NO_PROXY": "x",
        "AWS_SECRET": "s",
        "PIP_FIND_LINKS": "/w",
        "HOME": "/h",
    }
    assert exports(environment(given, [])) == {"https_proxy": "http://p:1", "NO_PROXY": "x"}


def test_values_are_quoted_for_the_shell() -> None:
    assert environment({"PIP_INDEX_URL": "https://u:$p@h/'"}, []).count("'\"'\"'") == 2


def test_files_are_named_where_the_build_has_them() -> None:
    told = exports(environment({}, ["certificates", "uv.toml"]))
    assert told == {
        "SSL_CERT_FILE": "/run/secrets/certificates",
        "PIP_CERT": "/run/secrets/certificates",
        "UV_CONFIG_FILE": "/run/secrets/uv.toml",
    }


def test_a_machine_without_settings_has_an_empty_script(tmp_path: Path) -> None:
    found = secrets({"HOME": str(tmp_path)}, tmp_path, root=tmp_path / "none")
    assert found == {"environment": tmp_path / "environment"}
    assert found["environment"].read_text() == ""


def test_the_users_files_come_before_the_machines(tmp_path: Path) -> None:
    for name in (
        "etc/pip.conf",
        ".config/pip/pip.conf",
        "etc/uv/uv.toml",
        "etc/ssl/certs/ca-certificates.crt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = secrets({"HOME": str(tmp_path)}, tmp_path, root=tmp_path)
    assert found["pip.conf"] == tmp_path / ".config/pip/pip.conf"
    assert found["uv.toml"] == tmp_path / "etc/uv/uv.toml"
    assert found["certificates"] == tmp_path / "etc/ssl/certs/ca-certificates.crt"


def test_nobody_else_reads_the_script(tmp_path: Path) -> None:
    found = secrets({"HOME": str(tmp_path)}, tmp_path, root=tmp_path / "none")
    assert stat.S_IMODE(found["environment"].stat().st_mode) == 0o600
