"""The role kubelet_tuning on a kubelet with flags, which override its file, and with a linked file."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.cores import CORES, Ended, part_of, play, printed

# JSON is YAML too, and Ansible before 2.19 parses text that looks like it.
CONFIG = '{"kind": "KubeletConfiguration"}\n'


def tune(folder: Path, core: str, flags: str, entry: str = "preflight", /, **changes: Any) -> Ended:
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "flags").write_text(f'KUBELET_EXTRA_ARGS="--v=2 {flags}"\n')
    settings = {
        "kubelet_tuning_config_path": str(folder / "config.yaml"),
        "__kubelet_tuning_flag_files": [str(folder / "flags")],
        **changes,
    }
    return play(core, folder, [part_of("kubelet_tuning", entry)], **settings)


ALL = {
    "kubelet_tuning_kube_reserved": {"cpu": "1"},
    "kubelet_tuning_system_reserved": {"cpu": "1"},
    "kubelet_tuning_cpu_manager_policy": "none",
}


@pytest.mark.parametrize("core", CORES)
def test_flags_with_a_longer_name_are_others(core: str, tmp_path: Path) -> None:
    flags = "--kube-reserved-cgroup=/kube --system-reserved-cgroup /system"
    done = tune(tmp_path, core, flags, **ALL)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("core", CORES)
def test_flags_of_requested_settings_are_refused(core: str, tmp_path: Path) -> None:
    done = tune(tmp_path, core, "--kube-reserved=cpu=2 --cpu-manager-policy none", **ALL)
    assert done.returncode != 0
    assert "flags has --kube-reserved, --cpu-manager-policy, which overrides" in printed(done)


@pytest.mark.parametrize("core", CORES)
def test_flags_of_other_settings_and_comments_are_kept(core: str, tmp_path: Path) -> None:
    flags = '--eviction-hard=imagefs.available<5%"\n# OLD="--cpu-manager-policy=static'
    done = tune(tmp_path, core, flags, "main")
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
    assert (tmp_path / "config.yaml").read_text() == CONFIG


@pytest.mark.parametrize(
    "flag",
    [
        "--cpu-manager-policy=static",
        "--topology-manager-policy restricted",
        "--topology-manager-policy=single-numa-node",
    ],
)
def test_flags_that_break_sharing_are_refused_on_a_node_that_shares(flag: str, tmp_path: Path) -> None:
    done = tune(tmp_path, "2.19", flag)
    assert done.returncode != 0
    assert f"flags has {flag}, which" in printed(done)
    assert tune(tmp_path, "2.19", flag, kubelet_tuning_share_node=False).returncode == 0


@pytest.mark.parametrize("core", CORES)
def test_a_kubelet_without_a_file_is_kept_if_no_setting_is_requested(core: str, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.yaml")
    done = tune(tmp_path, core, "", "main", kubelet_tuning_config_path=absent)
    assert done.returncode == 0, done.stdout
    assert f"{absent} does not exist" in printed(done)
    refused = tune(tmp_path, core, "", "main", kubelet_tuning_config_path=absent, **ALL)
    assert refused.returncode != 0
    assert "join the host to the cluster first" in printed(refused)


def test_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    link, file = tmp_path / "link.yaml", tmp_path / "config.yaml"
    link.symlink_to(file)
    changes = {
        "kubelet_tuning_config_path": str(link),
        "__kubelet_tuning_restart_file": f"{tmp_path}/restart",
    }
    done = tune(tmp_path, "2.19", "", "main", kubelet_tuning_restart=False, **changes, **ALL)
    assert done.returncode == 0, done.stdout
    assert link.is_symlink()
    assert yaml.safe_load(file.read_text())["kubeReserved"] == {"cpu": "1"}
