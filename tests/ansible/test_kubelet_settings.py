"""Only requested settings of a kubelet change: the variables of the role kubelet_tuning."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.cores import CORES, play
from tools.role_docs import ROLES

VARIABLES = {
    name: value
    for part in ("defaults", "vars")
    for name, value in yaml.safe_load((ROLES / f"kubelet_tuning/{part}/main.yml").read_text()).items()
}
RESERVE = [{"numaNode": 0, "limits": {"memory": "1Gi"}}]
TUNED = {
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "topologyManagerPolicy": "best-effort",
    "memoryManagerPolicy": "Static",
    "reservedMemory": RESERVE,
}
OFF = {"cpu_manager_policy": "none", "memory_manager_policy": "None"}
REMOVED = {
    "cpuManagerPolicy": "none",
    "cpuManagerPolicyOptions": None,
    "memoryManagerPolicy": "None",
    "reservedMemory": None,
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing is requested": (TUNED, {}, {}),
    "a value is there": (TUNED, {"topology_manager_policy": "best-effort"}, {}),
    "one policy does not change the others": (
        TUNED,
        {"topology_manager_policy": "none"},
        {"topologyManagerPolicy": "none"},
    ),
    "a policy that is turned off loses its options": (TUNED, OFF, REMOVED),
    "reserves are replaced": (
        TUNED,
        {"system_reserved": {"cpu": "1"}, "reserved_memory": RESERVE},
        {"systemReserved": {"cpu": "1"}},
    ),
}
"""Present settings, variables of the role, changes; None removes a setting."""


@pytest.mark.parametrize("core", CORES)
def test_only_requested_settings_change(core: str, tmp_path: Path) -> None:
    tasks = [
        task("__kubelet_tuning_changes", tmp_path / name, present, requested)
        for name, (present, requested, _) in CASES.items()
    ]
    assert play(core, tmp_path, tasks).returncode == 0
    assert {name: read(tmp_path / name) for name in CASES} == {name: each[2] for name, each in CASES.items()}


def test_defaults_of_the_kubelet_hold_and_are_not_written(tmp_path: Path) -> None:
    requested = {**OFF, "topology_manager_policy": "none"}
    tasks = [
        task("__kubelet_tuning_merged", tmp_path / "text", {"maxPods": 77}, requested),
        task("__kubelet_tuning_settings", tmp_path / "all", {"topologyManagerPolicy": "restricted"}, {}),
    ]
    assert play("2.19", tmp_path, tasks).returncode == 0
    assert read(tmp_path / "text") == json.dumps({"maxPods": 77})
    assert read(tmp_path / "all") == {
        "cpuManagerPolicy": "none",
        "topologyManagerPolicy": "restricted",
        "memoryManagerPolicy": "None",
    }


def task(name: str, file: Path, present: dict[str, Any], requested: dict[str, Any]) -> dict[str, Any]:
    """Write a variable of the role to the file."""
    variables = {f"kubelet_tuning_{key}": value for key, value in requested.items()}
    files = {"texts": {"/var/lib/kubelet/config.yaml": json.dumps(present)}}
    copy = {"content": f"{{{{ {name} | to_json }}}}", "dest": str(file)}
    return {"ansible.builtin.copy": copy, "vars": {**VARIABLES, **variables, "__kubelet_tuning_files": files}}


def read(file: Path) -> Any:
    return json.loads(file.read_text())
