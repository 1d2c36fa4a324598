"""A container without privileges that appends to its region until the disk is full: real tmpfs, real files.

In a separate mount namespace, ``run`` is a small tmpfs in place of the node's ``/run``, with the regions in a
folder or in a second tmpfs.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpushare.deviceplugin.core.interface import AllocateResponse
from gpushare.deviceplugin.isolation.files import EnforcementFiles
from gpushare.deviceplugin.isolation.region_sizes import RegionSizes
from gpushare.isolation.layout import IsolationDirs
from tests.support.builders.gpu_pods import gpu_pod
from tests.unit.deviceplugin.fixtures import AgentFixture, ids, install_library
from tests.unit.deviceplugin.isolation.test_manager import limited_agent, source

pytestmark = pytest.mark.needs("root", "unshare")

ROOT = Path(__file__).parents[3]
UNPRIVILEGED = 65534
SEPARATE = "mount -t tmpfs -o size=2m,mode=755 gpushare $1/state"
MOUNT = "mount -t tmpfs -o size=16m,mode=755 run $1; mkdir $1/state; {}; exec $2 $3 $1"
# With the folder as working directory, because a container has only the file.
APPEND = ("/bin/dd", "if=/dev/zero", "of=region", "bs=64k", "oflag=append", "conv=notrunc")


def attack(run: Path, *, separate: bool) -> dict[str, Any]:
    """What an agent on such a node sees; the results of ``main``."""
    unshare = shutil.which("unshare")
    assert unshare
    script = MOUNT.format(SEPARATE if separate else ":")
    command = ["--mount", "sh", "-ec", script, "sh", str(run), sys.executable, __file__]
    done = subprocess.run(  # noqa: S603 - our own script
        [unshare, *command],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_regions_on_a_separate_filesystem_cannot_fill_the_node(tmp_path: Path) -> None:
    found = attack(tmp_path, separate=True)
    assert found["disk_full"]
    assert found["run_used_by_attack"] == 0
    assert found["refused_while_full"] == "record"
    assert found["region_before"] == found["region_after"]
    assert found["events"] == [["a", "GPUShareRegionResized"]]
    assert found["allocated_after"]
    assert found["notices"] == 0


def test_without_one_the_node_is_filled_until_the_agent_has_repaired_the_region(tmp_path: Path) -> None:
    found = attack(tmp_path, separate=False)
    assert found["disk_full"]
    assert found["run_used_by_attack"] > 8 << 20
    assert found["region_before"] == found["region_after"]
    assert found["allocated_after"]
    assert found["notices"] == 1


async def allocate(agent: AgentFixture, name: str, first: int) -> Any:
    agent.add_pods(gpu_pod(name, 4, card=0))
    answer = await agent.mem.allocate(ids(0, *range(first, first + 4)))
    if isinstance(answer, AllocateResponse):
        agent.confirm(name, 4, f"GPU-0-_-{first}")
    return answer


def free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


async def main(run: Path) -> dict[str, Any]:
    """Attack with the region of pod a, repair it, and allocate for others meanwhile and afterwards."""
    install_library(run)
    agent = limited_agent(run, 14)
    files = EnforcementFiles(IsolationDirs(run / "libraries", run / "state"))
    sizes = RegionSizes(
        agent.node_state, agent.manager, files, agent.metrics, record_event=agent.events.append
    )
    region = source(await allocate(agent, "a", 0), "/.gpushare/region")
    before, run_before = region.stat().st_size, free(run)
    attacker = subprocess.run(  # noqa: ASYNC221, S603 - nothing else runs
        APPEND, cwd=region.parent, user=UNPRIVILEGED, env={"LC_ALL": "C"}, stderr=subprocess.PIPE, check=False
    )
    used = run_before - free(run)
    refused = await allocate(agent, "b", 4)
    agent.delete_pod("b")
    agent.events.clear()
    await sizes.round()
    return {
        "disk_full": b"No space left on device" in attacker.stderr,
        "run_used_by_attack": used,
        "refused_while_full": getattr(refused, "reason", ""),
        "region_before": before,
        "region_after": region.stat().st_size,
        "events": [[each.name, each.reason] for each in agent.events],
        "allocated_after": isinstance(await allocate(agent, "c", 8), AllocateResponse),
        "notices": len(sizes.notices),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(Path(sys.argv[1])))) + "\n")
