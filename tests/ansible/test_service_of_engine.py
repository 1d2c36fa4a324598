"""The role validate with the service of an engine, named with or without its suffix, as for systemd."""

import json
from pathlib import Path

import pytest

from tests.ansible.cores import CORES, add_program, play

# A host where only k3s runs.
SYSTEMCTL = """\
for word; do
    case "$word" in
        k3s-agent.service) printf 'Id=%s\\nLoadState=loaded\\nActiveState=active\\nMainPID=2\\n\\n' "$word" ;;
        *.service) printf 'Id=%s\\nLoadState=not-found\\nActiveState=inactive\\nMainPID=0\\n\\n' "$word" ;;
    esac
done
"""
CONTAINERD = "echo containerd containerd.io 1.7.27 05044e"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"systemctl": SYSTEMCTL, "containerd": CONTAINERD}.items():
        add_program(tmp_path, name, text)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def problems(host: Path, core: str, service: str) -> dict[str, str]:
    """Return the problem of each check."""
    variables = {
        "validate_container_runtime_engine_service": service,
        "validate_cluster": False,
        "validate_report_path": str(host / "report.json"),
    }
    validate = {"ansible.builtin.include_role": {"name": "gpushare.nodes.validate"}}
    done = play(core, host, [validate], **variables)
    assert (host / "report.json").exists(), done.stdout
    checks = json.loads((host / "report.json").read_text())["hosts"]["localhost"]["checks"]
    return {check["name"]: check["problem"] for check in checks}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("service", ["k3s-agent", "k3s-agent.service"])
def test_a_service_that_runs_is_found(service: str, core: str, host: Path) -> None:
    found = problems(host, core, service)
    assert not found["services"]
    assert "its service" not in found["runtime"]


def test_a_service_that_the_host_does_not_have_is_named(host: Path) -> None:
    found = problems(host, "2.19", "k3s.service")
    assert found["services"] == "service k3s is absent: journalctl -u k3s"
    assert "its service k3s is absent" in found["runtime"]
