"""The roles leave alone what the GPU Operator or a cloud image manages.

A module on one of these hosts would fail, because their Python does not exist: nothing reads or changes them.
"""

from pathlib import Path

import pytest
import yaml

from tests.ansible.cores import CHECKOUT, CORES, Ended, printed, run

UNMANAGED = {
    "nvidia_driver_state": "unmanaged",
    "container_runtime_state": "unmanaged",
    "container_runtime_regions_size": "",
    "scheduler_extender_state": "unmanaged",
    "ansible_connection": "local",
    "ansible_python_interpreter": "/nowhere",
}


def play(folder: Path, core: str, playbook: str) -> Ended:
    file = folder / "hosts.yml"
    children = {
        "gpu_nodes": {"hosts": {"gpu-1": None, "gpu-2": None}},
        "kube_control_plane": {"hosts": {"cp-1": None}},
    }
    file.write_text(yaml.safe_dump({"all": {"children": children, "vars": UNMANAGED}}))
    return run(core, f"--inventory={file}", CHECKOUT / f"ansible/playbooks/{playbook}.yml")


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("playbook", ["upgrade_driver", "rollback"])
def test_no_playbook_of_drivers_touches_unmanaged_hosts_and_the_roles_say_so(
    playbook: str, core: str, tmp_path: Path
) -> None:
    done = play(tmp_path, core, playbook)
    assert done.returncode == 0, done.stdout
    text = printed(done)
    assert "This run takes 0 of 2 GPU nodes out of service." in text
    for host in ("gpu-1", "gpu-2"):
        assert f"{host}: nvidia_driver_state is unmanaged, so the driver is not changed" in text
        assert f"{host}: container_runtime_state is unmanaged, so engine and toolkit are not changed" in text
    assert "flush_handlers" not in done.stderr


@pytest.mark.parametrize("core", CORES)
def test_an_unmanaged_scheduler_is_not_touched_and_the_role_says_so(core: str, tmp_path: Path) -> None:
    done = play(tmp_path, core, "scheduler")
    assert done.returncode == 0, done.stdout
    text = printed(done)
    assert "cp-1: scheduler_extender_state is unmanaged, so kube-scheduler is not changed" in text
