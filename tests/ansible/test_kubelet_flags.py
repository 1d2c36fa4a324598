"""The role kubelet_tuning on a kubelet with flags, which override its file."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.cores import PROGRAMS, run

ROLE = "gpushare.nodes.kubelet_tuning"


def play(folder: Path, core: str, flags: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    (folder / "config.yaml").write_text("kind: KubeletConfiguration\n")
    (folder / "flags").write_text(f'KUBELET_EXTRA_ARGS="--v=2 {flags}"\n')
    settings = {
        "kubelet_tuning_config_path": str(folder / "config.yaml"),
        "__kubelet_tuning_flag_files": [str(folder / "flags")],
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        **changes,
    }
    tasks = [{"ansible.builtin.include_role": {"name": ROLE, "tasks_from": "preflight"}}]
    file = folder / "play.yml"
    file.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    return run(
        core, "--connection=local", "--inventory=localhost,", f"--extra-vars={json.dumps(settings)}", file
    )


ALL = {
    "kubelet_tuning_kube_reserved": {"cpu": "1"},
    "kubelet_tuning_system_reserved": {"cpu": "1"},
    "kubelet_tuning_cpu_manager_policy": "none",
}


@pytest.mark.parametrize("core", PROGRAMS)
def test_flags_with_a_longer_name_are_others(core: str, tmp_path: Path) -> None:
    flags = "--kube-reserved-cgroup=/kube --system-reserved-cgroup /system"
    done = play(tmp_path, core, flags, **ALL)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("core", PROGRAMS)
def test_flags_of_requested_settings_are_refused(core: str, tmp_path: Path) -> None:
    done = play(tmp_path, core, "--kube-reserved=cpu=2 --cpu-manager-policy none", **ALL)
    assert done.returncode != 0
    assert "flags has --kube-reserved, --cpu-manager-policy, which overrides" in " ".join(done.stdout.split())
