"""Copies of the inventory ``inventories/example``, with the hosts of a lab.

What belongs here: values that every user writes (hosts, logins, the kubeconfig, mirrors). What does not:
settings of the roles, which are the shipped ones.
"""

import json
import shutil
from pathlib import Path

from testbed.hosts import Lab, files
from testbed.hosts.spec import PACKAGES
from tests.support import needs
from tests.support.fixtures import playbooks

_EXAMPLE = playbooks.ROOT / "inventories" / "example"
_HOSTS = {
    "kube_control_plane": {"hosts": {"cp-1": None}},
    "kube_node": {"children": {"gpu_nodes": None}},
    "gpu_nodes": {"children": {"t4": {"hosts": {"gpu-1": None}}, "v100": {"hosts": {"gpu-2": None}}}},
}
_MIRROR = f"file://{PACKAGES}"
_MIRRORED = ("nvidia_driver", "container_runtime_engine", "container_runtime_toolkit")
_THERE = {"container_runtime_engine_version": "2.1.4", "container_runtime_toolkit_version": "1.18.0"}
"""The versions in the mirror."""


def copy(folder: Path, lab: Lab, kubeconfig: Path) -> Path:
    """Copy the inventory for the hosts of ``lab``; return the file that ``-i`` names."""
    shutil.copytree(_EXAMPLE, folder)
    site = {
        **files.login(lab.folder),
        "ansible_become": False,
        "cluster_kubeconfig": str(kubeconfig),
        **_THERE,
        **{f"{name}_repo_url": _MIRROR for name in _MIRRORED},
        **{f"{name}_repo_key_url": f"{_MIRROR}/gpushare-test.asc" for name in _MIRRORED},
    }
    (folder / "group_vars/all/site.yml").write_text(json.dumps(site))
    hosts = folder / "hosts.yml"
    hosts.write_text(json.dumps({"all": {"children": _HOSTS}}))
    return hosts


def command(hosts: Path, playbook: str, *flags: str) -> list[str]:
    """Return the command of the documentation."""
    path = f"ansible/playbooks/{playbook}.yml"
    return [str(needs.PLAYBOOK), "-i", str(hosts), str(playbooks.ROOT / path), *flags]
