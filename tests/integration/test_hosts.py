import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devkit import pids
from devkit.errors import DevkitError
from devkit.folders import bed_folder, cache_root, data_folder
from devkit.process import run_text
from devkit.waiting import timeout_factor, until
from testbed import Testbed
from testbed.cgroups import ROOT, prefix_of
from testbed.control_plane.home import Home
from testbed.hosts import HOSTS, Lab

pytestmark = [pytest.mark.needs("hosts"), pytest.mark.asyncio(loop_scope="module")]
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab() -> AsyncIterator[Lab]:
    async with Lab(HOSTS[:2]) as hosts:
        yield hosts


def left_of(folder: Path) -> list[object]:
    """Processes, cgroups, mounts and data of a lab."""
    groups = list(ROOT.glob(f"*/{prefix_of(folder)}*"))
    mounts = [
        line for line in Path("/proc/mounts").read_text().splitlines() if str(data_folder(folder)) in line
    ]
    return [
        *pids.running(folder),
        *groups,
        *mounts,
        *([data_folder(folder)] if data_folder(folder).exists() else []),
    ]


async def test_hosts_reach_each_other_and_nothing_else(lab: Lab) -> None:
    for name, other in (("cp-1", "gpu-1"), ("gpu-1", "cp-1")):
        assert "SSH" in await lab.ssh(name, f"exec 3<>/dev/tcp/{lab.addresses[other]}/22; head -c 3 <&3")
    with pytest.raises(DevkitError):
        await lab.ssh("cp-1", "timeout 1 bash -c '</dev/tcp/198.51.100.1/22'")


async def test_each_host_has_its_own_services(lab: Lab) -> None:
    await lab.ssh("gpu-1", "systemd-run --unit=only-here sleep infinity")
    assert (await lab.ssh("gpu-1", "systemctl is-active only-here")).strip() == "active"
    assert (await lab.ssh("cp-1", "systemctl is-active only-here || :")).strip() == "inactive"
    await lab.ssh("gpu-1", "systemctl stop only-here")
    assert (await lab.ssh("cp-1", "systemctl is-system-running")).strip() == "running"


async def test_a_reboot_is_real_and_the_disk_stays(lab: Lab) -> None:
    before = await lab.ssh("gpu-1", f"touch /etc/kept /run/lost; {BOOT_ID}")

    async def came_back() -> bool:
        try:
            return await lab.ssh("gpu-1", f"systemctl is-system-running >/dev/null && {BOOT_ID}") != before
        except DevkitError:
            return False

    await lab.ssh("gpu-1", "systemd-run --on-active=0 systemctl reboot")
    await until(came_back, "gpu-1 to come back")
    assert (await lab.ssh("gpu-1", "ls -d /etc/kept /run/lost 2>/dev/null || :")).split() == ["/etc/kept"]
    assert "NVIDIA" in await lab.ssh("gpu-1", "lspci")


async def test_a_host_starts_with_its_disk_after_a_power_cut(lab: Lab) -> None:
    await lab.ssh("gpu-1", "echo kept >/etc/kept; sync")
    await lab.kill("gpu-1")
    with pytest.raises(DevkitError):
        await lab.ssh("gpu-1", "true")
    await lab.start("gpu-1")
    assert (await lab.ssh("gpu-1", "cat /etc/kept")).strip() == "kept"


async def test_hosts_reach_the_api_server_of_a_bed(lab: Lab) -> None:
    async with Testbed(kwok=False) as bed:
        port = bed.layout.ports.apiserver
        await lab.expose(port)
        read = (
            "import ssl, urllib.request as r; c = ssl._create_unverified_context(); "
            f"print(r.urlopen('https://192.0.2.1:{port}/healthz', context=c).read())"
        )
        assert "ok" in await lab.ssh("cp-1", f'python3 -c "{read}"')


async def test_python_keeps_the_bytecode_of_modules_in_archives(lab: Lab) -> None:
    archive = "import sys, zipfile; zipfile.ZipFile('/tmp/a.zip', 'w').writestr('in_archive.py', 'VALUE = 1')"
    use = "import sys; sys.path.insert(0, '/tmp/a.zip'); import in_archive; print(in_archive.VALUE)"
    await lab.ssh("cp-1", f'python3 -c "{archive}"')
    for _ in range(2):
        assert await lab.ssh("cp-1", f'python3 -c "{use}"') == "1\n"
    assert len((await lab.ssh("cp-1", "ls /run/kept-bytecode")).split()) == 1


async def test_packages_install_from_the_signed_repository(lab: Lab) -> None:
    listed = "deb [signed-by=/srv/apt/gpushare-test.asc] file:/srv/apt /"
    headers = f"linux-headers-{os.uname().release}"
    await lab.ssh("gpu-1", f"echo '{listed}' >/etc/apt/sources.list.d/stubs.list; apt-get update")
    # apt does not look for old versions of what these depend on.
    names = "nvidia-alternative libnvidia-ml1 libnvidia-ptxjitcompiler1 libcuda1 nvidia-smi"
    kernel = "nvidia-kernel-support nvidia-kernel-dkms"
    wanted = " ".join(f"{name}=535.183.01-1" for name in f"{names} {kernel}".split())
    await lab.ssh("gpu-1", f"apt-get install -y {headers} {wanted}", 120)
    assert "535.183.01" in await lab.ssh("gpu-1", "nvidia-smi --query-gpu=driver_version")


async def test_nothing_is_left_of_stopped_hosts() -> None:
    async with Lab(HOSTS[:1]) as hosts:
        folder = hosts.folder
        assert left_of(folder)
    assert left_of(folder) == []


async def test_leftovers_of_a_killed_process_are_removed_by_the_next(bed_name: str) -> None:
    code = (
        "import asyncio\nfrom testbed.hosts import HOSTS, Lab\n"
        f"async def main():\n    lab = Lab(HOSTS[:1], name={bed_name!r}, bound=False)\n"
        "    await lab.open()\n    print('up', flush=True)\n    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    maker = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert maker.stdout is not None
    assert await asyncio.wait_for(maker.stdout.readline(), 60 * timeout_factor()) == b"up\n"
    maker.send_signal(signal.SIGKILL)
    await maker.wait()
    folder = bed_folder(bed_name, cache_root())
    assert left_of(folder)
    await asyncio.to_thread(Home.take(bed_name).release)
    assert left_of(folder) == []


async def test_the_command_line_leaves_hosts_up_until_they_are_stopped(bed_name: str) -> None:
    command = [sys.executable, "-m", "testbed.hosts", f"--name={bed_name}"]
    inventory = Path((await run_text([*command, "up"], 120)).strip())
    reach = ["ssh", "-F", str(inventory.parent / "ssh_config"), "gpu-2", "hostname"]
    assert await run_text(reach, 30) == "gpu-2\n"
    await run_text([*command, "down"], 60)
    assert left_of(inventory.parent) == []
