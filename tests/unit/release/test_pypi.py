"""The PyPI settings that a build receives as secrets."""

import stat
from pathlib import Path

from release.pypi import environment, secrets


def exports(text: str) -> dict[str, str]:
    pairs = (line.removeprefix("export ").partition("=") for line in text.splitlines())
    return {name: value for name, _, value in pairs}


def test_the_index_of_one_program_is_passed_to_both() -> None:
    passed = exports(environment({"UV_INDEX_URL": "https://pypi.example.com/simple"}, []))
    assert passed["PIP_INDEX_URL"] == passed["UV_DEFAULT_INDEX"] == "https://pypi.example.com/simple"


def test_different_indexes_of_both_programs_stay() -> None:
    passed = exports(environment({"UV_DEFAULT_INDEX": "https://a", "PIP_INDEX_URL": "https://b"}, []))
    assert (passed["UV_DEFAULT_INDEX"], passed["PIP_INDEX_URL"]) == ("https://a", "https://b")


def test_proxies_are_passed_and_other_variables_are_not() -> None:
    variables = {
        "https_proxy": "http://p:1",
        "NO_PROXY": "x",
        "AWS_SECRET": "s",
        "PIP_FIND_LINKS": "/w",
        "HOME": "/h",
    }
    assert exports(environment(variables, [])) == {"https_proxy": "http://p:1", "NO_PROXY": "x"}


def test_values_are_quoted_for_the_shell() -> None:
    assert environment({"PIP_INDEX_URL": "https://u:$p@h/'"}, []).count("'\"'\"'") == 2


def test_files_have_their_paths_in_the_build() -> None:
    assert exports(environment({}, ["certificates", "uv.toml"])) == {
        "SSL_CERT_FILE": "/run/secrets/certificates",
        "PIP_CERT": "/run/secrets/certificates",
        "UV_CONFIG_FILE": "/run/secrets/uv.toml",
    }


def test_files_of_the_user_win_over_those_of_the_machine(tmp_path: Path) -> None:
    for name in ("etc/pip.conf", ".config/pip/pip.conf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = secrets({"HOME": str(tmp_path)}, tmp_path, root=tmp_path)
    assert found["pip.conf"] == tmp_path / ".config/pip/pip.conf"


def test_only_the_owner_reads_the_script(tmp_path: Path) -> None:
    found = secrets({"HOME": str(tmp_path)}, tmp_path, root=tmp_path / "none")
    assert stat.S_IMODE(found["environment"].stat().st_mode) == 0o600
