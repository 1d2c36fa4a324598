from collections.abc import Iterable, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.uncounted import (
    Reported,
    UncountedFinding,
    UncountedOwner,
    UncountedProcess,
    new_findings,
    uncounted_beside,
    uncounted_in,
)
from gpushare.isolation.files import UNUSED
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse, ProcessUse, Region
from gpushare.model.local_node import ContainerRef
from gpushare.model.readings import UNCOUNTED_BYTES, ProcessReading

MIB = 1 << 20
LIMITS = (CardLimit("GPU-0", 15079, 4, 14), CardLimit("GPU-1", 15079, 1, 14))
OWNER = UncountedOwner("place")


def region(*processes: ProcessUse) -> Region:
    return Region(tuple(CardUse(each.uuid, each.limit_mib * MIB, 0, 0, 0) for each in LIMITS), processes)


def counts(pid: int, *mib: int) -> ProcessUse:
    return ProcessUse(pid, 1, tuple(each * MIB for each in mib))


def on(uuid: str, **mib: int | None) -> Mapping[str, Mapping[int, ProcessReading]]:
    """A card with processes: ``p7=100`` is number 7 with 100 MiB, and 1007 of the host's."""
    sizes = {int(name[1:]): size for name, size in mib.items()}
    return {uuid: {own: ProcessReading(1000 + own, size and size * MIB) for own, size in sizes.items()}}


def found(reported: Region, seen: Mapping[str, Mapping[int, ProcessReading]]) -> list[tuple[int, int, bool]]:
    """Uncounted processes: PID in the container, uncounted MiB, and whether the region has a slot."""
    uncounted = list(uncounted_in("place", LIMITS, reported, seen))
    assert all(each.owner == OWNER and each.pid == 1000 + each.inner_pid for each in uncounted)
    return [(each.inner_pid, each.uncounted // MIB, each.counted is not None) for each in uncounted]


def test_a_process_in_the_region_is_not_uncounted() -> None:
    assert found(region(counts(7, 3193, 0)), on("GPU-0", p7=3200)) == []


def test_a_process_missing_from_the_region_is_uncounted_with_any_memory() -> None:
    assert found(region(counts(7, 100, 0)), on("GPU-0", p7=100, p8=1, p9=None)) == [
        (8, 1, False),
        (9, 0, False),
    ]


def test_an_unused_region_knows_no_process() -> None:
    assert found(UNUSED, on("GPU-0", p7=100)) == [(7, 100, False)]


def test_on_a_gpu_outside_its_allocation_a_container_has_nothing_counted() -> None:
    assert found(region(counts(7, 100, 0)), on("GPU-9", p7=50)) == [(7, 50, False)]


def test_a_container_with_much_uncounted_memory_is_reported_by_process() -> None:
    reported = region(counts(7, 100, 0), counts(8, 100, 0), counts(9, 100, 0))
    assert found(reported, on("GPU-0", p7=700, p8=700, p9=90)) == [(7, 600, True), (8, 600, True)]
    assert found(reported, on("GPU-0", p7=700, p8=500)) == []


def test_managed_memory_is_not_what_the_driver_reports() -> None:
    """The library counts 1000 MiB, of which 900 are managed: the driver reports 600 MiB of other memory."""
    managed = replace(counts(7, 1000, 0), managed=(900 * MIB, 0))
    assert found(region(managed), on("GPU-0", p7=600)) == []
    assert found(region(managed), on("GPU-0", p7=700)) == []
    ((pid, uncounted, known),) = found(region(managed), on("GPU-0", p7=1300))
    assert (pid, uncounted, known) == (7, 1200, True)


def test_each_gpu_is_compared_with_its_own_limit() -> None:
    reported = region(counts(7, 0, 0))
    assert found(reported, on("GPU-0", p7=900)) == []
    assert found(reported, on("GPU-1", p7=900)) == [(7, 900, True)]


def test_memory_that_the_driver_does_not_report_is_not_uncounted() -> None:
    assert found(region(counts(7, 100, 0)), on("GPU-0", p7=None)) == []


def test_processes_without_a_region_belong_to_their_pod_or_no_pod() -> None:
    others = {"GPU-0": [ProcessReading(pid, MIB) for pid in (1, 2, 3)]}
    uncounted = uncounted_beside(others, {1: ContainerRef("uid"), 2: None})
    assert [(each.pid, each.owner) for each in uncounted] == [
        (1, UncountedOwner(pod_uid="uid")),
        (2, UncountedOwner()),
    ]


# --- what is news -------------------------------------------------------------------------------


def uncounted_process(pid: int, mib: int, *, counted: int | None = None) -> UncountedProcess:
    return UncountedProcess(OWNER, "GPU-0", pid, pid, mib * MIB, counted)


def looks(*found: Iterable[UncountedProcess]) -> list[list[list[int]]]:
    """The PIDs of each finding that is reported, poll by poll."""
    memory, reported = Reported(), []
    for each in found:
        memory, fresh = new_findings(each, memory)
        reported.append([[one.pid for one in uncounted] for uncounted in fresh.values()])
    return reported


def test_a_process_in_two_polls_is_reported_once() -> None:
    one = [uncounted_process(7, 100)]
    assert looks(one, one, one) == [[], [[7]], []]


def test_a_process_in_one_poll_is_not_reported() -> None:
    assert looks(
        [uncounted_process(7, 100)], [uncounted_process(8, 100)], [], [uncounted_process(8, 100)]
    ) == [[], [], [], []]


def test_a_process_that_returns_is_reported_again() -> None:
    one = [uncounted_process(7, 100)]
    assert looks(one, one, [], one, one) == [[], [[7]], [], [], [[7]]]


def test_another_process_of_the_same_container_is_not_reported() -> None:
    both = [uncounted_process(7, 100), uncounted_process(8, 100)]
    assert looks(both[:1], both[:1], both, both[1:], both[1:]) == [[], [[7]], [], [], []]


def test_considerable_growth_is_reported_again() -> None:
    small, large = [uncounted_process(7, 100)], [uncounted_process(7, 700)]
    assert looks(small, small, large, large) == [[], [[7]], [[7]], []]


def test_unknown_processes_and_uncounted_memory_are_two_findings() -> None:
    both = [uncounted_process(7, 100), uncounted_process(8, 900, counted=1)]
    assert looks(both, both) == [[], [[7], [8]]]


UNCOUNTED = st.lists(
    st.builds(
        UncountedProcess,
        st.sampled_from([OWNER, UncountedOwner(pod_uid="uid"), UncountedOwner()]),
        st.sampled_from(["GPU-0", "GPU-1"]),
        st.integers(1, 4),
        st.just(1),
        st.none() | st.integers(0, 4 * UNCOUNTED_BYTES),
        st.none() | st.integers(0, UNCOUNTED_BYTES),
    ),
    max_size=8,
    unique_by=lambda each: (each.owner, each.uuid, each.pid),
)


@given(st.lists(UNCOUNTED, max_size=12))
def test_a_finding_is_repeated_only_after_it_was_gone_or_has_grown(
    rounds: list[list[UncountedProcess]],
) -> None:
    memory, reported = Reported(), dict[UncountedFinding, int]()
    before: set[tuple[UncountedFinding, int]] = set()
    for uncounted in rounds:
        seen = {
            (UncountedFinding(each.owner, each.uuid, each.counted is not None), each.pid)
            for each in uncounted
        }
        memory, fresh = new_findings(uncounted, memory)
        reported = {fact: size for fact, size in reported.items() if fact in {fact for fact, _ in seen}}
        for fact, settled in fresh.items():
            assert {(fact, each.pid) for each in settled} <= seen & before
            size = sum(each.uncounted for each in settled)
            assert fact not in reported or size > reported[fact] + UNCOUNTED_BYTES
            reported[fact] = size
        settled_facts = {fact for fact, _ in seen & before}
        assert settled_facts <= reported.keys()
        before = seen
