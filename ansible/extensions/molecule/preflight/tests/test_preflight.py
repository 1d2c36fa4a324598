"""The reports of preflight on fresh hosts and on a host with problems."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]


def report(name: str) -> dict[str, Any]:
    text = (Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / f"{name}.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def check(document: dict[str, Any], host: str, name: str) -> dict[str, Any]:
    return next(one for one in document["hosts"][host]["checks"] if one["name"] == name)


def test_all_hosts_are_in_both_reports(names_of: Callable[[str], list[str]]) -> None:
    assert sorted(report("fresh")["hosts"]) == names_of("all")
    assert sorted(report("faults")["hosts"]) == sorted([*names_of("all"), "gone"])
    assert len(names_of("gpu_nodes")) == 2


def test_fresh_hosts_pass_with_the_names_of_their_gpus() -> None:
    document = report("fresh")
    assert document["ok"]
    assert check(document, "gpu-1", "cards")["found"] == "1 × Tesla T4"
    assert check(document, "gpu-2", "cards")["found"] == "2 × Tesla V100 PCIe 32GB"
    assert not any(one["name"] == "cards" for one in document["hosts"]["cp-1"]["checks"])


def test_the_report_has_the_facts_of_the_host(host: Host) -> None:
    name = host.check_output("hostname")
    facts = report("fresh")["hosts"][name]["report"]
    assert facts["kernel"]["release"] == host.check_output("uname -r")
    listed = host.check_output("lspci -nn -d 10de:").splitlines()
    assert len(facts["gpus"]) == len(listed)
    free = int(host.check_output("df --output=avail -m / | tail -n 1"))
    # Other programs write to the same disk.
    assert facts["disk"]["/"]["free_mib"] == pytest.approx(free, rel=0.1)


def test_every_problem_of_a_host_is_reported_with_its_fix() -> None:
    document = report("faults")
    assert not document["ok"]
    assert document["hosts"]["gpu-1"]["level"] != "fail"
    failed = {
        one["name"]: one["problem"] for one in document["hosts"]["gpu-2"]["checks"] if one["level"] == "fail"
    }
    assert failed.keys() == {"cards", "runtime", "cpu policy"}
    assert failed["cards"].startswith("TITAN Xp in slot 0000:")
    assert "docker needs cri-dockerd from 1.24 on" in failed["runtime"]
    assert "with the CPU manager policy static, containers lose" in failed["cpu policy"]


def test_an_unreachable_host_is_reported() -> None:
    (only,) = report("faults")["hosts"]["gone"]["checks"]
    assert only["level"] == "fail"
    assert only["problem"].startswith("unreachable (")
