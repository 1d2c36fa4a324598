"""Whom an event is about and what it says; when it comes is in ``test_strays`` and ``test_pacer``."""

from dataclasses import replace

from gpushare.contract import EVENT_NOT_HELD, EVENT_UNCOUNTED
from gpushare.deviceplugin.core.allocations import Allocation, Enforcement
from gpushare.deviceplugin.core.uncounted import Finding, UncountedOwner, UncountedProcess
from gpushare.deviceplugin.isolation.reporter import event_of
from gpushare.isolation.limits import CardLimit, text
from gpushare.ports import Event
from tests.support.gpu_pods import NODE, allocations, gpu_pod, with_gpu_pods

MIB = 1 << 20
PLACE = "f" * 16
HELD = Enforcement(PLACE, "0" * 16, text([CardLimit("GPU-0", 15079, 4, 14)]))
GRANTS = (
    Allocation("a", "train", "default/a", (("GPU-0", 4),), "lead", enforcement=HELD),
    Allocation("leaves", "train", "default/leaves", (("GPU-0", 4),), "lead"),
)
HERE = replace(
    with_gpu_pods(allocations(14, 14), gpu_pod("a"), gpu_pod("b")),
    by_container={each.key: each for each in GRANTS},
)
CONTAINER = UncountedOwner(PLACE)


def told(*uncounted: UncountedProcess, unnamed: int = 0) -> Event | None:
    """The note about these, which are of one fact; the last ones have no name."""
    first = uncounted[0]
    commands = {each.pid: "x" for each in uncounted[: len(uncounted) - unnamed]}
    return event_of(HERE, Finding(first.owner, first.uuid, first.counted is not None), uncounted, commands)


def text_of(*uncounted: UncountedProcess, unnamed: int = 0) -> str:
    note = told(*uncounted, unnamed=unnamed)
    assert note
    return note.text


def uncounted_process(
    whose: UncountedOwner, pid: int = 9, mib: int = 512, *, counted: int | None = None
) -> UncountedProcess:
    return UncountedProcess(whose, "GPU-0", pid, 7, mib * MIB, counted and counted * MIB)


def about(note: Event | None) -> tuple[str, str, str, bool] | None:
    return (note.kind, note.name, note.reason, note.warning) if note else None


def test_processes_of_a_container_are_told_on_its_pod_with_the_way_out() -> None:
    assert about(told(uncounted_process(CONTAINER))) == ("Pod", "a", EVENT_NOT_HELD, True)
    assert text_of(uncounted_process(CONTAINER)).startswith(
        "container train, held to 4308 MiB of card 0, has 1 process there that isolation does not know: "
        "pid 9 (x, 7 in its container) 512 MiB. "
    )
    for way in ("statically", "musl", "their own C library", "dlmopen", "a card of its own"):
        assert way in text_of(uncounted_process(CONTAINER))


def test_memory_that_was_not_counted_is_told_with_both_numbers() -> None:
    both = (
        uncounted_process(CONTAINER, 8, 2000, counted=1100),
        uncounted_process(CONTAINER, 9, 1000, counted=300),
    )
    assert about(told(*both)) == ("Pod", "a", EVENT_UNCOUNTED, True)
    assert (
        "has 1600 MiB more than isolation has counted: pid 8 (x, 7 in its container) 2000 MiB, of which "
        in (text_of(*both))
    )
    assert "ask for more units" in text_of(*both)


def test_a_pod_that_nothing_holds_is_told_itself_and_a_strange_one_on_the_node() -> None:
    assert about(told(uncounted_process(UncountedOwner(pod_uid="b")))) == ("Pod", "b", EVENT_NOT_HELD, True)
    assert "make the pod anew" in text_of(uncounted_process(UncountedOwner(pod_uid="b")))
    assert about(told(uncounted_process(UncountedOwner(pod_uid="stranger")))) == (
        "Node",
        NODE,
        EVENT_NOT_HELD,
        True,
    )
    assert "1 process of pod UID stranger" in text_of(uncounted_process(UncountedOwner(pod_uid="stranger")))
    assert "1 process of no pod" in text_of(uncounted_process(UncountedOwner()))


def test_a_pod_that_leaves_is_told_nothing_and_nobody_else_is() -> None:
    assert told(uncounted_process(UncountedOwner(pod_uid="leaves"))) is None
    assert told(uncounted_process(UncountedOwner("0" * 16))) is None


def test_of_many_processes_some_are_named_and_the_rest_counted() -> None:
    assert (
        text_of(*(uncounted_process(UncountedOwner(), pid) for pid in range(1, 8)), unnamed=4).count(
            "512 MiB"
        )
        == 3
    )
    assert "; and 4 more. " in text_of(
        *(uncounted_process(UncountedOwner(), pid) for pid in range(1, 8)), unnamed=4
    )


def test_what_is_not_known_is_said_so() -> None:
    assert "pid 9 (x) of unknown size" in text_of(UncountedProcess(UncountedOwner(), "GPU-0", 9, 9, None))
    assert "GPU-9 has 1 process" in text_of(UncountedProcess(UncountedOwner(), "GPU-9", 9, 9, MIB))
    assert "held to 0 MiB of card 1" in text_of(UncountedProcess(CONTAINER, "GPU-1", 9, 9, MIB))
