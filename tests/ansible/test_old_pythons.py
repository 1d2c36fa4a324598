"""The helpers of modules return the same under every installed Python, from 2.7 on.

CentOS 7 has 2.7, Ubuntu 16.04 has 3.5.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import ansible_collections.gpushare.nodes.plugins.module_utils.host_system as one_of_them

ROOT = Path(__file__).parents[2]
LEGACY = ROOT / "ansible/legacy/.venv/bin/ansible-playbook"
PACKAGE = "ansible_collections/gpushare/nodes/plugins/module_utils"
HELPERS = (
    "host_cdi",
    "host_system",
    "host_gpus",
    "host_kubelet",
    "host_operator",
    "host_programs",
    "host_runtimes",
    "static_pods",
    "text_files",
)
SCRIPT = """
import json, sys
from ansible_collections.gpushare.nodes.plugins.module_utils import %s
root = sys.argv[1]
programs = host_programs.Programs(lambda name: None, None, driver_root=True)
print(json.dumps([
    host_system.operating_system(root), host_system.cgroup_version(root), host_gpus.pci_gpus(root),
    host_kubelet.kubelet_settings(root, 0), host_runtimes.toolkit_settings(root),
    host_runtimes.nvidia_in_files(root), host_cdi.specifications(root),
    host_operator.installed(root), programs.versions(), programs.smi(),
    host_programs.parse_units(u"Id=a.service\\nLoadState=loaded\\nMainPID=1"),
    text_files.read(root + "/etc/os-release"), text_files.read(root + "/absent"),
    host_system.apt_library(root), static_pods.processes("absent", []),
    static_pods.problem_of("https://127.0.0.1:1/livez", dict.fromkeys(
        ["ca_file", "cert_file", "key_file", "server_name"]), 1),
], sort_keys=True))
"""
FOR_COPY = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
FILES = {
    "etc/os-release": 'ID=centos\nVERSION_ID="7"\nPRETTY_NAME="CentOS Linux 7 (Größe)"\n',
    "etc/centos-release": "CentOS Linux release 7.9.2009 (Core)\n",
    "sys/fs/cgroup/memory/cgroup.procs": "",
    "sys/bus/pci/devices/0000:3b:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:3b:00.0/device": "0x1eb8\n",
    "sys/bus/pci/devices/0000:3b:00.0/class": "0x030200\n",
    "usr/share/hwdata/pci.ids": "10de  NVIDIA\n\t1eb8  TU104GL [Tesla T4]\n",
    "etc/sysconfig/kubelet": "KUBELET_EXTRA_ARGS=--cpu-manager-policy=static\n",
    "etc/docker/daemon.json": '{"runtimes": {"nvidia": {}}}',
}


def interpreters() -> list[str]:
    """From 2.7 to the newest, on the path or from pyenv; 2.7 from an old release if there is none."""
    names = ("python2.7", "python3.5", "python3.6", "python3.7", "python3.8", "python3.11")
    managed = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob("versions/*/bin/python")
    found = [path for name in names if (path := shutil.which(name))]
    found = [path for path in (*found, *sorted(map(str, managed))) if _runs(path)]
    return found if any(map(is_old, found)) else [_old_python(), *found]


def is_old(path: str) -> bool:
    return version_of(path) == (2, 7)


def _old_python() -> str:
    # The environment of these tests does not have what the testbed requires.
    command = [str(ROOT / ".venv/bin/python"), "-m", "tests.support.fixtures.userlands"]
    return subprocess.check_output(command, cwd=ROOT, text=True, timeout=300).strip()  # noqa: S603 - ours


def _runs(path: str) -> bool:
    return subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode == 0  # noqa: S603 - ours


@pytest.mark.needs("root")
def test_all_pythons_return_the_same(tmp_path: Path) -> None:
    pythons = interpreters()
    assert any(map(is_old, pythons))
    folder = tmp_path / PACKAGE
    folder.mkdir(parents=True)
    for helper in HELPERS:
        shutil.copy(Path(one_of_them.__file__).with_name(f"{helper}.py"), folder)
    for package in (folder, *folder.parents[:4]):
        (package / "__init__.py").touch()
    for name, text in FILES.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    answers = {path: answer(path, tmp_path) for path in pythons}
    assert len(set(answers.values())) == 1, answers
    system, cgroup, gpus, *_ = json.loads(answers[pythons[0]])
    assert (system["version"], cgroup, gpus[0]["name"]) == ("7.9", "v1", "Tesla T4")


@pytest.mark.needs("root")
def test_the_role_runs_under_ansible_core_2_16_on_python_2_7(tmp_path: Path) -> None:
    old = next(filter(is_old, interpreters()))
    assert LEGACY.exists(), f"there is no {LEGACY}: run `make setup-ansible`"
    variables = {"ansible_connection": "local", "ansible_python_interpreter": old, "preflight_node": "plain"}
    role = {"roles": ["gpushare.nodes.preflight"], "vars": variables}
    play = [{"hosts": "all", "gather_facts": False, **role}]
    (tmp_path / "play.json").write_text(json.dumps(play))
    report = tmp_path / "report.json"
    argv: list[str | Path] = [
        LEGACY,
        "--inventory=old,",
        f"--extra-vars=preflight_report_path={report}",
        tmp_path / "play.json",
    ]
    subprocess.run(argv, cwd=ROOT, check=False, capture_output=True)  # noqa: S603 - our own words
    facts = json.loads(report.read_text())["hosts"]["old"]["report"]
    assert facts["python"].startswith("2.7.")
    assert facts["kernel"]["release"] == os.uname().release


@pytest.mark.needs("root")
def test_settings_are_written_and_a_static_pod_is_observed_on_python_2_7(tmp_path: Path) -> None:
    old = next(filter(is_old, interpreters()))
    file, seen = tmp_path / "etc/settings", tmp_path / "seen.json"
    local = {"ansible_connection": "local", "ansible_python_interpreter": old}
    tasks = [
        {"gpushare.nodes.write_file": {"path": str(file), "content": "größer\n", "mode": "0600"}},
        {"gpushare.nodes.static_pod_state": {"program": "absent"}, "register": "seen"},
        {"copy": {"content": "{{ seen | to_json }}", "dest": str(seen)}, "vars": FOR_COPY},
    ]
    play = [{"hosts": "all", "gather_facts": False, "vars": local, "tasks": tasks}]
    (tmp_path / "play.json").write_text(json.dumps(play))
    argv: list[str | Path] = [LEGACY, "--inventory=old,", "--diff", tmp_path / "play.json"]
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S603 - our own words
    assert done.returncode == 0, done.stdout
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("größer\n", 0o600)
    assert json.loads(seen.read_text())["processes"] == []


def version_of(path: str) -> tuple[int, ...]:
    text = output([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    return tuple(map(int, text.split(".")))


def answer(path: str, folder: Path) -> str:
    return output([path, "-c", SCRIPT % ", ".join(HELPERS), str(folder / "root")], PYTHONPATH=str(folder))


def output(argv: list[str], **environment: str) -> str:
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.check_output(argv, text=True, env=environment)  # noqa: S603 - our own words
