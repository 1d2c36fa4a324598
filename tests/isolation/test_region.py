import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpushare.errors import SourceError
from gpushare.isolation import limits, region
from gpushare.isolation.region_layout import HEADER, KINDS, LAYOUT, MAGIC, PRICES_AT, SIZE, SLOTS, VERSION
from tests.isolation.conftest import Make
from tests.support.fixtures.isolation import MIB, NATIVE, UUID, Container, needs_compiler, share

pytestmark = needs_compiler

# Acquires the lock of the region, as a process of the container can.
LOCKED = """
import mmap
def lock(path):
    fd = os.open(path, os.O_RDWR)
    view = mmap.mmap(fd, 0)
    at = c.addressof(c.c_char.from_buffer(view))
    c.CDLL(None).pthread_mutex_lock(c.c_void_p(at + 24))
    return view
"""


def test_the_library_and_the_reader_agree_on_the_layout(tmp_path: Path) -> None:
    program = tmp_path / "layout"
    source = Path(__file__).parent / "native" / "layout.c"
    subprocess.run(  # noqa: S603 - the compiler that PATH has
        ["gcc", f"-I{NATIVE}", "-o", str(program), str(source)],  # noqa: S607
        check=True,
        timeout=60,
    )
    lines = subprocess.check_output([program], text=True, timeout=60).splitlines()  # noqa: S603 - just compiled
    assert {name: int(number) for name, number in map(str.split, lines)} == {
        "size": SIZE,
        "sequence": 16,
        "lock": 24,
        "sizes": 72,
        "reached": HEADER.size - 8,
        "crowded": HEADER.size - 4,
        "cards": LAYOUT.cards_at,
        "card": LAYOUT.card,
        "launches": LAYOUT.launches_at,
        "launch": LAYOUT.launch,
        "kinds": KINDS,
        "prices": PRICES_AT,
        "work": PRICES_AT + 8 * KINDS,
        "slots": LAYOUT.slots_at,
        "slot": LAYOUT.slot,
        "managed": LAYOUT.slot - 8 * (2 * limits.MAX_CARDS + 1),
        "slot_count": SLOTS,
        "max_cards": limits.MAX_CARDS,
        "measures": LAYOUT.measures_at,
        "measure": LAYOUT.measure,
        "magic": MAGIC,
        "version": VERSION,
    }


def test_the_region_has_the_usage_of_each_process(container: Container) -> None:
    with container.start("context(); alloc(1000); alloc(5000); say(0); sys.stdin.read()") as process:
        process.stdout.readline()
        seen = container.seen()
        sizes = (4301 * MIB, 1000 * MIB, 1000 * MIB, 1, 5000 * MIB, 6000 * MIB)
        assert seen.cards == (region.CardUse(UUID, *sizes),)
        (one,) = seen.processes
        assert one.pid == process.pid
        assert one.used[0] == 1000 * MIB
        process.communicate("")


def test_a_context_is_charged_with_its_measured_size(make: Make) -> None:
    container = make(context_mib=121)
    code = "context(); alloc(1000); say(left()[1]); sys.stdin.readline(); say(left()[1], alloc(3001)[0])"
    with container.start(f"{code}; say(cuda.cuDevicePrimaryCtxReset_v2(0)); sys.stdin.read()") as process:
        assert process.stdout.readline() == "[3180]\n"
        (one,) = container.seen().processes
        assert (one.contexts[0], one.context_bytes[0], one.used[0]) == (1, 121 * MIB, 1121 * MIB)
        container.write(*region.context_writes(one, [300 * MIB]))
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "[3001, 0]\n"
        assert process.stdout.readline() == "[0]\n"
        (one,) = container.seen().processes
        assert (one.contexts[0], one.context_bytes[0], one.used[0]) == (0, 300 * MIB, 0)
        process.communicate("")


def first_context(container: Container, code: str, *sizes_mib: int) -> list[Any]:
    """The lines of a program whose context is measured with these sizes; after each it gets a line."""
    with container.start(f"say(context()); {code}") as process:
        lines = [json.loads(process.stdout.readline())]
        for size in sizes_mib:
            lines.append(json.loads(process.stdout.readline()))
            (one,) = container.seen().processes
            container.write(*region.context_writes(one, [size * MIB]))
            process.stdin.write("\n")
            process.stdin.flush()
        return [*lines, *map(json.loads, process.communicate("")[0].splitlines())]


GO = "sys.stdin.readline(); "


def test_a_program_keeps_the_memory_that_it_was_promised_before_its_context_was_measured(make: Make) -> None:
    container = make(context_mib=500)
    container.limit(share(4, 15, context_mib=121))
    code = f"say(left()[1], alloc(4000)[0]); {GO}say(left()[1], alloc(100)[0], alloc(80)[0], left()[1])"
    code += "; say(alloc(1)[0])"
    assert first_context(container, code, 500) == [[0], [4180, 0], [180, 0, 0, 0], [2]]
    assert container.seen().cards[0].used == 4680 * MIB
    assert container.stub.peak(0) == 4680 * MIB


def test_memory_that_is_not_yet_used_is_held_to_the_measured_context(make: Make) -> None:
    container = make(context_mib=500)
    container.limit(share(4, 15, context_mib=121))
    code = f"say(alloc(3000)[0]); {GO}say(left()[1], alloc(802)[0], alloc(801)[0], alloc(1)[0])"
    assert first_context(container, code, 500) == [[0], [0], [801, 2, 0, 2]]
    assert container.stub.peak(0) == 4301 * MIB


def test_a_context_that_grows_after_its_first_measurement_counts_in_full(make: Make) -> None:
    container = make(context_mib=500)
    container.limit(share(4, 15, context_mib=121))
    code = f"say(alloc(4000)[0]); {GO}say(left()[1]); {GO}say(left()[1], alloc(1)[0])"
    assert first_context(container, code, 500, 700) == [[0], [0], [180], [0, 2]]


def test_what_was_forgiven_ends_with_its_context(make: Make) -> None:
    container = make(context_mib=500)
    container.limit(share(4, 15, context_mib=121))
    code = f"v, at = alloc(4180); say(v); {GO}say(left()[1]); cuda.cuDevicePrimaryCtxReset_v2(0)"
    code += "; say(context(), left()[1], alloc(3802)[0], alloc(3801)[0])"
    assert first_context(container, code, 500) == [[0], [0], [0], [0, 3801, 2, 0]]


def test_a_context_that_exceeds_the_limit_by_its_measured_size_leaves_no_memory(make: Make) -> None:
    container = make(context_mib=121)
    code = "context(); say(alloc(4180)[0]); sys.stdin.readline(); say(alloc(1)[0]); sys.stdin.read()"
    with container.start(code) as process:
        assert process.stdout.readline() == "[0]\n"
        (one,) = container.seen().processes
        container.write(*region.context_writes(one, [300 * MIB]))
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "[2]\n"
        (card,) = container.seen().cards
        assert (card.used, card.peak) == (4480 * MIB, 4480 * MIB)
        process.communicate("")


@contextmanager
def contexts_of(container: Container, *measured_mib: int) -> Iterator[None]:
    """Processes with a context each, of which the agent has measured these sizes; 0 for one without."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(container.start("say(context()); sys.stdin.read()")) for _ in measured_mib
        ]
        for process in processes:
            process.stdout.readline()
        by_pid = {each.pid: each for each in container.seen().processes}
        for process, mib in zip(processes, measured_mib, strict=True):
            container.write(*region.context_writes(by_pid[process.pid], [mib * MIB]))
        yield
        for process in processes:
            process.communicate("")


@pytest.mark.parametrize(
    ("measured", "charged"), [((300,), 300), ((100,), 100), ((0, 500, 300), 300), ((0,), 121)]
)
def test_a_process_begins_with_the_smallest_size_measured_in_its_container(
    make: Make, measured: tuple[int, ...], charged: int
) -> None:
    container = make(total_mib=100_000)
    container.limit(share(4, 15, context_mib=121))
    code = "say(context()); sys.stdin.read()"
    with contexts_of(container, *measured), container.start(code) as process:
        process.stdout.readline()
        slots = {each.pid: each for each in container.seen().processes}
        assert slots[process.pid].used[0] == charged * MIB
        process.communicate("")


def test_a_measurement_of_one_context_counts_for_all(container: Container) -> None:
    with container.start("context(); say(0); sys.stdin.read()") as process:
        process.stdout.readline()
        container.write(*region.context_writes(container.seen().processes[0], [300 * MIB]))
        assert container.python("context(); say(alloc(3702)[0], alloc(3701)[0])").stdout == "[2, 0]\n"
        process.communicate("")


def test_a_measurement_of_an_ended_process_is_ignored(container: Container) -> None:
    container.python("context()")
    (ended,) = container.seen().processes
    container.write(*region.context_writes(ended, [300 * MIB]))
    container.write(region.Write(LAYOUT.slots_at + ended.slot * LAYOUT.slot, bytes(LAYOUT.slot)))
    assert container.python("context(); say(left()[1])").stdout == "[4301]\n"


def test_a_measurement_of_an_earlier_process_with_the_same_pid_is_ignored(container: Container) -> None:
    with container.start("context(); say(0); sys.stdin.read()") as process:
        process.stdout.readline()
        (one,) = container.seen().processes
        container.write(*region.context_writes(replace(one, start=one.start - 1), [300 * MIB]))
        assert container.python("context(); say(left()[1])").stdout == "[4301]\n"
        process.communicate("")


def test_a_rate_in_an_uninitialised_region_stays(container: Container) -> None:
    container.write(*region.rate_writes(0, 1000, 5))
    container.python("context()")
    (card,) = container.seen().cards
    assert (card.rate, card.sampled_ns, card.spent) == (1000, 5, 0)


MANAGED = """
def managed(mib):
    at = c.c_uint64()
    return cuda.cuMemAllocManaged(c.byref(at), c.c_size_t(mib * MIB), 1), at
def other_context():
    made = c.c_void_p()
    cuda.cuCtxCreate_v2(c.byref(made), 0, 0)
    return made
"""


@pytest.mark.parametrize(
    ("code", "used", "of_which"),
    [
        ("managed(1000); alloc(100)", 1100, 1000),
        ("v, at = managed(1000); managed(500); alloc(100); free(at)", 600, 500),
        ("v, at = managed(1000); managed(500); free(at); free(at)", 500, 500),
        ("at = other_context(); managed(700); alloc(50); cuda.cuCtxDestroy_v2(at)", 0, 0),
        ("managed(5000); managed(0)", 0, 0),
    ],
)
def test_managed_memory_is_counted_separately_too(
    container: Container, code: str, used: int, of_which: int
) -> None:
    container.python(f"{MANAGED}\ncontext(); {code}")
    (one,) = container.seen().processes
    assert (one.used[0] // MIB, one.managed[0] // MIB) == (used, of_which)


def test_usage_is_recomputed_after_a_process_was_killed_with_the_lock(container: Container) -> None:
    used = LAYOUT.cards_at + 48 + 8
    code = f"""{LOCKED}
context(); alloc(1000)
view = lock({str(container.shared)!r})
view[16:24] = (7).to_bytes(8, "little")
view[{used}:{used + 8}] = (2**40).to_bytes(8, "little")
os.kill(os.getpid(), 9)
"""
    with container.start(code) as owner:
        assert owner.wait(60) == -9
    assert container.python("context(); say(alloc(4301)[0])").stdout == "[0]\n"
    assert container.seen().cards[0].used == 4301 * MIB


def test_a_lock_that_is_not_released_is_an_error(container: Container) -> None:
    container.python("context()")
    code = f"{LOCKED}\nview = lock({str(container.shared)!r}); say(0); sys.stdin.read()"
    with container.start(code) as owner:
        owner.stdout.readline()
        done = container.python("say(context())")
        assert done.stdout == "[2]\n"
        assert "its lock is not released" in done.stderr
        owner.communicate("")


def test_an_unused_region_has_no_usage() -> None:
    assert region.read(region.empty) is None


@pytest.mark.parametrize("content", [b"", b"x" * SIZE, bytes([1]) + bytes(SIZE - 1)])
def test_invalid_bytes_are_not_read_as_a_region(content: bytes) -> None:
    with pytest.raises(SourceError):
        region.read(lambda: content)


def test_a_region_that_is_being_written_is_read_again() -> None:
    odd = bytearray(region.empty())
    odd[16] = 1
    views = [bytes(odd), region.empty(), region.empty(), *[region.empty()] * 3]
    assert region.read(lambda: views.pop(0)) is None
    with pytest.raises(SourceError, match="changed during each of"):
        region.read(lambda: bytes(odd))


def test_an_empty_region_has_the_size_of_an_initialised_one(container: Container) -> None:
    container.python("context()")
    assert container.shared.stat().st_size == len(region.empty())


def test_the_header_has_the_sizes_of_the_layout(container: Container) -> None:
    container.python("context()")
    assert HEADER.unpack_from(container.shared.read_bytes())[4:-2] == tuple(LAYOUT)
