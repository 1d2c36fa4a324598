"""Objects and texts of events; ``test_uncounted`` and ``test_pacer`` have the times."""

from dataclasses import replace

from gpushare.contract import EVENT_NOT_HELD, EVENT_UNCOUNTED
from gpushare.deviceplugin.core.allocations import Allocation, Enforcement
from gpushare.deviceplugin.core.uncounted import UncountedFinding, UncountedOwner, UncountedProcess
from gpushare.deviceplugin.isolation.reporter import event_of
from gpushare.isolation.limits import CardLimit, text
from gpushare.model.conflicts import Declared, conflicts_of
from gpushare.ports import KubeEvent
from tests.support.builders.gpu_pods import NODE, allocations, gpu_pod, with_gpu_pods

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


def reported(*uncounted: UncountedProcess, unnamed: int = 0) -> KubeEvent | None:
    """The note about these, which are of one fact; the last ones have no name."""
    first = uncounted[0]
    commands = {each.pid: "x" for each in uncounted[: len(uncounted) - unnamed]}
    return event_of(
        HERE, UncountedFinding(first.owner, first.uuid, first.counted is not None), uncounted, commands
    )


def text_of(*uncounted: UncountedProcess, unnamed: int = 0) -> str:
    note = reported(*uncounted, unnamed=unnamed)
    assert note
    return note.text


def uncounted_process(
    whose: UncountedOwner, pid: int = 9, mib: int = 512, *, counted: int | None = None
) -> UncountedProcess:
    return UncountedProcess(whose, "GPU-0", pid, 7, mib * MIB, counted and counted * MIB)


def about(note: KubeEvent | None) -> tuple[str, str, str, bool] | None:
    return (note.kind, note.name, note.reason, note.warning) if note else None


def test_processes_of_a_container_are_reported_on_its_pod_with_a_hint() -> None:
    assert about(reported(uncounted_process(CONTAINER))) == ("Pod", "a", EVENT_NOT_HELD, True)
    assert text_of(uncounted_process(CONTAINER)).startswith(
        "container train, limited to 4308 MiB of GPU 0, has 1 process unknown to isolation: "
        "pid 9 (x, 7 in its container) 512 MiB. "
    )
    for way in ("statically", "musl", "own C library", "/etc/ld.so.preload", "dlmopen", "a whole GPU"):
        assert way in text_of(uncounted_process(CONTAINER))


def test_a_container_that_hides_the_library_is_reported_with_its_mount_and_the_remedy() -> None:
    """It got the response of an equal pod, or was allocated before its mount was known."""
    declares = Declared((("NVIDIA_VISIBLE_DEVICES", "all"),), ("/etc/ld.so.preload",))
    conflicts = {"train": conflicts_of(declares)}
    here = replace(HERE, gpu_pods={**HERE.gpu_pods, "a": replace(HERE.gpu_pods["a"], conflicts=conflicts)})
    event = event_of(
        here, UncountedFinding(CONTAINER, "GPU-0", known=False), [uncounted_process(CONTAINER)], {}
    )
    assert event
    assert "The container has a mount on /etc/ld.so.preload, which hides " in event.text
    assert "Datadog" in event.text
    for unrelated in ("NVIDIA_VISIBLE_DEVICES", "statically"):
        assert unrelated not in event.text


def test_uncounted_memory_is_reported_with_both_numbers() -> None:
    both = (
        uncounted_process(CONTAINER, 8, 2000, counted=1100),
        uncounted_process(CONTAINER, 9, 1000, counted=300),
    )
    assert about(reported(*both)) == ("Pod", "a", EVENT_UNCOUNTED, True)
    assert (
        "uses 1600 MiB that isolation has not counted: pid 8 (x, 7 in its container) 2000 MiB, of which "
        in (text_of(*both))
    )
    assert "request more units" in text_of(*both)


def test_a_known_pod_without_limit_gets_a_pod_event_and_an_unknown_one_a_node_event() -> None:
    known, stranger, none = (uncounted_process(UncountedOwner(pod_uid=uid)) for uid in ("b", "stranger", ""))
    assert about(reported(known)) == ("Pod", "b", EVENT_NOT_HELD, True)
    assert "recreate the pod" in text_of(known)
    assert about(reported(stranger)) == ("Node", NODE, EVENT_NOT_HELD, True)
    assert "1 process of pod UID stranger" in text_of(stranger)
    assert "1 process of no pod" in text_of(none)


def test_a_terminating_pod_gets_no_event() -> None:
    assert reported(uncounted_process(UncountedOwner(pod_uid="leaves"))) is None
    assert reported(uncounted_process(UncountedOwner("0" * 16))) is None


def test_a_long_list_of_processes_is_shortened() -> None:
    found = text_of(*(uncounted_process(UncountedOwner(), pid) for pid in range(1, 8)), unnamed=4)
    assert found.count("512 MiB") == 3
    assert "; and 4 more. " in found


def test_unknown_sizes_and_gpus_are_reported_as_unknown() -> None:
    assert "pid 9 (x) of unknown size" in text_of(UncountedProcess(UncountedOwner(), "GPU-0", 9, 9, None))
    assert "GPU-9 has 1 process" in text_of(UncountedProcess(UncountedOwner(), "GPU-9", 9, 9, MIB))
    assert "limited to 0 MiB of GPU 1" in text_of(UncountedProcess(CONTAINER, "GPU-1", 9, 9, MIB))
