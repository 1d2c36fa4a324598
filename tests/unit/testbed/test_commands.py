"""The components' command lines and the scheduler's configuration."""

import json
from pathlib import Path

import pytest
import yaml

from gpushare.errors import ConfigError
from testbed.control_plane import commands
from testbed.control_plane.layout import Layout, Ports
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.system.ports import LOOPBACK

LAYOUT = Layout(Path("/bed"), Path("/data"), Ports(1, 2, 3, 4, 5, 6))
BINARY = Path("/bin/it")
KUBECONFIG = Path("/bed/kube-scheduler.kubeconfig")
ALL = [
    commands.etcd(LAYOUT, BINARY),
    commands.kube_apiserver(LAYOUT, BINARY, audit=True),
    commands.kube_controller_manager(LAYOUT, BINARY),
    commands.kube_scheduler(LAYOUT, BINARY),
    commands.kube_scheduler_legacy(LAYOUT, BINARY),
    commands.kwok(LAYOUT, BINARY),
]


@pytest.mark.parametrize("argv", ALL)
def test_every_component_is_told_to_listen_on_loopback(argv: list[str]) -> None:
    assert argv[0] == "/bin/it"
    assert any(LOOPBACK in flag for flag in argv)


@pytest.mark.parametrize("argv", ALL)
def test_no_flag_is_given_twice(argv: list[str]) -> None:
    names = [flag.partition("=")[0] for flag in argv]
    assert len(names) == len(set(names))


def test_rights_are_checked_by_node_and_rbac() -> None:
    argv = commands.kube_apiserver(LAYOUT, BINARY)
    assert "--authorization-mode=Node,RBAC" in argv
    assert "--requestheader-allowed-names=front-proxy-client" in argv


def test_the_history_is_written_on_request_only() -> None:
    assert not any("audit" in flag for flag in commands.kube_apiserver(LAYOUT, BINARY))
    assert "--audit-log-path=/bed/audit.jsonl" in commands.kube_apiserver(LAYOUT, BINARY, audit=True)


def test_the_old_scheduler_reads_a_policy() -> None:
    argv = commands.kube_scheduler_legacy(LAYOUT, BINARY)
    assert "--policy-config-file=/bed/scheduler.conf" in argv
    assert not any(flag.startswith("--config") for flag in argv)


def test_extenders_reach_the_configuration_as_they_are() -> None:
    extender = {"urlPrefix": "http://127.0.0.1:1/gpushare-scheduler", "filterVerb": "filter"}
    document = json.loads(SchedulerSpec(extenders=[extender], max_backoff_s=3).text(KUBECONFIG))
    assert document["extenders"] == [extender]
    assert document["percentageOfNodesToScore"] == 100
    assert document["podMaxBackoffSeconds"] == 3
    assert document["clientConnection"] == {"qps": 5000, "burst": 5000, "kubeconfig": str(KUBECONFIG)}


def test_of_an_own_configuration_only_the_kubeconfig_is_replaced() -> None:
    given = {"kind": "KubeSchedulerConfiguration", "clientConnection": {"kubeconfig": "/x", "qps": 7}}
    document = json.loads(SchedulerSpec(config=yaml.safe_dump(given)).text(KUBECONFIG))
    assert document == {**given, "clientConnection": {"kubeconfig": str(KUBECONFIG), "qps": 7}}


def test_a_policy_reaches_the_old_scheduler_byte_for_byte() -> None:
    policy = '{"kind" : "Policy",  "apiVersion":"v1"}\n'
    assert SchedulerSpec("1.22", config=policy).text(KUBECONFIG) == policy


def test_extenders_of_the_old_scheduler_make_a_policy() -> None:
    document = json.loads(SchedulerSpec("1.22", extenders=[{"urlPrefix": "u"}]).text(KUBECONFIG))
    assert document == {"kind": "Policy", "apiVersion": "v1", "extenders": [{"urlPrefix": "u"}]}


def test_an_unknown_scheduler_version_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"scheduler version '1\.30' is unknown"):
        SchedulerSpec("1.30")


@pytest.mark.parametrize("text", ["a: [", "just words"])
def test_a_configuration_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="the scheduler configuration is not"):
        SchedulerSpec(config=text).text(KUBECONFIG)
