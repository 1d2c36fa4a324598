"""The role container_runtime on a host that already has an engine and NVIDIA's container toolkit."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ansible import fake_packages
from tests.ansible.cores import CORES, Ended, add_program, part_of, play, printed

PRINTED = {
    "containerd": "containerd containerd.io 1.7.27 05044e",
    "nvidia-ctk": "NVIDIA Toolkit CLI version 1.21.0",
}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PRINTED.items():
        add_program(tmp_path / "bin", name, f"echo '{text}'")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def toolkit(
    host: Path, core: str, wanted: str, entry: str = "preflight", /, *flags: str, **changes: object
) -> Ended:
    settings = {"container_runtime_toolkit_version": wanted, **changes}
    return play(core, host, [part_of("container_runtime", entry)], *flags, **settings)


@pytest.mark.parametrize("core", CORES)
def test_a_newer_toolkit_is_not_downgraded_unless_allowed(core: str, host: Path) -> None:
    refused = toolkit(host, core, "1.20.1")
    assert refused.returncode != 0
    text = printed(refused)
    assert "container_runtime_toolkit_version is 1.20.1 and 1.21.0 is installed" in text
    assert toolkit(host, core, "1.20.1", container_runtime_allow_downgrade=True).returncode == 0


@pytest.mark.parametrize("wanted", ["1.21.0", "1.21.1", ""])
def test_the_same_toolkit_and_a_newer_one_are_accepted(wanted: str, host: Path) -> None:
    done = toolkit(host, "2.19", wanted)
    assert done.returncode == 0, done.stdout


def test_a_host_without_a_toolkit_is_accepted(host: Path) -> None:
    (host / "bin/nvidia-ctk").unlink()
    done = toolkit(host, "2.19", "1.20.1")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("core", CORES)
def test_an_engine_in_a_folder_that_sudo_omits_is_found(core: str, host: Path) -> None:
    (host / "local").mkdir()
    (host / "bin/containerd").rename(host / "local/containerd")
    known = {"__container_runtime_path": f"{host}/local:/usr/bin:/bin"}
    done = toolkit(host, core, "", container_runtime_engine_version="1.7.26", **known)
    assert done.returncode != 0
    assert 'container_runtime_engine_version is "1.7.26" and containerd 1.7.27 is installed' in " ".join(
        done.stdout.split()
    )


APT = shutil.which("apt-cache")
HAS_TOOLS = APT and subprocess.run([APT, "show", "python3-semanage"], capture_output=True, check=False)  # noqa: S603 - fixed command


@pytest.mark.skipif(
    not HAS_TOOLS or bool(HAS_TOOLS.returncode), reason="apt does not know the tools of SELinux"
)
@pytest.mark.parametrize("core", CORES)
def test_check_mode_works_on_a_host_with_selinux_and_without_its_tools(core: str, tmp_path: Path) -> None:
    enabled = {"__container_runtime_selinux": {"stat": {"exists": True}}}
    system = {"ansible_python_interpreter": "/usr/bin/python3"}
    done = toolkit(tmp_path, core, "", "selinux", "--check", **enabled, **system)
    assert done.returncode == 0, done.stdout


TOOLS = {
    "7": "policycoreutils policycoreutils-python libselinux-python",
    "9": "policycoreutils policycoreutils-python-utils python3-libselinux",
}


@pytest.mark.parametrize("release", TOOLS)
def test_the_tools_of_selinux_have_the_names_of_the_release(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = fake_packages.record(tmp_path, monkeypatch)
    facts = {"os_family": "RedHat", "distribution_major_version": release, "pkg_mgr": "yum"}
    enabled = {"__container_runtime_selinux": {"stat": {"exists": True}}}
    done = toolkit(tmp_path, "2.16", "", "selinux", "--check", ansible_facts=facts, **enabled)
    assert done.returncode == 0, done.stdout
    assert " ".join(names.read_text().split()) == TOOLS[release]
