"""Driver and toolkit on hosts that report each system of the table, with real package managers.

A host is Debian 12 or 13, with the os-release of the system, and a signed repository of stubs under the names
that NVIDIA's has for it (``tests.support.fakes.systems``). On a machine with Ubuntu, the hosts of Debian 12
are Ubuntu. The short tests have one host for each package manager. On the others the roles run the same tasks
with other names, for minutes each.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from _pytest.mark import ParameterSet

from testbed.hosts import HostSpec, Lab, repository
from testbed.hosts.spec import PACKAGES
from tests.support import needs
from tests.support.fakes import rpms
from tests.support.fakes.systems import REFUSED, SYSTEMS, Driver, System
from tests.support.fixtures import playbooks

pytestmark = [
    pytest.mark.needs("hosts", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

NAME = "gpu-1"
MIRROR = "/srv/mirror"
SHORT = ("ubuntu 24.04", "rhel 9")
TOOLKIT = ("nvidia-container-toolkit", "1.17.8")


@dataclass(frozen=True)
class Host:
    """A running host, and what the inventory says of its repositories."""

    system: System
    lab: Lab
    repositories: dict[str, str]

    async def run(
        self, folder: Path, version: str, *flags: str, entry: str = "main", **variables: Any
    ) -> playbooks.Run:
        """Run the role nvidia_driver, with ``version`` in the inventory."""
        return await self.role(
            folder, "nvidia_driver", *flags, entry=entry, nvidia_driver_version=version, **variables
        )

    async def role(
        self, folder: Path, role: str, *flags: str, entry: str = "main", **variables: Any
    ) -> playbooks.Run:
        """Run one role."""
        kernel = self.system.rpms.kernel if self.system.rpms else ""
        tasks: list[dict[str, Any]] = [
            {"ansible.builtin.setup": {"gather_subset": ["min"]}},
            # The kernel is that of this machine, with a version that no RPM can have.
            *([{"ansible.builtin.set_fact": {"kernel": kernel, "cacheable": True}}] if kernel else []),
            {"ansible.builtin.include_role": {"name": f"gpushare.nodes.{role}", "tasks_from": entry}},
        ]
        play = folder / "play.json"
        tagged = [{**task, "tags": ["always"]} for task in tasks]
        play.write_text(json.dumps([{"hosts": "gpu_nodes", "gather_facts": False, "tasks": tagged}]))
        extra = {
            "nvidia_driver_kernel_module_type": self.system.module,
            "nvidia_driver_kernel_updates": False,
            **self.repositories,
            **variables,
        }
        inventory = f"--inventory={self.lab.inventory}"
        argv = [str(needs.PLAYBOOK), inventory, f"--extra-vars={json.dumps(extra)}", *flags, str(play)]
        return await playbooks.run(argv)

    async def packages(self) -> dict[str, str]:
        """The installed packages and their versions, without epochs and revisions."""
        fields = "'${db:Status-Abbrev}${Package} ${Version}\\n'"
        query = (
            "rpm -qa --queryformat 'ii %{NAME} %{VERSION}\\n'"
            if self.system.rpms
            else f"dpkg-query --show --showformat={fields}"
        )
        lines = (line.split() for line in (await self.lab.ssh(NAME, query)).splitlines())
        return {name: number.partition("-")[0] for state, name, number in lines if state in ("ii", "hi")}

    async def has(self, driver: Driver) -> None:
        """Fail unless all packages of the driver have this version."""
        found = await self.packages()
        other = ({self.system.old.version, self.system.new.version} - {driver.version}).pop()
        assert {name: found.get(name) for name in driver.parts} == dict.fromkeys(driver.parts, driver.version)
        assert {name for name, version in found.items() if version == other} <= self.system.left


def repositories(system: System) -> dict[str, str]:
    """The variables with the repositories of a host, and the files with their keys."""
    driver, others = (rpms.REPOSITORY, rpms.REPOSITORY) if system.rpms else (MIRROR, PACKAGES)
    folders = {
        "nvidia_driver": driver,
        "container_runtime_engine": others,
        "container_runtime_toolkit": others,
        **({"nvidia_driver_epel": rpms.EPEL} if system.rpms and system.rpms.epel else {}),
    }
    urls = {f"{part}_repo_url": f"file://{folder}" for part, folder in folders.items()}
    keys = {f"{part}_repo_key_url": f"file://{folder}/{repository.KEY}" for part, folder in folders.items()}
    return {**urls, **keys}


def param(system: System) -> ParameterSet:
    debian_13 = [pytest.mark.needs("debian-13")] if system.base.suite else []
    short = [pytest.mark.short] if system.name in SHORT else []
    return pytest.param(system, id=system.name.replace(" ", "-"), marks=[*debian_13, *short])


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=map(param, SYSTEMS))
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    system: System = request.param
    binds = {MIRROR: await repository.ensure(system.debs())} if system.debs else {}
    spec = HostSpec(NAME, ("kube_node", "gpu_nodes"), base=system.base, binds=binds, files=system.files)
    async with Lab((spec,)) as lab:
        if system.rpms:
            await lab.ssh(NAME, rpms.build(system.rpms, (system.old.version, system.new.version)), 300)
        yield Host(system, lab, repositories(system))


async def test_without_the_key_or_dkms_nothing_is_installed(host: Host, tmp_path: Path) -> None:
    version, no_key = host.system.old.version, {"nvidia_driver_repo_key_url": ""}
    keyless = await host.run(tmp_path, version, **no_key)
    assert keyless.code != 0
    assert "nothing says which key signs its packages" in keyless.text
    of_another = await host.run(tmp_path, version, **no_key, nvidia_driver_repo_key="nvidia")
    assert of_another.code != 0
    if host.system.rpms and host.system.rpms.epel:
        without_dkms = await host.run(tmp_path, version, nvidia_driver_epel_repo_url="")
        assert without_dkms.code != 0
        assert "dkms is in EPEL; set nvidia_driver_epel_repo_url" in without_dkms.text
    assert not [name for name in await host.packages() if "nvidia" in name or "headers" in name]


async def test_the_driver_changes_only_when_asked(host: Host, tmp_path: Path) -> None:
    old, new = host.system.old, host.system.new
    first = await host.run(tmp_path, old.version)
    assert first.code == 0, first.output
    await host.has(old)
    again = await host.run(tmp_path, old.version)
    assert again.changed == {NAME: 0}, again.output

    unasked = await host.run(tmp_path, new.version)
    assert unasked.code != 0
    assert "upgrade_driver" in unasked.text
    await upgrade_system(host)
    await host.has(old)

    asked = await host.run(tmp_path, new.version, nvidia_driver_reboot=True)
    assert asked.code == 0, asked.output
    await host.has(new)
    again = await host.run(tmp_path, new.version, nvidia_driver_reboot=True)
    assert again.changed == {NAME: 0}, again.output

    refused = await host.run(tmp_path, old.version, nvidia_driver_reboot=True)
    assert refused.code != 0
    assert "a downgrade needs nvidia_driver_allow_downgrade" in refused.text
    await host.has(new)

    back = await take_back(host, tmp_path)
    assert back.code == 0, back.output
    await host.has(old)


async def upgrade_system(host: Host) -> None:
    """Upgrade all packages, as an administrator of the host does."""
    apt = "apt-get --quiet=2 update && DEBIAN_FRONTEND=noninteractive apt-get --quiet=2 --yes dist-upgrade"
    await host.lab.ssh(NAME, "dnf --assumeyes --quiet upgrade" if host.system.rpms else apt, 120)


async def take_back(host: Host, folder: Path) -> playbooks.Run:
    if host.system.by_rollback:
        return await host.run(folder, host.system.new.version, entry="rollback", nvidia_driver_reboot=True)
    old = host.system.old.version
    return await host.run(folder, old, nvidia_driver_allow_downgrade=True, nvidia_driver_reboot=True)


async def test_the_module_stream_is_that_of_the_driver(host: Host) -> None:
    found = await host.lab.ssh(NAME, "cat /etc/dnf/modules.d/nvidia-driver.module || :")
    ending = "open" if host.system.module == "open" else "dkms"
    stream = f"stream={host.system.old.version.partition('.')[0]}-{ending}\n"
    assert (stream in found) is bool(host.system.rpms and host.system.rpms.streams)


async def test_the_toolkit_is_installed_at_its_version(host: Host, tmp_path: Path) -> None:
    name, version = TOOLKIT
    # The stub packages lack the programs that later tasks run.
    done = await host.role(
        tmp_path, "container_runtime", "--tags=install", container_runtime_toolkit_version=version
    )
    assert done.code == 0, done.output
    assert (await host.packages())[name] == version


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def another() -> AsyncIterator[Lab]:
    async with Lab((HostSpec(NAME, ("kube_node", "gpu_nodes")),)) as lab:
        yield lab


@pytest.mark.short
@pytest.mark.parametrize("name", REFUSED)
async def test_a_system_of_which_nothing_is_known_is_refused(name: str, another: Lab, tmp_path: Path) -> None:
    await another.ssh(NAME, "rm /etc/os-release && cat >/etc/os-release", stdin=REFUSED[name])
    host = Host(SYSTEMS[0], another, {})
    refused = await host.run(tmp_path, SYSTEMS[0].old.version)
    assert refused.code != 0
    assert "nvidia_driver_state" in refused.text
    assert refused.changed == {NAME: 0}
    left_alone = await host.run(tmp_path, SYSTEMS[0].old.version, nvidia_driver_state="unmanaged")
    assert left_alone.code == 0, left_alone.output
    assert left_alone.changed == {NAME: 0}
