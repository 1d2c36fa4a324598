"""The role validate with the service of an engine, named with or without its suffix, as for systemd."""

import json
from pathlib import Path

import pytest
import yaml

from tests.ansible.cores import CORES, run

# A host where only k3s runs.
SYSTEMCTL = """#!/bin/sh
for word; do
    case "$word" in
        k3s-agent.service) printf 'Id=%s\\nLoadState=loaded\\nActiveState=active\\nMainPID=2\\n\\n' "$word" ;;
        *.service) printf 'Id=%s\\nLoadState=not-found\\nActiveState=inactive\\nMainPID=0\\n\\n' "$word" ;;
    esac
done
"""
CONTAINERD = "#!/bin/sh\necho containerd containerd.io 1.7.27 05044e\n"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"systemctl": SYSTEMCTL, "containerd": CONTAINERD}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def problems(host: Path, core: str, service: str) -> dict[str, str]:
    """Return the problem of each check."""
    variables = {
        "validate_container_runtime_engine_service": service,
        "validate_cluster": False,
        "validate_report_path": str(host / "report.json"),
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    file = host / "play.yml"
    file.write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "roles": ["gpushare.nodes.validate"]}])
    )
    extra = f"--extra-vars={json.dumps(variables)}"
    done = run(core, "--connection=local", "--inventory=localhost,", extra, file)
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
