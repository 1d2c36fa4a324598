"""What preflight said of hosts as they are, and of one with every fault."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]


def said(name: str) -> dict[str, Any]:
    text = (Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / f"{name}.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def check(document: dict[str, Any], host: str, name: str) -> dict[str, Any]:
    return next(one for one in document["hosts"][host]["checks"] if one["name"] == name)


def test_all_hosts_are_in_both_reports(names_of: Callable[[str], list[str]]) -> None:
    assert sorted(said("fresh")["hosts"]) == names_of("all")
    assert sorted(said("faults")["hosts"]) == sorted([*names_of("all"), "gone"])
    assert len(names_of("gpu_nodes")) == 2


def test_fresh_hosts_are_fit_and_their_cards_named() -> None:
    document = said("fresh")
    assert document["ok"]
    assert check(document, "gpu-1", "cards")["found"] == "1 × Tesla T4"
    assert check(document, "gpu-2", "cards")["found"] == "2 × Tesla V100 PCIe 32GB"
    assert not any(one["name"] == "cards" for one in document["hosts"]["cp-1"]["checks"])


def test_the_report_has_what_the_host_itself_says(host: Host) -> None:
    name = host.check_output("hostname")
    facts = said("fresh")["hosts"][name]["report"]
    assert facts["kernel"]["release"] == host.check_output("uname -r")
    listed = host.check_output("lspci -nn -d 10de:").splitlines()
    assert len(facts["gpus"]) == len(listed)
    free = int(host.check_output("df --output=avail -m / | tail -n 1"))
    # Others write to the same disk in the meantime.
    assert facts["disk"]["/"]["free_mib"] == pytest.approx(free, rel=0.1)


def test_every_fault_of_a_host_is_told_with_its_way_out() -> None:
    document = said("faults")
    assert not document["ok"]
    assert document["hosts"]["gpu-1"]["level"] != "fail"
    failed = {
        one["name"]: one["problem"] for one in document["hosts"]["gpu-2"]["checks"] if one["level"] == "fail"
    }
    assert failed.keys() == {"cards", "runtime", "cpu policy"}
    assert failed["cards"].startswith("TITAN Xp in slot 0000:")
    assert "docker needs cri-dockerd from 1.24 on" in failed["runtime"]
    assert "cannot use the CPU manager policy static" in failed["cpu policy"]


def test_a_host_that_nobody_reaches_is_told_too() -> None:
    (only,) = said("faults")["hosts"]["gone"]["checks"]
    assert only["level"] == "fail"
    assert only["problem"].startswith("unreachable (")
