"""Rates and context sizes from readings of driver and region, for any content of the region."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.pacing import (
    ContainerPacing,
    ProcessesByPid,
    context_sizes,
    pace,
    unmeasured,
)
from gpushare.errors import SourceError
from gpushare.isolation.files import UNUSED
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import (
    CardUse,
    ProcessUse,
    Region,
    Write,
    context_writes,
    price_write,
    rate_writes,
)
from gpushare.isolation.region_layout import KINDS, SIZE
from gpushare.model.readings import IDLE, Load, ProcessReading

SECOND = 10**9
MIB = 1 << 20
WHOLE = CardLimit("GPU-0", 16130, 4, 15)
QUARTER = replace(WHOLE, core_percent=25)
IDLE_OTHER = replace(WHOLE, uuid="GPU-1")
NONE = (0,) * KINDS


def use(work: int, uuid: str = "GPU-0", rate: int = 0, prices: Sequence[int] = NONE) -> CardUse:
    """A GPU with that much work of the first kind."""
    return CardUse(uuid, 4301 * MIB, 0, 0, 0, rate=rate, prices=tuple(prices), work=(work, *NONE[1:]))


def unsampled(*pids: int) -> ProcessesByPid:
    """Processes of which the driver has no sample."""
    return {pid: ProcessReading(1000 + pid, None, IDLE, sampled=False) for pid in pids}


def busy(*percents: int | None, used: int | None = None) -> ProcessesByPid:
    """Processes 1, 2, … with these loads."""
    loads = (None if each is None else Load(each, 0) for each in percents)
    return {pid: ProcessReading(1000 + pid, used, load) for pid, load in enumerate(loads, 1)}


def looks(
    *steps: tuple[int, ProcessesByPid | None],
    limits: Sequence[CardLimit] = (QUARTER,),
    contended: Sequence[str] = (),
) -> tuple[ContainerPacing, list[tuple[Write, ...]]]:
    """One poll per second, with the work until then and the processes."""
    account, all_writes = ContainerPacing(), []
    for second, (work, seen) in enumerate(steps, 1):
        account, writes = pace(limits, Region((use(work),), ()), [seen], second * SECOND, account, contended)
        all_writes.append(writes)
    return account, all_writes


def price(account: ContainerPacing, card: int = 0) -> float:
    """The ns of GPU time for a unit of work."""
    return account.rates[card].learned.prices[0]


def written(price: int, second: int, rate: int = SECOND // 4) -> tuple[Write, ...]:
    """The writes of that price of the first kind, in ns."""
    return price_write(0, [price << 20, *NONE[1:]]), *rate_writes(0, rate, second * SECOND)


# --- prices and rates ----------------------------------------------------------------------------


def test_the_second_poll_sets_price_and_rate() -> None:
    account, writes = looks((0, busy(100, 0)), (4000, busy(60, 40)))
    assert price(account) == 250_000
    assert writes == [(), written(250_000, 2)]


def test_more_than_all_of_a_gpu_is_all_of_it() -> None:
    assert price(looks((0, busy(100, 0)), (4000, busy(90, 90)))[0]) == 250_000


def test_an_agent_that_starts_again_goes_on_with_the_prices_in_the_region() -> None:
    account = ContainerPacing()
    prices = [250_000 << 20, *NONE[1:]]
    for second, work in enumerate((5000, 6000), 1):
        region = Region((use(work, prices=prices),), ())
        account, writes = pace([QUARTER], region, [busy(25)], second * SECOND, account)
    assert writes == written(250_000, 2)


def test_what_a_container_writes_into_its_region_later_is_ignored() -> None:
    account = ContainerPacing()
    for second, work in enumerate((0, 4000), 1):
        region = Region((use(work, rate=10**15, prices=NONE if second == 1 else [5] * KINDS),), ())
        account, writes = pace([QUARTER], region, [busy(100)], second * SECOND, account)
    assert writes == written(250_000, 2)


def test_without_a_load_reading_the_prices_stay_and_the_sample_grows_old() -> None:
    account, writes = looks((0, busy(100)), (4000, busy(100)), (9000, busy(None, 30)), (9000, None))
    assert price(account) == 250_000
    assert writes[2:] == [(), ()]
    assert unmeasured([QUARTER], account)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=20))
def test_work_without_a_sample_keeps_the_prices_and_is_not_measured(work: list[int]) -> None:
    totals = accumulate(work, initial=4000)
    sampled = (0, busy(100)), (next(totals), busy(100))
    account, writes = looks(*sampled, *((each, unsampled(1)) for each in totals))
    assert price(account) == 250_000
    assert not any(writes[2:])
    assert unmeasured([QUARTER], account)


def test_one_sample_is_enough_beside_processes_without_work() -> None:
    both = {**busy(100), **unsampled(2)}
    account, _ = looks((0, both), (4000, both), (8000, both))
    assert price(account) == 250_000
    assert not unmeasured([QUARTER], account)


def test_no_work_and_no_sample_is_an_idle_container() -> None:
    account, _ = looks((0, busy(100)), (4000, busy(100)), (4000, unsampled(1)))
    assert not unmeasured([QUARTER], account)


def test_a_process_that_has_just_arrived_can_raise_prices() -> None:
    account, _ = looks((0, busy(100)), (4000, busy(100)), (5000, busy(50, 50)))
    assert price(account) > 300_000


def test_a_process_that_has_just_arrived_lowers_no_prices() -> None:
    """Its work counts at once, its GPU time only with its first sample."""
    seen = {**busy(50), **unsampled(2)}
    account, _ = looks((0, busy(100)), (4000, busy(100)), (12000, seen))
    assert price(account) == 250_000
    account, _ = looks((0, busy(100)), (4000, busy(100)), (12000, seen), (20000, busy(50, 0)))
    assert price(account) < 250_000


ALONE = (0, busy(25)), (1000, busy(25)), (2000, busy(25)), (3000, busy(25))


def test_a_coarse_sample_changes_the_price_less_on_a_contended_gpu() -> None:
    coarse = (4000, busy(57))
    alone, _ = looks(*ALONE, coarse)
    beside, _ = looks(*ALONE, coarse, contended=["GPU-0"])
    assert 250_000 < price(beside) < price(alone)


@pytest.mark.parametrize(("idle", "followed"), [(0, True), (8, True), (9, False)])
def test_a_gpu_stays_contended_while_other_programs_seem_idle(idle: int, *, followed: bool) -> None:
    account = ContainerPacing()
    polls = [(25, ["GPU-0"])] * 4 + [(25, [])] * idle + [(57, [])]
    for second, (own, contended) in enumerate(polls):
        region = Region((use(1000 * second),), ())
        account, _ = pace([QUARTER], region, [busy(own)], second * SECOND, account, contended)
    smoothed = price(account) <= 250_000 * 1.25
    assert smoothed is followed or idle == 9


def test_contention_on_another_gpu_does_not_matter() -> None:
    assert looks(*ALONE, (4000, busy(57)), contended=["GPU-1"]) == looks(*ALONE, (4000, busy(57)))


def test_after_a_gap_only_new_samples_count() -> None:
    account, _ = looks((0, busy(100)), (4000, busy(100)), (10**9, None), (10**9 + 4000, busy(100)))
    assert price(account) == 250_000
    assert not unmeasured([QUARTER], account)


def test_a_container_without_processes_keeps_its_prices() -> None:
    account, writes = looks((0, busy(100)), (4000, busy(100)), (9000, {}))
    assert writes[2] == written(250_000, 3)
    assert not unmeasured([QUARTER], account)


def test_a_count_that_goes_back_changes_nothing() -> None:
    account, _ = looks((0, busy(100)), (4000, busy(100)), (10, busy(0)))
    assert price(account) == 250_000


@pytest.mark.parametrize("percent", [0, 100])
def test_a_container_without_a_compute_share_gets_no_rate(percent: int) -> None:
    limits = [replace(WHOLE, core_percent=percent)]
    account, writes = looks((0, busy(100)), (4000, busy(None)), limits=limits)
    assert writes == [(), ()]
    assert not unmeasured(limits, account)


def test_each_gpu_has_its_prices_at_its_offset() -> None:
    limits = [replace(IDLE_OTHER, core_percent=50), QUARTER]
    account = ContainerPacing()
    for second, work in enumerate((0, 4000), 1):
        region = Region((use(0, "GPU-1"), use(work)), ())
        account, writes = pace(limits, region, [{}, busy(100)], second * SECOND, account)
    assert writes == (
        price_write(1, [250_000 << 20, *NONE[1:]]),
        *rate_writes(1, SECOND // 4, 2 * SECOND),
    )


@pytest.mark.parametrize(("work", "coupled"), [(1000, True), (2000, False)])
def test_the_gpu_that_waits_follows_the_one_with_the_same_work(work: int, *, coupled: bool) -> None:
    """NVML counts the first GPU as busy while its kernel waits for the second one."""
    limits = [replace(IDLE_OTHER, core_percent=25), QUARTER]
    prices = [250_000 << 20, *NONE[1:]]
    account = ContainerPacing()
    for second in range(4):
        uses = use(1000 * second, "GPU-1", prices=prices), use(work * second, prices=prices)
        processes = [busy(100), busy(25)]
        account, _ = pace(
            limits, Region(uses, ()), processes, second * SECOND, account, contended=["GPU-0", "GPU-1"]
        )
    assert (price(account) == 250_000) is coupled


# --- regions that are odd -----------------------------------------------------------------------


def test_an_empty_region_gets_no_writes() -> None:
    assert pace([QUARTER], UNUSED, [busy(100)], SECOND, ContainerPacing()) == (ContainerPacing(), ())


@pytest.mark.parametrize("uuids", [("GPU-1", "GPU-0"), ("GPU-0",), ("GPU-0", "GPU-1", "GPU-2")])
def test_a_region_of_other_gpus_is_an_error(uuids: tuple[str, ...]) -> None:
    region = Region(tuple(use(0, uuid) for uuid in uuids), ())
    with pytest.raises(SourceError, match="other GPUs than the limit"):
        pace([QUARTER, IDLE_OTHER], region, [{}, {}], SECOND, ContainerPacing())


words = st.integers(0, 2**64 - 1)
processes = st.builds(
    ProcessUse,
    words,
    words,
    st.tuples(words),
    st.tuples(st.integers(0, 2**32 - 1)),
    st.tuples(words),
    st.integers(0, 255),
    st.just(()) | st.tuples(words),
)
readings = st.builds(
    ProcessReading,
    st.just(7),
    st.none() | words,
    st.none() | st.builds(Load, st.integers(0, 100), st.just(0)),
)


@given(
    st.lists(
        st.tuples(
            words, words, st.lists(processes, max_size=3), st.dictionaries(words, readings, max_size=3)
        ),
        max_size=4,
    )
)
def test_writes_fit_into_any_region(
    rounds: list[tuple[int, int, list[ProcessUse], dict[int, ProcessReading]]],
) -> None:
    account = ContainerPacing()
    for second, (work, price, found, seen) in enumerate(rounds, 1):
        region = Region((use(work, prices=[price] * KINDS),), tuple(found))
        account, writes = pace([QUARTER], region, [seen], second * SECOND, account)
        assert all(at >= 0 and at + len(content) <= SIZE for at, content in writes)
        sizes = context_sizes([QUARTER], region, account)
        assert all(121 <= size <= 1024 for size in sizes.values())


# --- contexts -----------------------------------------------------------------------------------


def process(used: int, contexts: int = 1, each: int = 121) -> ProcessUse:
    """Process 1, with that many MiB of a GPU."""
    return ProcessUse(1, 50, (used * MIB,), (contexts,), (each * MIB,), 3)


def measured(*rounds: tuple[ProcessUse, int | None]) -> list[tuple[Write, ...]]:
    """The writes for a process with that many MiB of the GPU, poll by poll."""
    account, all_writes = ContainerPacing(), []
    for second, (found, shown) in enumerate(rounds, 1):
        seen = busy(0, used=None if shown is None else shown * MIB)
        account, writes = pace([WHOLE], Region((use(0),), (found,)), [seen], second * SECOND, account)
        all_writes.append(writes)
    return all_writes


def test_two_equal_readings_determine_the_size_of_a_context() -> None:
    found = process(3193)
    sized = context_writes(found, [328 * MIB])
    assert measured((found, 3400), (found, 3400), (found, 3400)) == [(), sized, ()]


def test_several_contexts_share_the_difference() -> None:
    found = process(3314, contexts=2)
    assert measured((found, 3372), (found, 3372))[1] == context_writes(found, [150 * MIB])


def test_one_reading_is_not_enough() -> None:
    assert measured((process(3193), 3400), (process(3293), 3500), (process(3293), 3400)) == [(), (), ()]


def test_the_size_that_was_written_stays_while_memory_comes_and_goes() -> None:
    found, more = process(3193), process(3293)
    assert measured((found, 3400), (found, 3400), (more, 3500), (found, 3400))[2:] == [(), ()]


def test_another_size_is_written_again() -> None:
    found = process(3193)
    writes = measured((found, 3400), (found, 3400), (found, 3500), (found, 3500))
    assert writes[3] == context_writes(found, [428 * MIB])


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (process(3193), None),
        (process(3193), 3072),
        (process(3193), 1000),
        (process(3193), 3072 + 2049),
        (process(3193, contexts=0), 3400),
        (process(100), 500),
    ],
)
def test_impossible_context_sizes_are_not_written(found: ProcessUse, shown: int | None) -> None:
    assert measured((found, shown), (found, shown)) == [(), ()]


def test_managed_memory_is_not_part_of_what_the_driver_reports() -> None:
    """1000 of the 3193 MiB are managed."""
    found = replace(process(3193), managed=(1000 * MIB,))
    assert measured((found, 2400), (found, 2400))[1] == context_writes(found, [328 * MIB])


def test_more_managed_memory_than_is_counted_determines_no_size() -> None:
    found = replace(process(3193), managed=(3073 * MIB,))
    assert measured((found, 400), (found, 400)) == [(), ()]


def sizes(*readings: tuple[ProcessUse, int | None], rounds: int = 2) -> Mapping[str, int]:
    """The sizes for later containers after these polls of processes with that many MiB by the driver."""
    found = tuple(use for use, _ in readings)
    region = Region((use(0),), found)
    on = {
        each.pid: ProcessReading(1000 + each.pid, None if mib is None else mib * MIB, IDLE)
        for each, mib in readings
    }
    account = ContainerPacing()
    for second in range(1, rounds + 1):
        account, _ = pace([WHOLE], region, [on], second * SECOND, account)
    return context_sizes([WHOLE], region, account)


def beside(pid: int, used: int, managed: int = 0) -> ProcessUse:
    return replace(process(used), pid=pid, slot=pid, managed=(managed * MIB,))


def test_the_smallest_measured_size_is_the_estimate_for_later_containers() -> None:
    assert sizes((beside(1, 1121), 1800), (beside(2, 221), 618), (beside(3, 221), None)) == {"GPU-0": 518}
    assert sizes((beside(1, 1121, managed=1000), 518)) == {"GPU-0": 518}


def test_nothing_is_learned_from_one_reading() -> None:
    assert sizes((beside(1, 221), 618), rounds=1) == {}


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (beside(1, 221), 100 + 120),
        (beside(1, 221), 100 + 1025),
        (beside(1, 221), None),
    ],
    ids=["too small", "too large", "of an ended process"],
)
def test_sizes_that_may_be_wrong_are_not_used_for_others(found: ProcessUse, shown: int | None) -> None:
    assert sizes((found, shown)) == {}


def test_a_size_within_the_bounds_is_rounded_up() -> None:
    odd = beside(1, 221)
    odd = replace(odd, used=(odd.used[0] - 1,))
    assert sizes((odd, 100 + 518)) == {"GPU-0": 519}
    assert sizes((beside(1, 221), 100 + 121)) == {"GPU-0": 121}
    assert sizes((beside(1, 221), 100 + 1024)) == {"GPU-0": 1024}


def test_a_size_stays_while_its_process_runs_and_only_then() -> None:
    region, account = Region((use(0),), (beside(1, 221),)), ContainerPacing()
    seen = [busy(0, used=618 * MIB), busy(0, used=618 * MIB), busy(0, used=700 * MIB), busy()]
    found = []
    for second, on in enumerate(seen, 1):
        account, _ = pace([WHOLE], region, [on], second * SECOND, account)
        found.append(context_sizes([WHOLE], region, account))
    assert found == [{}, {"GPU-0": 518}, {"GPU-0": 518}, {}]


def test_a_process_in_the_slot_of_another_is_measured_again() -> None:
    first, second = process(3193), replace(process(3193), start=51)
    writes = measured((first, 3400), (first, 3400), (second, 3400), (second, 3400))
    assert [bool(each) for each in writes] == [False, True, False, True]


def test_a_process_that_the_driver_does_not_show_is_not_measured() -> None:
    found = replace(process(3193), pid=9)
    assert measured((found, 3400), (found, 3400)) == [(), ()]


def test_each_gpu_gets_its_context_size_independently() -> None:
    limits = [WHOLE, IDLE_OTHER]
    found = ProcessUse(1, 50, (3193 * MIB, 121 * MIB), (1, 1), (121 * MIB, 121 * MIB), 3)
    account, shown = ContainerPacing(), [(3400, 50), (3400, 60), (3400, 60)]
    written = []
    for second, sizes in enumerate(shown, 1):
        seen = [busy(0, used=size * MIB) for size in sizes]
        region = Region((use(0), use(0, "GPU-1")), (found,))
        account, writes = pace(limits, region, seen, second * SECOND, account)
        written.append(writes)
    assert written[1] == context_writes(found, [328 * MIB, 0])
    assert written[2] == context_writes(found, [328 * MIB, 60 * MIB])
    assert struct.unpack_from("<Q", written[2][1].content) == (1,)
