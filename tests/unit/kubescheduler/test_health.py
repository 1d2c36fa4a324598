from typing import Any

import yaml

from gpushare.kubescheduler.health import health_urls
from tests.builders import kubeadm

OWN = "https://127.0.0.1:10259"


def pod(version: str) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load(kubeadm.scheduler(version))
    return made


def test_health_is_the_programs_own_and_each_probe_of_the_manifest() -> None:
    own = [f"{OWN}/livez", f"{OWN}/healthz"]
    assert health_urls(pod("1.22"), "kube-scheduler") == [own, [f"{OWN}/healthz"]]
    assert health_urls(pod("1.36"), "kube-scheduler") == [own, [f"{OWN}/livez"], [f"{OWN}/readyz"]]


def test_probes_without_a_host_are_asked_where_the_program_listens() -> None:
    made = pod("1.29")
    container = made["spec"]["containers"][0]
    container["command"] = ["kube-scheduler", "--bind-address=fd00::1", "--secure-port=0"]
    container["livenessProbe"] = {"httpGet": {"path": "/healthz", "port": 10251}}
    assert health_urls(made, "kube-scheduler") == [["http://[fd00::1]:10251/healthz"]]
