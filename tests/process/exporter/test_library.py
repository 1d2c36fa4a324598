"""Files that the real library writes for a real program, as the exporter reads them."""

import os
from pathlib import Path

import pytest

from gpushare.exporter.regions import isolation_of
from gpushare.isolation.layout import DirectoryOwner, link_of
from testbed.cuda import CudaStub
from tests.support.fixtures.isolation import MIB, UUID, Container, build, card, needs_compiler, share

OWNER = DirectoryOwner("a-uid", "main")


@pytest.fixture
def container(tmp_path: Path) -> Container:
    """A container with a limit, below the folder ``state``."""
    folder = tmp_path / "state" / "0123456789abcdef"
    folder.mkdir(parents=True)
    link_of(folder.parent, OWNER).symlink_to(folder.name)
    made = Container(folder, build(tmp_path / "library", folder), CudaStub(tmp_path / "stub", cards=[card()]))
    made.limit(share(4, 15))
    return made


@needs_compiler
def test_memory_and_rejected_allocations_of_a_limited_program_are_read(
    container: Container, tmp_path: Path
) -> None:
    with container.start("context(); free(alloc(2000)[1]); alloc(1000); alloc(5000); say(0); input()") as one:
        assert one.stdout is not None
        one.stdout.readline()
        found = isolation_of(tmp_path / "state", [one.pid], Path("/proc"))
        one.communicate("\n")
    (limited,) = found.containers
    assert (limited.owner, [limit.limit_mib for limit in limited.limits]) == (OWNER, [4301])
    assert limited.region is not None
    (use,) = limited.region.cards
    assert (use.uuid, use.used, use.peak, use.refusals) == (UUID, 1000 * MIB, 2000 * MIB, 1)
    assert (
        {process.pid for process in limited.region.processes} == {one.pid} == set(found.inner_pids.values())
    )
    assert not limited.problem


@needs_compiler
def test_memory_of_a_killed_program_is_not_in_use(container: Container, tmp_path: Path) -> None:
    with container.start("context(); alloc(1000); say(0); input()") as ended:
        assert ended.stdout is not None
        ended.stdout.readline()
        with container.start("context(); alloc(500); say(0); input()") as one:
            assert one.stdout is not None
            one.stdout.readline()
            ended.kill()
            ended.wait()
            for driver_pids in ([one.pid], [os.getpid()], []):
                (limited,) = isolation_of(tmp_path / "state", driver_pids, Path("/proc")).containers
                assert limited.region is not None
                assert [each.pid for each in limited.region.processes] == [one.pid]
                (use,) = limited.region.cards
                assert (use.used, use.peak) == (500 * MIB, 1500 * MIB)
            one.communicate("\n")
