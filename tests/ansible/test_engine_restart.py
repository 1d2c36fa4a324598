"""The role container_runtime restarts an engine, which may not start with its new settings."""

from pathlib import Path

import pytest

from tests.ansible.cores import CORES, Ended, add_program, part_of, play, printed

# The engine starts unless a file says that the settings are wrong for it.
# The text is the same in all tests, so that they share its archive.
SERVICE = """#!/usr/bin/python
import os
from ansible.module_utils.basic import AnsibleModule
folder = os.environ["FAKE_HOST"]
options = {"name": {}, "state": {}, "enabled": {"type": "bool"}}
module = AnsibleModule(options, supports_check_mode=True)
if module.params["state"]:
    with open(folder + "/states", "a") as file:
        file.write(module.params["state"] + "\\n")
text = None
if module.params["state"] and os.path.exists(folder + "/config.toml"):
    with open(folder + "/config.toml") as file:
        text = file.read()
if text and os.path.exists(folder + "/refuses") and open(folder + "/refuses").read() in text:
    module.fail_json(msg="Job for containerd.service failed")
module.exit_json(changed=True)
"""
PRINTED = {"containerd": "containerd containerd.io 1.7.27 05044e", "journalctl": "invalid plugin config"}
FORMER = 'version = 2\n[debug]\nlevel = "warn"\n'


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PRINTED.items():
        add_program(tmp_path / "bin", name, f"echo '{text}'")
    add_program(tmp_path / "bin", "systemctl", 'echo "$1" >>"$FAKE_HOST/states"')
    (tmp_path / "library").mkdir()
    (tmp_path / "library/service.py").write_text(SERVICE)
    monkeypatch.setenv("FAKE_HOST", str(tmp_path))
    monkeypatch.setenv("ANSIBLE_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def configure(host: Path, core: str, *flags: str, restart: bool = True) -> Ended:
    settings = {
        "container_runtime_engine_config": f"{host}/config.toml",
        "container_runtime_cdi": False,
        "container_runtime_restart": restart,
        "__container_runtime_toolkit_config": f"{host}/toolkit.toml",
        "__container_runtime_path": f"{host}/bin:/usr/bin:/bin",
        "__container_runtime_restart_file": f"{host}/restart",
        "ansible_facts": {"os_family": "Debian", "pkg_mgr": "apt", "service_mgr": "service"},
    }
    parts = ("preflight", "configure", "service")
    tasks = [part_of("container_runtime", part, public=True) for part in parts]
    return play(core, host, tasks, *flags, **settings)


def states(host: Path) -> list[str]:
    return (host / "states").read_text().split()


@pytest.mark.parametrize("core", CORES)
def test_the_former_settings_are_restored_if_the_engine_does_not_start(core: str, host: Path) -> None:
    (host / "config.toml").write_text(FORMER)
    (host / "config.toml").chmod(0o600)
    (host / "refuses").write_text("nvidia")
    done = configure(host, core)
    assert done.returncode != 0
    text = printed(done)
    assert f"containerd did not start with the changed {host}/config.toml" in text
    assert "so the former file was restored. Log of the failed start: invalid plugin config" in text
    assert (host / "config.toml").read_text() == FORMER
    assert (host / "config.toml").stat().st_mode & 0o777 == 0o600
    # Systemd would refuse the second start at the start limit.
    assert states(host) == ["restarted", "reset-failed", "restarted"]
    assert not (host / "restart").exists()


def test_a_file_that_did_not_exist_is_removed(host: Path) -> None:
    (host / "refuses").write_text("nvidia")
    done = configure(host, "2.19")
    assert done.returncode != 0
    assert "so the file was removed again" in printed(done)
    assert not (host / "config.toml").exists()
    assert states(host) == ["restarted", "reset-failed", "restarted"]


def test_an_engine_that_never_starts_is_said_to_fail_with_both(host: Path) -> None:
    (host / "config.toml").write_text(FORMER)
    (host / "refuses").write_text("version")
    done = configure(host, "2.19")
    assert done.returncode != 0
    text = printed(done)
    assert "the former file was restored, with which it does not start either" in text


@pytest.mark.parametrize("core", CORES)
def test_settings_of_an_earlier_run_are_kept(core: str, host: Path) -> None:
    (host / "config.toml").write_text(FORMER)
    assert configure(host, core, restart=False).returncode == 0
    assert states(host) == ["started"]
    changed = (host / "config.toml").read_text()
    assert "nvidia" in changed
    (host / "refuses").write_text("nvidia")
    done = configure(host, core)
    assert done.returncode != 0
    text = printed(done)
    assert f"did not start. This run has not changed {host}/config.toml. Log of the failed start" in text
    assert (host / "config.toml").read_text() == changed
    assert (host / "restart").exists()


@pytest.mark.parametrize("core", CORES)
def test_an_engine_that_starts_keeps_its_new_settings(core: str, host: Path) -> None:
    (host / "config.toml").write_text(FORMER)
    done = configure(host, core)
    assert done.returncode == 0, done.stdout
    assert "nvidia" in (host / "config.toml").read_text()
    assert states(host) == ["restarted"]
    assert not (host / "restart").exists()
    (host / "states").write_text("")
    assert configure(host, core).returncode == 0
    assert states(host) == ["started"]


def test_check_mode_restarts_nothing(host: Path) -> None:
    (host / "config.toml").write_text(FORMER)
    done = configure(host, "2.19", "--check")
    assert done.returncode == 0, done.stdout
    assert states(host) == ["started"]
