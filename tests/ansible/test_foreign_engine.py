"""The role container_runtime with a containerd of another product, as on k3s and RKE2."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.ansible.cores import CORES, Ended, add_program, part_of, play, printed

CRI = "io.containerd.cri.v1.runtime"
# As k3s writes it at each start: its own folders, the cgroup driver, an import.
GENERATED = f"""
version = 3
imports = ["/k3s/config-v3.toml.d/*.toml"]
[plugins.'{CRI}'.cni]
bin_dir = "/k3s/cni"
[plugins.'{CRI}'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'{CRI}'.containerd.runtimes.runc.options]
SystemdCgroup = true
"""


def configure(folder: Path, core: str, release: str = "2.1.4-k3s1", /, **changes: str) -> Ended:
    add_program(folder, "containerd", f"echo containerd github.com/k3s-io/containerd v{release}")
    (folder / "config.toml").write_text(GENERATED)
    settings = {
        "container_runtime_engine_program": str(folder / "containerd"),
        "container_runtime_engine_config": str(folder / "99-gpushare.toml"),
        "container_runtime_engine_base_config": str(folder / "config.toml"),
        "__container_runtime_release": "{{ __container_runtime_installed }}",
        **changes,
    }
    written = {"content": "{{ __container_runtime_merged }}", "dest": str(folder / "99-gpushare.toml")}
    tasks = [
        part_of("container_runtime", "preflight", public=True),
        {"ansible.builtin.copy": {**written, "mode": "0644"}},
    ]
    return play(core, folder, tasks, **settings)


@pytest.mark.parametrize("core", CORES)
def test_the_imported_file_gets_nvidia_with_the_settings_of_runc(core: str, tmp_path: Path) -> None:
    done = configure(tmp_path, core)
    assert done.returncode == 0, done.stdout
    config: dict[str, Any] = tomllib.loads((tmp_path / "99-gpushare.toml").read_text())
    containerd = config["plugins"][CRI]["containerd"]
    assert (config["version"], containerd["default_runtime_name"]) == (3, "nvidia")
    assert containerd["runtimes"]["nvidia"] == {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"SystemdCgroup": True, "BinaryName": "/usr/bin/nvidia-container-runtime"},
    }
    assert (tmp_path / "config.toml").read_text() == GENERATED


@pytest.mark.parametrize("core", CORES)
def test_a_program_that_does_not_run_is_refused_before_any_change(core: str, tmp_path: Path) -> None:
    done = configure(tmp_path, core, container_runtime_engine_program="/nowhere/containerd")
    assert done.returncode != 0
    text = printed(done)
    assert 'container_runtime_engine_program is "/nowhere/containerd", which does not run' in text
    assert not (tmp_path / "99-gpushare.toml").exists()


def test_an_engine_of_another_product_is_not_upgraded(tmp_path: Path) -> None:
    done = configure(tmp_path, "2.19", container_runtime_engine_version="2.2.0")
    assert done.returncode != 0
    assert "which is 2.1.4: name the program" in printed(done)


def test_an_engine_that_would_drop_the_settings_of_the_base_is_refused(tmp_path: Path) -> None:
    done = configure(tmp_path, "2.19", "1.7.27-k3s1")
    assert done.returncode != 0
    text = printed(done)
    assert "containerd 1.7.27 uses of two files with settings for pods only the last one" in text
    assert not (tmp_path / "99-gpushare.toml").exists()
