"""Kubeconfig files are read and merged as kubectl does; errors name file, context and remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpushare.adapters.kube.kubeconfig import contexts, selected
from gpushare.errors import ConfigError


def why(paths: str, context: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        selected(paths, context)
    return str(caught.value)


def written(path: Path, **fields: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({name.replace("_", "-"): value for name, value in fields.items()}))
    return path


def context(name: str, cluster: str = "c", user: str = "u") -> dict[str, Any]:
    return {"name": name, "context": {"cluster": cluster, "user": user}}


def cluster(server: str, name: str = "c", **fields: str) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": server} | fields}


def user(token: str, name: str = "u") -> dict[str, Any]:
    return {"name": name, "user": {"token": token}}


def test_the_current_context_is_selected_unless_another_is_named(tmp_path: Path) -> None:
    path = written(
        tmp_path / "config",
        current_context="one",
        contexts=[context("one"), context("two", "d", "v")],
        clusters=[cluster("https://c"), cluster("https://d", "d")],
        users=[user("of u"), user("of v", "v")],
    )
    current, named = selected(str(path)), selected(str(path), "two")
    assert (current.context, current.cluster.value.server, current.user.value.token) == (
        "one",
        "https://c",
        "of u",
    )
    assert (named.context, named.cluster.value.server, named.user.value.token) == ("two", "https://d", "of v")


def test_contexts_are_those_of_all_files(tmp_path: Path) -> None:
    first = written(tmp_path / "first", contexts=[context("one"), context("two")])
    second = written(tmp_path / "second", contexts=[context("two"), context("three")])
    third = written(tmp_path / "third")
    assert contexts(f"{first}:{second}:{third}") == ("one", "two", "three")


def test_the_first_file_that_defines_a_name_wins(tmp_path: Path) -> None:
    first = written(tmp_path / "first", current_context="", contexts=[context("main")], users=[user("first")])
    second = written(
        tmp_path / "second",
        current_context="main",
        contexts=[context("main", "none", "none")],
        clusters=[cluster("https://second")],
        users=[user("second")],
    )
    third = written(tmp_path / "third", current_context="other", clusters=[cluster("https://third")])
    chosen = selected(f"{first}:{tmp_path / 'none'}::{second}:{third}")
    assert chosen.context == "main"
    assert (chosen.cluster.value.server, chosen.user.value.token) == ("https://second", "first")


def test_relative_paths_start_at_the_folder_of_their_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "a" / "config", current_context="main", contexts=[context("main")])
    written(tmp_path / "b" / "config", clusters=[cluster("https://c")], users=[user("secret")])
    monkeypatch.chdir(tmp_path)
    chosen = selected("a/config:b/config")
    assert chosen.cluster.path("ca.crt") == tmp_path / "b" / "ca.crt"
    assert chosen.user.path("/etc/me.crt") == Path("/etc/me.crt")


def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    path = written(
        tmp_path / "config",
        contexts=[{"name": "main", "context": {"cluster": "c"}}],
        clusters=[cluster("https://c")],
        users=None,
    )
    assert selected(str(path), "main").user.value.token is None


def test_null_is_no_value_and_a_date_is_text(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("""
current-context: 2024-01-01
contexts: [{name: 2024-01-01, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: https://c, proxy-url: }}]
users: [{name: u, user: null}, {name: v, user: {auth-provider: {name: gcp, config: {expiry: 2024-01-01}}}}]
""")
    chosen = selected(str(tmp_path / "config"))
    assert (chosen.context, chosen.cluster.value.proxy_url, chosen.user.value.token) == (
        "2024-01-01",
        None,
        None,
    )


def test_a_name_that_is_not_defined_is_an_error_with_the_names_that_are(tmp_path: Path) -> None:
    path = written(
        tmp_path / "config",
        contexts=[context("a"), context("b", "d"), context("e", user="none")],
        clusters=[cluster("https://c")],
        users=[],
    )
    assert why(str(path), "x") == f"kubeconfig {path}: context 'x' is not defined; contexts: a, b, e"
    assert why(str(path), "b") == f"kubeconfig {path}: context 'b': cluster 'd' is not defined; clusters: c"
    assert why(str(path), "e") == f"kubeconfig {path}: context 'e': user 'none' is not defined; users: none"


def test_a_name_that_is_defined_twice_in_a_file_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "config", contexts=[context("a"), context("a")])
    assert why(str(path), "a") == f"kubeconfig {path}: context 'a' is defined 2 times in {path}"


@pytest.mark.parametrize("text", ["", "# made by a tool", "---", "null"])
def test_of_several_files_one_may_define_nothing(tmp_path: Path, text: str) -> None:
    nothing = tmp_path / "nothing"
    nothing.write_text(text)
    path = written(
        tmp_path / "config",
        current_context="a",
        contexts=[{"name": "a", "context": {"cluster": "c"}}],
        clusters=[cluster("https://c")],
    )
    for paths in (f"{nothing}:{path}", f"{path}:{nothing}"):
        assert selected(paths).cluster.value.server == "https://c"
        assert contexts(paths) == ("a",)


def test_without_a_current_context_the_remedy_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "config", contexts=[context("a")])
    assert why(str(path)) == (
        f"kubeconfig {path}: no current-context (set one with `kubectl config use-context`)"
    )


@pytest.mark.parametrize("text", ["[]", "{", "a token", "contexts: x", "users: [{user: {}}]"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    assert why(str(path)).startswith(f"kubeconfig {path}: is not ")


def test_a_value_of_another_type_is_named_by_its_place(tmp_path: Path) -> None:
    path = written(tmp_path / "config", users=[{"name": "u", "user": {"token": 7}}])
    text = why(str(path))
    assert text.startswith(f"kubeconfig {path}: is not a kubeconfig: ")
    assert "$.users[0].user.token" in text


def test_a_file_that_is_empty_no_text_or_no_file(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b" \n")
    assert why(str(path)) == f"kubeconfig {path}: is empty"
    path.write_bytes(b"\xff\xfe")
    assert why(str(path)).startswith(f"kubeconfig {path}: is not text: ")
    assert why(str(tmp_path)) == f"kubeconfig {tmp_path}: Is a directory"
    absent = tmp_path / "absent"
    assert why(f"{absent}:") == f"kubeconfig {absent}:: no such file (set KUBECONFIG or --kubeconfig)"
