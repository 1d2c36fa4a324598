"""The reports of validate on correct nodes and on one with problems."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testinfra.host import Host

testinfra_hosts = ["ansible://gpu-1"]


def report(name: str) -> dict[str, Any]:
    text = (Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / f"{name}.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def found(document: dict[str, Any], host: str) -> dict[str, str]:
    return {one["name"]: one["found"] for one in document["hosts"][host]["checks"]}


def test_all_hosts_are_in_both_reports(names_of: Callable[[str], list[str]]) -> None:
    assert sorted(report("correct")["hosts"]) == sorted(report("faults")["hosts"]) == names_of("all")
    assert len(names_of("gpu_nodes")) == 2


def test_correct_nodes_pass_with_their_facts(host: Host) -> None:
    document = report("correct")
    assert document["ok"]
    assert document["counts"] == {"ok": 3, "warn": 0, "fail": 0}
    installed = host.package("nvidia-driver-cuda").version.partition("-")[0]
    assert found(document, "gpu-1")["driver"] == installed
    assert found(document, "gpu-1")["cards"] == "1 of 1"
    assert found(document, "gpu-2")["cards"] == "2 of 2"


def test_problems_are_reported_with_their_fix() -> None:
    document = report("faults")
    assert not document["ok"]
    assert document["hosts"]["gpu-1"]["level"] == "ok"
    failed = {
        one["name"]: one["problem"] for one in document["hosts"]["gpu-2"]["checks"] if one["level"] == "fail"
    }
    assert failed.keys() == {"driver", "cards", "runtime", "toolkit", "services"}
    assert "nvidia-smi is not installed" in failed["driver"]
    assert "its service containerd is inactive: journalctl -u containerd" in failed["runtime"]
    assert "envvar-when-unprivileged is not false: run the role container_runtime" in failed["toolkit"]
