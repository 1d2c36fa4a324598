"""Filters on a controller that cannot run them: the message of the task has the reason and the fix."""

import sys

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpushare.nodes.plugins.filter.by_role import FILTERS
from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import lazy

OPTIONS = {"kubernetes_version": "1.36", "name": "second", "kubeconfig": ""}
UTILS = "ansible_collections.gpushare.nodes.plugins.plugin_utils"


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_has_a_function(name: str) -> None:
    with pytest.raises(TypeError, match=r"missing .* required positional argument"):
        FILTERS[name]()


def test_an_error_of_the_function_is_the_message_of_the_task() -> None:
    with pytest.raises(AnsibleFilterError, match="weight 0: kube-scheduler requires 1 or more"):
        lazy("scheduler", "configuration", plain=True)({"weight": 0}, OPTIONS)


def test_an_incomplete_collection_must_be_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, f"{UTILS}.gpushare.errors", None)
    with pytest.raises(AnsibleFilterError, match=r"incomplete .*\.errors.*: .* install its tarball again"):
        lazy("checks", "table")({})


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"{UTILS}.config_text", raising=False)
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    with pytest.raises(AnsibleFilterError, match=r"lacks a library \(.*tomlkit.*\): pip install tomlkit"):
        lazy("config_text", "parse")("", "toml", "f")


def test_an_old_python_on_the_controller_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(AnsibleFilterError, match=r"is Python 3\.10: .* Python 3\.11 or later"):
        lazy("checks", "table")({})
