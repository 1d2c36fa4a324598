"""Driver and toolkit on a host with dnf: real transactions, version locks, module streams, rollback."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from testbed.hosts import HostSpec, Lab
from tests.support import needs
from tests.support.fakes import rpms
from tests.support.fixtures import playbooks

pytestmark = [
    pytest.mark.needs("hosts", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

PARTS = ("nvidia_driver", "container_runtime_engine", "container_runtime_toolkit")
VARIABLES = {
    f"{part}_{name}": value
    for part in PARTS
    for name, value in (("repo_url", f"file://{rpms.REPOSITORY}"), ("repo_key_url", f"file://{rpms.KEY}"))
}
VARIABLES["nvidia_driver_kernel_module_type"] = "proprietary"
"""That of the repository; the host has no GPU, for which ``auto`` would choose."""
DRIVER = ("nvidia-driver", "nvidia-driver-cuda", "kmod-nvidia-latest-dkms", "nvidia-persistenced")
WITH_EPEL = {
    "nvidia_driver_epel_repo_url": f"file://{rpms.EPEL}",
    "nvidia_driver_epel_repo_key_url": f"file://{rpms.KEY}",
}
OLD, NEW = rpms.DRIVERS


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab() -> AsyncIterator[Lab]:
    async with Lab((HostSpec("el-1", ("kube_node", "gpu_nodes"), base=rpms.ROCKY),)) as hosts:
        await hosts.ssh("el-1", rpms.build(), timeout_s=120)
        yield hosts


async def run(
    lab: Lab, folder: Path, role: str, *flags: str, entry: str = "main", **variables: Any
) -> playbooks.Run:
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.setup": {"gather_subset": ["min"]}},
        # The kernel is that of this machine, with a version that no RPM can have.
        {"ansible.builtin.set_fact": {"kernel": rpms.KERNEL, "cacheable": True}},
        {"ansible.builtin.include_role": {"name": f"gpushare.nodes.{role}", "tasks_from": entry}},
    ]
    play = folder / "play.json"
    tagged = [{**task, "tags": ["always"]} for task in tasks]
    play.write_text(json.dumps([{"hosts": "gpu_nodes", "gather_facts": False, "tasks": tagged}]))
    extra = f"--extra-vars={json.dumps({**VARIABLES, **WITH_EPEL, **variables})}"
    argv = [str(needs.PLAYBOOK), f"--inventory={lab.inventory}", extra, *flags, str(play)]
    return await playbooks.run(argv)


async def versions(lab: Lab, *names: str) -> set[str]:
    asked = await lab.ssh("el-1", f"rpm -q --queryformat '%{{VERSION}}\\n' {' '.join(names)}")
    return set(asked.split())


async def test_without_a_repository_that_has_dkms_nothing_is_installed(lab: Lab, tmp_path: Path) -> None:
    none = dict.fromkeys(WITH_EPEL, "")
    stopped = await run(lab, tmp_path, "nvidia_driver", nvidia_driver_version=OLD, **none)
    assert stopped.code != 0
    assert "dkms is in EPEL; set nvidia_driver_epel_repo_url" in stopped.text
    assert "kernel-devel" not in await lab.ssh("el-1", "rpm -qa")


async def test_the_packages_of_the_driver_are_upgraded_and_rolled_back_together(
    lab: Lab, tmp_path: Path
) -> None:
    fresh = await run(lab, tmp_path, "nvidia_driver", "--check", "--diff", nvidia_driver_version=OLD)
    assert fresh.code == 0, fresh.output

    first = await run(lab, tmp_path, "nvidia_driver", nvidia_driver_version=OLD)
    assert first.code == 0, first.output
    assert await versions(lab, *DRIVER) == {OLD}
    assert "stream=535-dkms" in await lab.ssh("el-1", "cat /etc/dnf/modules.d/nvidia-driver.module")
    again = await run(lab, tmp_path, "nvidia_driver", nvidia_driver_version=OLD)
    assert again.changed == {"el-1": 0}, again.output

    unasked = await run(lab, tmp_path, "nvidia_driver", nvidia_driver_version=NEW)
    assert unasked.code != 0
    assert "upgrade_driver" in unasked.text
    assert await versions(lab, *DRIVER) == {OLD}

    upgrade = await run(lab, tmp_path, "nvidia_driver", nvidia_driver_version=NEW, nvidia_driver_reboot=True)
    assert upgrade.code == 0, upgrade.output
    assert await versions(lab, *DRIVER) == {NEW}

    refused = await run(lab, tmp_path, "nvidia_driver", nvidia_driver_version=OLD, nvidia_driver_reboot=True)
    assert refused.code != 0
    assert "a downgrade needs nvidia_driver_allow_downgrade" in refused.text

    back = await run(
        lab, tmp_path, "nvidia_driver", entry="rollback", nvidia_driver_version=NEW, nvidia_driver_reboot=True
    )
    assert back.code == 0, back.output
    assert await versions(lab, *DRIVER) == {OLD}


async def test_other_upgrades_leave_the_driver_alone(lab: Lab) -> None:
    assert "nvidia-driver" in await lab.ssh("el-1", "dnf --quiet versionlock list")
    await lab.ssh("el-1", "dnf --assumeyes --quiet upgrade")
    assert await versions(lab, "nvidia-driver") == {OLD}


async def test_the_toolkit_is_installed_at_its_version(lab: Lab, tmp_path: Path) -> None:
    # The stub packages lack the programs that later tasks run.
    install = "--tags=install"
    done = await run(lab, tmp_path, "container_runtime", install, container_runtime_toolkit_version="1.16.2")
    assert done.code == 0, done.output
    assert await versions(lab, "nvidia-container-toolkit", "libnvidia-container1") == {"1.16.2"}
