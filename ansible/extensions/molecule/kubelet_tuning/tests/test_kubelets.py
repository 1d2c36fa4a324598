"""Kubelets run with the requested settings, and other settings are unchanged."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]
CONFIG = "/var/lib/kubelet/config.yaml"
HEALTH = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10248/healthz').read().decode())"


@pytest.fixture
def config(host: Host) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load(host.file(CONFIG).content_string)
    return settings


def test_there_are_two_hosts(names_of: Callable[[str], list[str]]) -> None:
    assert names_of("gpu_nodes") == ["gpu-1", "gpu-2"]


def test_the_kubelet_is_healthy(host: Host) -> None:
    assert host.service("kubelet").is_running
    assert host.check_output(f'python3 -c "{HEALTH}"') == "ok"


def test_the_policies_are_in_the_settings_and_in_the_state_file(host: Host, config: dict[str, Any]) -> None:
    policy = {"gpu-1": "none", "gpu-2": "static"}[host.check_output("hostname")]
    assert config["cpuManagerPolicy"] == policy
    assert config["topologyManagerPolicy"] == "best-effort"
    state = json.loads(host.file("/var/lib/kubelet/cpu_manager_state").content_string)
    assert state["policyName"] == policy


def test_reserves_are_set(config: dict[str, Any]) -> None:
    assert config["reservedSystemCPUs"] == "0"
    assert config["systemReserved"] == {"memory": "256Mi"}


def test_other_settings_and_the_file_mode_are_kept(host: Host, config: dict[str, Any]) -> None:
    assert config["maxPods"] == 77
    assert list(config)[:2] == ["apiVersion", "kind"]
    assert host.file(CONFIG).mode == 0o640


def test_settings_that_the_kubelet_rejected_are_removed(config: dict[str, Any]) -> None:
    assert "evictionHard" not in config


def test_requested_huge_pages_are_reserved(host: Host) -> None:
    pages = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    kept = host.file("/etc/tmpfiles.d/gpushare-hugepages.conf")
    if host.check_output("hostname") == "gpu-2":
        assert kept.content_string.endswith(f"w {pages} - - - - 8\n")
        assert host.check_output(f"cat {pages}") == "8"
    else:
        assert not kept.exists


def test_no_restart_is_pending(host: Host) -> None:
    assert not host.file("/run/gpushare-kubelet-tuning.restart").exists
