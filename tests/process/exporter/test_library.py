"""Files that the real library writes for a real program, as the exporter reads them."""

from pathlib import Path

from gpushare.exporter.regions import isolation_of
from gpushare.isolation.layout import DirectoryOwner, link_of
from testbed.cuda import CudaStub
from tests.fixtures.isolation import MIB, UUID, Container, build, card, needs_compiler, share

OWNER = DirectoryOwner("a-uid", "main")


@needs_compiler
def test_memory_and_rejected_allocations_of_a_limited_program_are_read(tmp_path: Path) -> None:
    state = tmp_path / "state"
    folder = state / "0123456789abcdef"
    folder.mkdir(parents=True)
    link_of(state, OWNER).symlink_to(folder.name)
    container = Container(
        folder, build(tmp_path / "library", folder), CudaStub(tmp_path / "stub", cards=[card()])
    )
    container.limit(share(4, 15))
    with container.start("context(); free(alloc(2000)[1]); alloc(1000); alloc(5000); say(0); input()") as one:
        assert one.stdout is not None
        one.stdout.readline()
        found = isolation_of(state, [one.pid], Path("/proc"))
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
