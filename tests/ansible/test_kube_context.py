"""The selection of a context of a kubeconfig."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpushare.nodes.plugins.lookup.kube_context import (
    ContextError,
    LookupModule,
    choose,
    contexts,
)


def document(*names: str, current: str = "") -> dict[str, Any]:
    return {"contexts": [{"name": name} for name in names], "current-context": current}


def test_contexts_are_those_of_all_files_and_the_first_current_one() -> None:
    listed = contexts([document("a", "b"), document("b", "c", current="c"), document(current="a")])
    assert listed == (["a", "b", "c"], "c")


def test_the_only_context_or_the_requested_one_is_used() -> None:
    assert choose(["a"], "", "", "f", "s") == "a"
    assert choose(["a", "b"], "a", "b", "f", "s") == "b"
    assert choose([], "", "", "f", "s") == ""


def test_of_several_contexts_not_even_the_current_one_is_used() -> None:
    with pytest.raises(
        ContextError, match=r"^x_context is empty, and ~/f has several contexts: a, b \(current: b\)"
    ):
        choose(["a", "b"], "b", "", "~/f", "x_context")


def test_a_missing_context_is_reported_with_the_existing_ones() -> None:
    with pytest.raises(ContextError, match=r'x_context is "c", which ~/f does not have: use one of a, b'):
        choose(["a", "b"], "b", "c", "~/f", "x_context")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "K8S_AUTH_HOST", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name in ("one", "two"):
        (tmp_path / name).write_text(yaml.safe_dump(document(name, current=name)))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/one:{tmp_path}/absent:{tmp_path}/two")
    return tmp_path


def found(kubeconfig: str, **options: str) -> str:
    (name,) = LookupModule().run([kubeconfig], setting="s", **options)
    return name


def test_files_are_found_as_kubectl_finds_them(files: Path) -> None:
    assert found(f"{files}/two") == "two"
    assert found("", context="one") == "one"
    with pytest.raises(Exception, match="several contexts: one, two"):
        found("")


@pytest.mark.parametrize("name", ["2024-01-01", "2024-13-45", "12:30"])
def test_a_name_that_looks_like_a_date_is_a_text(files: Path, name: str) -> None:
    (files / "one").write_text(f"contexts: [{{name: {name}}}]\ncurrent-context: {name}\n")
    assert found(f"{files}/one") == name


def test_a_configured_kubeconfig_must_exist(files: Path) -> None:
    reason = r"absent cannot be read \(No such file or directory\): set cluster_kubeconfig"
    with pytest.raises(Exception, match=reason):
        found(f"{files}/absent")


def test_in_a_cluster_no_context_is_needed(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.is_dir()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert found("") == ""
