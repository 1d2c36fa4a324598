"""The role container_runtime with a real containerd whose settings are in several files.

Three hosts, which are folders of this machine: the role changes the file that imports the others, one of the
imported files, or a file whose settings another one overrides.
"""

import asyncio
import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from testbed.programs.build import ensure
from tests.support.fixtures import playbooks
from tests.support.needs import PLAYBOOK

pytestmark = pytest.mark.needs("playbooks")

CRI: Final = "io.containerd.cri.v1.runtime"
ROLE: Final = "gpushare.nodes.container_runtime"
BINARY: Final = "/usr/bin/nvidia-container-runtime"
RUNTIMES: Final = f"plugins.'{CRI}'.containerd.runtimes"
MAIN: Final = f"""\
version = 3
imports = ["conf.d/*.toml"]
[{RUNTIMES}.runc.options]
SystemdCgroup = false
Root = "/of/main"
"""
# Files of the role that are the same on every host.
FILES: Final = {
    "__container_runtime_toolkit_config": "{{ folder }}/toolkit.toml",
    "__container_runtime_restart_file": "{{ folder }}/restart",
}
OF_RUNC: Final = f"version = 3\n[{RUNTIMES}.runc.options]\nSystemdCgroup = true\nShimCgroup = '/shim'\n"
OF_DEFAULT: Final = f"version = 3\n[plugins.'{CRI}'.containerd]\ndefault_runtime_name = 'runc'\n"


def host(folder: Path, program: Path, **imported: str) -> dict[str, Any]:
    """Write the settings of a host; return its variables."""
    (folder / "conf.d").mkdir(parents=True)
    (folder / "config.toml").write_text(MAIN)
    for name, text in imported.items():
        (folder / f"conf.d/{name}.toml").write_text(text)
    return {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "container_runtime_engine_program": str(program),
        "container_runtime_engine_config": str(folder / "config.toml"),
        "container_runtime_cdi": False,
        "folder": str(folder),
    }


async def used(program: Path, folder: Path) -> dict[str, Any]:
    """What containerd itself uses of all files, for its runtimes."""
    argv = (program, "--config", folder / "config.toml", "config", "dump")
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    containerd: dict[str, Any] = tomllib.loads(output.decode())["plugins"][CRI]["containerd"]
    return containerd


async def test_the_settings_that_containerd_uses_of_several_files_win(tmp_path: Path) -> None:
    program = (await ensure(["containerd"]))["containerd"].path
    imported = tmp_path / "imported/conf.d/99-gpushare.toml"
    hosts = {
        "own": host(tmp_path / "own", program, runc=OF_RUNC),
        "imported": {
            **host(tmp_path / "imported", program, runc=OF_RUNC),
            "container_runtime_engine_config": str(imported),
            "container_runtime_engine_base_config": str(tmp_path / "imported/config.toml"),
        },
        "overridden": host(tmp_path / "overridden", program, other=OF_DEFAULT),
    }
    tasks = [
        {"ansible.builtin.include_role": {"name": ROLE, "tasks_from": part, "public": True}}
        for part in ("preflight", "configure")
    ]
    inventory, play = tmp_path / "hosts.json", tmp_path / "play.json"
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    argv = [str(PLAYBOOK), f"--inventory={inventory}", f"--extra-vars={json.dumps(FILES)}", str(play)]

    run = await playbooks.run(argv)
    results = dict(re.findall(r"^(\w+) +: .*failed=(\d)", run.output, re.MULTILINE))
    assert results == {"own": "0", "imported": "0", "overridden": "1"}, run.output
    for name in ("own", "imported"):
        containerd = await used(program, tmp_path / name)
        runc, nvidia = (containerd["runtimes"][each]["options"] for each in ("runc", "nvidia"))
        assert containerd["default_runtime_name"] == "nvidia"
        assert (runc["SystemdCgroup"], runc["Root"], runc["ShimCgroup"]) == (True, "/of/main", "/shim")
        assert nvidia == {key: runc[key] for key in nvidia} | {"BinaryName": BINARY}
        assert nvidia.keys() >= {"SystemdCgroup", "Root", "ShimCgroup"}
    assert "runc" not in tomllib.loads(imported.read_text())["plugins"][CRI]["containerd"]["runtimes"]
    assert "default_runtime_name is runc" in run.text
    assert "imports conf.d/*.toml, and of files with the same settings the last one counts" in run.text
    assert (await playbooks.run([*argv, "--limit=own,imported"])).changed == {"own": 0, "imported": 0}
