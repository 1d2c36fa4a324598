"""The driver on a host that reports Ubuntu 24.04, with the real apt, dpkg and a signed repository of stubs.

The base is this machine's Debian. The names of the packages are those of NVIDIA: with the branch up to 580,
without from 590 on (``testbed/hosts/stubs/nvidia.toml``).
"""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from testbed.hosts import DEBIAN, HostBase, HostSpec, Lab, repository
from testbed.hosts.stubs.driver import of_distribution
from testbed.hosts.stubs.ubuntu_driver import of_ubuntu
from tests.support import needs
from tests.support.fixtures import playbooks

pytestmark = [
    pytest.mark.needs("hosts", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

OLD, NEW = "580.65.06", "615.71.09"
MIRROR = "/srv/ubuntu"
_RELEASE = """\
NAME="Ubuntu"
VERSION="24.04.3 LTS (Noble Numbat)"
ID=ubuntu
ID_LIKE=debian
VERSION_ID="24.04"
VERSION_CODENAME=noble
PRETTY_NAME="Ubuntu 24.04.3 LTS"
"""
NOBLE = HostBase(
    DEBIAN.packages, (f"rm -f \"$1\"/etc/os-release && printf '%s' '{_RELEASE}' >\"$1\"/etc/os-release",)
)
SETTINGS = {
    "nvidia_driver_repo_url": f"file://{MIRROR}",
    "nvidia_driver_kernel_module_type": "open",
    "nvidia_driver_kernel_updates": False,
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def served() -> Path:
    """The repository, as a folder of this machine."""
    drivers = [package for version in (OLD, NEW) for package in of_ubuntu("ubuntu2404", version)]
    return await repository.ensure([*drivers, *of_distribution(os.uname().release)])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(served: Path) -> AsyncIterator[Lab]:
    spec = HostSpec("noble-1", ("kube_node", "gpu_nodes"), base=NOBLE, binds={MIRROR: served})
    async with Lab((spec,)) as hosts:
        yield hosts


async def run(
    lab: Lab, folder: Path, version: str, *flags: str, entry: str = "main", **variables: Any
) -> playbooks.Run:
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.setup": {"gather_subset": ["min"]}},
        {"ansible.builtin.include_role": {"name": "gpushare.nodes.nvidia_driver", "tasks_from": entry}},
    ]
    play = folder / "play.json"
    play.write_text(json.dumps([{"hosts": "gpu_nodes", "gather_facts": False, "tasks": tasks}]))
    extra = {**SETTINGS, "nvidia_driver_version": version, **variables}
    argv = [
        str(needs.PLAYBOOK),
        f"--inventory={lab.inventory}",
        f"--extra-vars={json.dumps(extra)}",
        *flags,
        str(play),
    ]
    return await playbooks.run(argv)


async def installed(lab: Lab) -> dict[str, str]:
    """The packages of the driver and their versions, without revisions."""
    format_ = "'${db:Status-Abbrev}${Package} ${Version}\\n'"
    text = await lab.ssh("noble-1", f"dpkg-query --show --showformat={format_} '*nvidia*' 2>/dev/null || :")
    lines = (line.split() for line in text.splitlines() if line.startswith(("ii", "hi")))
    return {name: version.partition("-")[0] for _, name, version in lines}


async def test_a_mirror_without_a_key_is_refused(lab: Lab, tmp_path: Path) -> None:
    refused = await run(lab, tmp_path, OLD)
    assert refused.code != 0
    assert "nothing says which key signs its packages" in refused.text
    assert "nvidia_driver_repo_key" in refused.text
    assert await installed(lab) == {}


async def test_nvidias_key_does_not_fit_a_mirror_that_another_key_signs(lab: Lab, tmp_path: Path) -> None:
    refused = await run(lab, tmp_path, OLD, nvidia_driver_repo_key="nvidia")
    assert refused.code != 0
    assert await installed(lab) == {}


async def test_the_driver_is_upgraded_over_the_new_names_and_rolled_back(
    lab: Lab, served: Path, tmp_path: Path
) -> None:
    key = {"nvidia_driver_repo_key": str(served / repository.KEY)}
    first = await run(lab, tmp_path, OLD, **key)
    assert first.code == 0, first.output
    found = await installed(lab)
    assert set(found.values()) == {OLD}
    assert {"nvidia-headless-580-open", "nvidia-utils-580", "nvidia-persistenced"} <= set(found)
    again = await run(lab, tmp_path, OLD, **key)
    assert again.changed == {"noble-1": 0}, again.output

    upgraded = await run(lab, tmp_path, NEW, nvidia_driver_reboot=True, **key)
    assert upgraded.code == 0, upgraded.output
    found = await installed(lab)
    assert set(found.values()) == {NEW}
    assert {"libnvidia-compute", "nvidia-dkms-open", "nvidia-persistenced"} <= set(found)
    assert NEW in await lab.ssh("noble-1", "nvidia-smi")
    again = await run(lab, tmp_path, NEW, nvidia_driver_reboot=True, **key)
    assert again.changed == {"noble-1": 0}, again.output

    refused = await run(lab, tmp_path, OLD, nvidia_driver_reboot=True, **key)
    assert refused.code != 0
    assert "a downgrade needs nvidia_driver_allow_downgrade" in refused.text

    module = await run(lab, tmp_path, NEW, nvidia_driver_kernel_module_type="proprietary", **key)
    assert module.code != 0
    assert "branch 615 has no proprietary kernel module" in module.text

    back = await run(lab, tmp_path, NEW, entry="rollback", nvidia_driver_reboot=True, **key)
    assert back.code == 0, back.output
    assert set((await installed(lab)).values()) == {OLD}
