"""A control plane host, by modules that a fake of Ansible runs."""

import os
from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.control_plane import RemoteHost
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.errors import ConfigError
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.host import (
    HostFile,
    Target,
)

URL = "http://10.0.0.1:32766/gpushare-scheduler"
CRASHED = {"failed": True, "exception": "Traceback …"}
"""A result of ansible-core 2.19, which has no message."""


def host(result: Mapping[str, Any], calls: list[tuple[str, dict[str, Any]]] | None = None) -> RemoteHost:
    def run(module: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        if calls is not None:
            calls.append((module, arguments))
        return result

    return RemoteHost(run)


def test_a_file_is_read_with_its_permissions() -> None:
    found = {"texts": {"/a": "text"}, "modes": {"/a": "0600"}}
    assert host(found).read("/a") == HostFile("text", 0o600)
    assert host({"texts": {}, "modes": {}}).read("/a") is None


def test_a_file_is_written_with_the_permissions_of_the_engine() -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    on = host({"changed": True}, calls)
    assert on.replace("/a", HostFile("text", 0o600), 0o700)
    wanted = {"path": "/a", "content": "text", "mode": "0600", "folder_mode": "0700"}
    assert calls == [("gpushare.nodes.write_file", wanted)]
    assert on.changed


def test_one_url_of_each_group_must_answer() -> None:
    state = {"processes": ["1@2"], "starts": {}, "log": [], "problems": {"a": "", "b": "refused", "c": "404"}}
    on = host(state)
    assert on.observe(Target([], "pod", [["a", "b"]])).problem == ""
    assert on.observe(Target([], "pod", [["a", "b"], ["b", "c"]])).problem == "refused; 404"


def test_a_module_that_fails_is_an_error_of_the_edit() -> None:
    with pytest.raises(ConfigError, match="cannot write /a: disk full"):
        host({"failed": True, "msg": "cannot write /a: disk full"}).remove("/a")


def test_a_crashed_probe_is_no_answer() -> None:
    assert host(CRASHED).problem_of(URL, None, 5) == (
        "http://10.0.0.1:32766/version: gpushare.nodes.static_pod_state has failed"
    )


def test_a_worker_whose_run_was_killed_does_not_touch_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    on = host({"changed": True}, calls)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    with pytest.raises(SystemExit):
        on.remove("/a")
    assert calls == []
