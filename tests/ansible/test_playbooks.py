import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.cores import CHECKOUT, CORES, run

PLAYBOOKS = sorted((CHECKOUT / "ansible/playbooks").glob("*.yml"))
INVENTORIES = sorted((CHECKOUT / "inventories").iterdir())
GOOD: dict[str, Any] = {
    "all": {
        "children": {
            "kube_control_plane": {"hosts": {"cp-1": None}},
            "gpu_nodes": {"hosts": {"gpu-1": None, "gpu-2": None}, "vars": {}},
        },
        # Contacting a host would fail.
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": "/nowhere"},
    }
}
CHECK = "Find groups without hosts, unknown variables and values of another type"


def play(
    inventory: Path, *arguments: str, core: str = "2.19", playbook: str = "site"
) -> subprocess.CompletedProcess[str]:
    return run(core, f"--inventory={inventory}", CHECKOUT / f"ansible/playbooks/{playbook}.yml", *arguments)


def inventory_of(folder: Path, without: str = "", **variables: object) -> Path:
    changed: dict[str, Any] = yaml.safe_load(yaml.safe_dump(GOOD))
    groups = changed["all"]["children"]
    groups["gpu_nodes"]["vars"] = variables
    if without:
        groups[without]["hosts"] = {}
    file = folder / "hosts.yml"
    file.write_text(yaml.safe_dump(changed))
    return file


def assert_stopped_at_once(ended: subprocess.CompletedProcess[str], *named: str) -> None:
    assert ended.returncode != 0
    assert ended.stdout.count("TASK [") == 1, ended.stdout
    assert CHECK in ended.stdout
    for name in named:
        assert name in ended.stdout + ended.stderr


@pytest.mark.parametrize("core", CORES)
def test_a_bad_inventory_stops_before_any_host_is_contacted(core: str, tmp_path: Path) -> None:
    misspelt, removed, string = "nvidia_driver_versoin", "nvidia_driver_skip_reboot", "nvidia_driver_reboot"
    file = inventory_of(tmp_path, "kube_control_plane", **{misspelt: "535", removed: True, string: "no"})
    assert_stopped_at_once(
        play(file, core=core), misspelt, removed, f"{string} is", "group kube_control_plane"
    )


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda file: file.stem)
def test_plays_that_install_packages_have_the_environment_of_the_inventory(playbook: Path) -> None:
    for each in yaml.safe_load(playbook.read_text()):
        roles = {role["role"].rpartition(".")[2] for role in each.get("roles", [])}
        if roles & {"nvidia_driver", "container_runtime"}:
            assert each["environment"] == "{{ nodes_environment | default({}) }}"


@pytest.mark.parametrize("playbook", ["nodes", "upgrade_driver", "rollback", "switch_mode"])
def test_playbooks_of_gpu_nodes_need_no_control_plane(playbook: str, tmp_path: Path) -> None:
    managed = inventory_of(tmp_path, "kube_control_plane")
    ended = play(managed, "--tags=always", playbook=playbook)
    assert CHECK in ended.stdout
    assert "kube_control_plane has no hosts" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("playbook", ["preflight", "validate", "scheduler", "site"])
def test_a_managed_control_plane_needs_no_hosts(playbook: str, core: str, tmp_path: Path) -> None:
    file = inventory_of(tmp_path, "kube_control_plane")
    assert_stopped_at_once(play(file, core=core, playbook=playbook), "scheduler_extender_state: unmanaged")
    inventory = yaml.safe_load(file.read_text())
    inventory["all"]["vars"]["scheduler_extender_state"] = "unmanaged"
    file.write_text(yaml.safe_dump(inventory))
    ended = play(file, "--tags=always", core=core, playbook=playbook)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("core", CORES)
def test_schedulers_are_not_restored_without_control_planes(core: str, tmp_path: Path) -> None:
    managed = inventory_of(tmp_path, "kube_control_plane")
    ended = play(managed, "--tags=scheduler_extender", core=core, playbook="rollback")
    assert_stopped_at_once(ended, "group kube_control_plane has no hosts")


def test_an_empty_inventory_fails(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yml"
    file.write_text("all: {hosts: {}}")
    assert_stopped_at_once(play(file), "group gpu_nodes has no hosts")


def test_a_bad_inventory_stops_a_run_on_one_host(tmp_path: Path) -> None:
    file = inventory_of(tmp_path, nvidia_driver_reboot="no")
    assert_stopped_at_once(play(file, "--limit=cp-1"), "nvidia_driver_reboot")


@pytest.mark.parametrize(
    ("playbook", "options"),
    [
        ("nodes", ["-e", "nodes_serial=2", "-e", "nodes_max_fail_percentage=10"]),
        ("upgrade_driver", ["-e", "upgrade_driver_serial=2", "-e", "upgrade_driver_max_fail_percentage=10"]),
    ],
)
def test_the_documented_options_of_playbooks_pass_the_check(
    playbook: str, options: list[str], tmp_path: Path
) -> None:
    readme = (CHECKOUT / "ansible/README.md").read_text()
    assert all(option in readme for option in options)
    ended = play(inventory_of(tmp_path), "--tags=always", *options, playbook=playbook)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_string_from_the_command_line_is_not_a_boolean(tmp_path: Path) -> None:
    ended = play(inventory_of(tmp_path), "--extra-vars=nvidia_driver_reboot=no")
    assert_stopped_at_once(ended, "nvidia_driver_reboot")


@pytest.mark.parametrize("folder", INVENTORIES, ids=lambda folder: folder.name)
def test_our_own_inventories_pass_the_check(folder: Path) -> None:
    wanted = '{"check_inventory_groups": ["kube_control_plane", "kube_node", "gpu_nodes"]}'
    ended = play(folder / "hosts.yml", f"--extra-vars={wanted}", playbook="check_inventory")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert CHECK in ended.stdout


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda playbook: playbook.stem)
def test_every_playbook_starts_with_the_check(playbook: Path) -> None:
    first = yaml.safe_load(playbook.read_text())[0]
    if playbook.name == "check_inventory.yml":
        assert first["hosts"] == "localhost,all"
    elif playbook.name == "driver_changes.yml":
        # A part of others, which start with the check.
        assert first["hosts"] == "gpu_nodes"
    elif playbook.name == "site.yml":
        assert first["ansible.builtin.import_playbook"] == "preflight.yml"
    else:
        assert first["ansible.builtin.import_playbook"] == "check_inventory.yml"


@pytest.mark.parametrize(
    ("flags", "goes_on"), [([], False), (["-e", "preflight_max_fail_percentage=100"], True)]
)
def test_site_changes_nothing_unless_all_hosts_pass_preflight(
    flags: list[str],
    goes_on: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
) -> None:
    """The control plane passes, and the GPU node has no Python."""
    hosts = {"kube_control_plane": {"cp-1": sys.executable}, "gpu_nodes": {"gpu-1": "/nowhere"}}
    groups = {
        group: {"hosts": {name: {"ansible_python_interpreter": python} for name, python in found.items()}}
        for group, found in hosts.items()
    }
    file = tmp_path / "hosts.yml"
    file.write_text(yaml.safe_dump({"all": {"children": groups, "vars": {"ansible_connection": "local"}}}))
    ended = play(file, "--check", *flags)
    assert "gpu-1 failed the preflight checks" in ended.stdout
    assert ("PLAY [Configure the schedulers]" in ended.stdout) is goes_on, ended.stdout
