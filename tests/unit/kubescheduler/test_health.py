from typing import Any

import pytest
import yaml

from gpushare.kubescheduler.health import health_urls
from tests.support.builders import kubeadm

OWN = "https://127.0.0.1:10259"


def pod(version: str) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load(kubeadm.scheduler(version))
    return made


def test_health_is_the_programs_own_and_each_probe_of_the_manifest() -> None:
    own = [f"{OWN}/livez", f"{OWN}/healthz"]
    assert health_urls(pod("1.22"), "kube-scheduler") == [own, [f"{OWN}/healthz"]]
    assert health_urls(pod("1.36"), "kube-scheduler") == [own, [f"{OWN}/livez"], [f"{OWN}/readyz"]]


@pytest.mark.parametrize(
    "flags",
    [
        ["--bind-address=10.0.0.1", "--secure-port=10260"],
        ["--bind-address", "10.0.0.1", "--secure-port", "10260"],
        ["--bind-address=::", "--secure-port=1", "--bind-address=10.0.0.1", "--secure-port", "10260"],
    ],
    ids=["one-word", "two-words", "twice"],
)
def test_address_and_port_are_those_of_the_flags(flags: list[str]) -> None:
    made = pod("1.22")
    container = made["spec"]["containers"][0]
    container["command"] = ["kube-scheduler", *flags]
    own = "https://10.0.0.1:10260"
    assert health_urls(made, "kube-scheduler")[0] == [f"{own}/livez", f"{own}/healthz"]


def test_without_an_address_the_program_listens_on_loopback_too() -> None:
    made = pod("1.22")
    made["spec"]["containers"][0]["command"] = ["kube-scheduler", "--bind-address=", "--secure-port="]
    assert health_urls(made, "kube-scheduler")[0] == [f"{OWN}/livez", f"{OWN}/healthz"]


def test_probes_without_a_host_are_asked_where_the_program_listens() -> None:
    made = pod("1.29")
    container = made["spec"]["containers"][0]
    container["command"] = ["kube-scheduler", "--bind-address=fd00::1", "--secure-port=0"]
    container["livenessProbe"] = {"httpGet": {"path": "/healthz", "port": 10251}}
    assert health_urls(made, "kube-scheduler") == [["http://[fd00::1]:10251/healthz"]]
