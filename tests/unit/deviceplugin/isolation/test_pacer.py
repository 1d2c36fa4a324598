"""Rounds of the pacer on real files, with a FAKE driver and /proc."""

import asyncio
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpushare.contract import EVENT_NOT_HELD, EVENT_UNCOUNTED, LABEL_MODE
from gpushare.deviceplugin.core.allocations import Allocation, Enforcement
from gpushare.deviceplugin.isolation.pacer import Pacer, PacerTiming
from gpushare.deviceplugin.isolation.process_owners import ProcessOwners
from gpushare.deviceplugin.isolation.reporter import UncountedReporter
from gpushare.errors import GpuError
from gpushare.isolation import region
from gpushare.isolation.layout import LIMIT, REGION, directory_name
from gpushare.isolation.limits import MAX_CARDS, CardLimit, text
from gpushare.isolation.region_layout import (
    KINDS,
    LAUNCH,
    LAYOUT,
    PRICES_AT,
    SIZE,
    measure_struct,
    slot_struct,
)
from gpushare.model.local_node import LocalNode
from gpushare.model.readings import IDLE, Load, ProcessReading
from tests.support.builders.gpu_pods import NODE, gpu_pod
from tests.support.builders.regions import region_bytes
from tests.unit.deviceplugin.fixtures import AgentFixture

UUID = "GPU-0"
MIB = 1 << 20
SECOND_NS = 10**9


class Cards:
    """A fake driver; ``found`` may be an error."""

    def __init__(self) -> None:
        self.found: Mapping[str, tuple[ProcessReading, ...]] | GpuError = {}
        self.asked = 0

    async def processes(self) -> Mapping[str, tuple[ProcessReading, ...]]:
        self.asked += 1
        if isinstance(self.found, GpuError):
            raise self.found
        return self.found

    def run(self, *pids: int, load: Load | None = Load(50, 0), used: int | None = None) -> None:  # noqa: B008 - a value
        self.found = {UUID: tuple(ProcessReading(pid, used, load) for pid in pids)}


class Node:
    """Limited containers with their files, and a pacer that has not begun. Each round takes a second."""

    def __init__(self, folder: Path, *, contexts_s: float = 10.0) -> None:
        self.state = folder / "state"
        self.proc = folder / "proc"
        for path in (self.state, folder / "libraries", self.proc):
            path.mkdir()
        self.cards = Cards()
        # It sees the folders only if they are there.
        self.agent = AgentFixture(folder, 14, paces=True)
        reporter = UncountedReporter(self.agent.node_state, self.proc, record_event=self.agent.events.append)
        owners = ProcessOwners(self.state, self.proc)
        self.pacer = Pacer(
            self.agent.node_state,
            self.agent.manager,
            self.cards,
            owners,
            reporter,
            self.agent.metrics,
            PacerTiming(0.01, contexts_s, clock_ns=lambda: self.now_ns),
        )
        self.now_ns = SECOND_NS
        self.enforcements: dict[str, Enforcement] = {}

    def limit(self, number: int, core: int = 25, spent: int = 0) -> Path:
        """A container with a compute share; returns its region."""
        content = text([CardLimit(UUID, 15079, 4, 14, core_percent=core)])
        directory = directory_name(number)
        self.enforcements[directory] = Enforcement(directory, "0" * 16, content, launches=bool(core))
        self.agent.node_state.add_allocation(
            Allocation(
                f"uid-{number}",
                "main",
                "default/p",
                ((UUID, 4),),
                f"id-{number}",
                enforcement=self.enforcements[directory],
            )
        )
        (self.state / directory).mkdir()
        (self.state / directory / LIMIT).write_text(content)
        path = self.state / directory / REGION
        path.write_bytes(region_bytes([region.CardUse(UUID, 4308 * MIB, 0, 0, 0)], [7]))
        spend(path, spent)
        return path

    def process(self, pid: int, number: int, inner: int = 7, device: str = "") -> None:
        """A process that has the region of that container mounted."""
        found = self.state.stat().st_dev
        device = device or f"{os.major(found)}:{os.minor(found)}"
        folder = self.proc / str(pid)
        folder.mkdir()
        source = f"/gpushare/{directory_name(number)}/region"
        (folder / "mountinfo").write_text(
            "21 1 8:1 / / rw - ext4 /dev/root rw\n"
            f"36 21 {device} {source} /.gpushare/region rw,nosuid - tmpfs tmpfs rw\n"
        )
        (folder / "status").write_text(f"NSpid:\t{pid}\t{inner}\n")
        (folder / "comm").write_text("train\n")

    def free_process(self, pid: int, cgroup: str) -> None:
        """A process that has no region."""
        folder = self.proc / str(pid)
        folder.mkdir()
        (folder / "mountinfo").write_text("21 1 8:1 / / rw - ext4 /dev/root rw\n")
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        (folder / "comm").write_text("Xorg\n")

    async def look(self) -> None:
        self.now_ns += SECOND_NS
        await self.pacer.round(self.enforcements)

    @property
    def age(self) -> float:
        found = self.agent.metrics.registry.get_sample_value(
            "gpushare_device_plugin_pacing_sample_age_seconds"
        )
        assert found is not None
        return found


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def spend(path: Path, work: int) -> None:
    """What the library would write: work of the first kind on the first card."""
    with path.open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), struct.pack("<Q", work), LAYOUT.launches_at + PRICES_AT + 8 * KINDS)


def use(path: Path) -> tuple[int, int, int, int]:
    """Rate, time of the sample, price of the first kind, and its work."""
    rate, sampled, _, *kinds = LAUNCH.unpack_from(path.read_bytes(), LAYOUT.launches_at)
    return rate, sampled, kinds[0], kinds[KINDS]


def rate(path: Path) -> int:
    return use(path)[0]


async def paced(node: Node, *paths: Path, tokens: int = 10**6) -> None:
    """Two rounds; these containers spend tokens between them."""
    await node.look()
    for path in paths:
        spend(path, use(path)[3] + tokens)
    await node.look()


# --- rates --------------------------------------------------------------------------------------


async def test_each_container_gets_the_launch_rate_of_its_compute_share(node: Node) -> None:
    small, large = node.limit(1, 25), node.limit(2, 75)
    node.process(101, 1)
    node.process(102, 2)
    node.cards.run(101, 102)
    await paced(node, small, large)
    assert rate(large) / rate(small) == pytest.approx(3, rel=0.01)
    assert use(small)[1] > 0


async def test_a_process_without_a_limit_counts_for_no_container(node: Node) -> None:
    path = node.limit(1)
    node.process(101, 1)
    (node.proc / "102").mkdir()
    (node.proc / "102" / "mountinfo").write_text("21 1 8:1 / / rw - ext4 /dev/root rw\n")
    node.cards.run(101, 102, load=Load(100, 0))
    await paced(node, path)
    assert rate(path) > 0


@pytest.mark.parametrize(("others", "after"), [(0, 1.3), (75, 1.2)])
async def test_a_price_follows_several_samples_while_others_use_the_gpu(
    node: Node, others: int, after: float
) -> None:
    path = node.limit(1)
    node.process(101, 1)
    node.free_process(102, "/")
    for round_number, own in enumerate((25, 25, 25, 25, 57)):
        loads = {101: own, 102: min(others, 100 - own)}
        node.cards.found = {UUID: tuple(ProcessReading(pid, None, Load(sm, 0)) for pid, sm in loads.items())}
        spend(path, 1000 * round_number)
        before = use(path)[2]
        await node.look()
    assert use(path)[2] / before == pytest.approx(after, abs=0.02)


async def test_the_file_of_another_filesystem_is_no_region(node: Node) -> None:
    path = node.limit(1)
    node.process(101, 1, device="0:1")
    node.cards.run(101)
    await paced(node, path)
    assert rate(path) == 0


async def test_without_host_processes_the_problem_is_logged_and_samples_age(node: Node) -> None:
    path = node.limit(1)
    node.cards.run(4_000_000)
    with capture_logs() as logs:
        await paced(node, path)
    assert rate(path) == 0
    (reported,) = logs
    assert reported["event"] == "not_paced"
    assert "hostPID: true" in reported["reason"]


def fail(cards: Cards) -> None:
    cards.found = GpuError("NVML does not answer")


def tell_no_loads(cards: Cards) -> None:
    cards.run(101, load=None)


def list_nothing(cards: Cards) -> None:
    cards.found = {}


def sample_nothing(cards: Cards) -> None:
    cards.found = {UUID: (ProcessReading(101, load=IDLE, sampled=False),)}


@pytest.mark.parametrize("trouble", [fail, tell_no_loads, list_nothing, sample_nothing])
async def test_without_new_samples_the_rate_stays_and_the_metric_rises(
    node: Node, trouble: Callable[[Cards], None]
) -> None:
    path = node.limit(1)
    node.process(101, 1)
    node.cards.run(101)
    await paced(node, path)
    before = use(path)
    node.now_ns += 60 * SECOND_NS
    trouble(node.cards)
    spend(path, before[3] + 10**6)
    await node.look()
    assert use(path)[:3] == before[:3]
    assert node.age >= 60
    node.cards.run(101)
    await node.look()
    assert use(path)[1] > before[1]
    assert node.age < 10


# --- regions that containers have spoilt --------------------------------------------------------


def cut(path: Path) -> None:
    os.truncate(path, 10)


def scribble(path: Path) -> None:
    path.write_bytes(b"\xff" * SIZE)


def write_for_ever(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[16] = 1
    path.write_bytes(content)


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def other_card(path: Path) -> None:
    path.write_bytes(region_bytes([region.CardUse("GPU-9", 0, 0, 0, 0)]))


def boast(path: Path) -> None:
    path.write_bytes(region_bytes([region.CardUse(UUID, 0, 2**64 - 1, 0, 0)]))


@pytest.mark.parametrize("spoil", [cut, scribble, write_for_ever, link, pipe, other_card, boast, Path.unlink])
async def test_a_damaged_region_affects_its_container_only(node: Node, spoil: Callable[[Path], None]) -> None:
    bad, good = node.limit(1), node.limit(2)
    node.process(101, 1)
    node.process(102, 2)
    node.cards.run(101, 102)
    spoil(bad)
    before = None if not bad.is_file() else bad.read_bytes()
    with capture_logs() as logs:
        await paced(node, good)
        await node.look()
    assert rate(good) > 0
    assert (bad.read_bytes() if bad.is_file() else None) == before
    assert [each["what"] for each in logs if each["event"] == "not_paced"] == [directory_name(1)]
    assert node.age < 10


# --- contexts -----------------------------------------------------------------------------------


def measure(path: Path) -> tuple[int, int, int]:
    """Number, start and the first card's bytes of a context, in the first slot's measure."""
    pid, start, size, *_ = measure_struct(MAX_CARDS).unpack_from(path.read_bytes(), LAYOUT.measures_at)
    return pid, start, size


def charge(path: Path, used: int, contexts: int) -> None:
    content = bytearray(path.read_bytes())
    nothing = [0] * (MAX_CARDS - 1)
    slot = (7, 1, used, *nothing, 121 * MIB, *nothing, contexts, *nothing, *[0] * MAX_CARDS)
    slot_struct(MAX_CARDS).pack_into(content, LAYOUT.slots_at, *slot)
    path.write_bytes(content)


async def test_contexts_are_measured_without_a_compute_share_too(tmp_path: Path) -> None:
    node = Node(tmp_path, contexts_s=0)
    path = node.limit(1, core=0)
    node.process(101, 1)
    charge(path, 1121 * MIB, 1)
    node.cards.run(101, used=1300 * MIB)
    await node.look()
    assert measure(path) == (0, 0, 0)
    await node.look()
    assert measure(path) == (7, 1, 300 * MIB)
    assert node.age == 0


@pytest.mark.parametrize(("mode", "found"), [("cgpu", {UUID: 300}), ("mps", {})])
async def test_the_smallest_measured_context_is_known_for_later_containers(
    tmp_path: Path, mode: str, found: Mapping[str, int]
) -> None:
    node = Node(tmp_path, contexts_s=0)
    node.agent.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: mode}), None)
    for number in (1, 2):
        path = node.limit(number, core=0)
        node.process(100 + number, number)
        charge(path, 1121 * MIB, 1)
    node.cards.found = {UUID: (ProcessReading(101, 1300 * MIB, IDLE), ProcessReading(102, 1500 * MIB, IDLE))}
    await node.look()
    await node.look()
    assert node.agent.node_state.allocations.context_mib == found
    node.cards.found = {}
    await node.look()
    assert node.agent.node_state.allocations.context_mib == found


async def test_the_context_of_a_new_process_is_measured_in_two_rounds(node: Node) -> None:
    path = node.limit(1, core=0)
    node.process(101, 1)
    for _ in range(3):
        await node.look()
    charge(path, 1121 * MIB, 1)
    node.cards.run(101, used=1300 * MIB)
    await node.look()
    assert measure(path) == (0, 0, 0)
    await node.look()
    assert measure(path) == (7, 1, 300 * MIB)


async def test_containers_without_a_compute_share_are_sampled_less_often(node: Node) -> None:
    path = node.limit(1, core=0)
    node.process(101, 1)
    charge(path, 1121 * MIB, 1)
    node.cards.run(101, used=1300 * MIB)
    for _ in range(6):
        await node.look()
    node.cards.run(101, used=1400 * MIB)
    sizes = []
    for _ in range(15):
        await node.look()
        sizes.append(measure(path)[2] // MIB)
    assert sizes == [300] * 14 + [400]


# --- uncounted memory ---------------------------------------------------------------------------


@pytest.fixture
def strict(tmp_path: Path) -> Node:
    """A node with one limited container, all of whose containers are sampled in each round."""
    node = Node(tmp_path, contexts_s=0)
    node.agent.add_pods(gpu_pod("uid-1", card=0))
    node.limit(1, core=0)
    return node


async def reported(node: Node) -> list[tuple[str, str]]:
    """The events after three rounds: kind and reason."""
    for _ in range(3):
        await node.look()
    return [(event.kind, event.reason) for event in node.agent.events]


async def test_a_process_missing_from_its_region_causes_an_event_on_its_pod(strict: Node) -> None:
    strict.process(101, 1, inner=8)
    strict.cards.run(101, used=500 * MIB)
    await strict.look()
    assert not strict.agent.events
    assert await reported(strict) == [("Pod", EVENT_NOT_HELD)]
    (event,) = strict.agent.events
    assert (event.uid, event.warning) == ("uid-1", True)
    assert "container main, limited to 4308 MiB of GPU 0," in event.text
    assert "pid 101 (train, 8 in its container) 500 MiB" in event.text
    assert "musl" in event.text


async def test_a_counted_process_causes_no_event(strict: Node) -> None:
    strict.process(101, 1)
    strict.cards.run(101, used=500 * MIB)
    assert await reported(strict) == []


async def test_much_uncounted_memory_causes_an_event_on_the_pod(strict: Node) -> None:
    strict.process(101, 1)
    strict.cards.run(101, used=2000 * MIB)
    assert await reported(strict) == [("Pod", EVENT_UNCOUNTED)]
    assert "2000 MiB, of which 0 MiB are counted" in strict.agent.events[0].text


async def test_a_process_of_no_pod_beside_limited_containers_causes_an_event_on_the_node(
    strict: Node,
) -> None:
    strict.free_process(102, "/system.slice/x.service")
    strict.cards.run(102, used=7 * MIB)
    assert await reported(strict) == [("Node", EVENT_NOT_HELD)]
    assert "GPU 0 has 1 process of no pod" in strict.agent.events[0].text
    assert "pid 102 (Xorg) 7 MiB" in strict.agent.events[0].text


async def test_an_unlimited_pod_beside_limited_ones_gets_an_event(strict: Node) -> None:
    uid = "11111111-2222-3333-4444-555555555555"
    strict.agent.add_pods(gpu_pod(uid, card=0))
    strict.free_process(102, f"/kubepods/pod{uid}/{'0' * 64}")
    strict.cards.run(102, used=7 * MIB)
    assert await reported(strict) == [("Pod", EVENT_NOT_HELD)]
    assert strict.agent.events[0].uid == uid


async def test_an_mps_server_is_not_uncounted(strict: Node) -> None:
    strict.free_process(102, f"/kubepods/pod11111111-2222-3333-4444-555555555555/{'0' * 64}")
    mounts = "36 21 0:25 /gpushare-mps /run/gpushare-mps rw,nosuid - tmpfs tmpfs rw\n"
    (strict.proc / "102" / "mountinfo").write_text(mounts)
    strict.cards.run(102, used=500 * MIB)
    assert await reported(strict) == []


async def test_a_gpu_without_limited_containers_causes_no_events(strict: Node) -> None:
    strict.free_process(102, "/")
    strict.cards.found = {"GPU-1": (ProcessReading(102, 7 * MIB),)}
    assert await reported(strict) == []


async def test_a_bypass_in_an_unknown_pod_causes_an_event_once_the_pod_is_known(
    strict: Node,
) -> None:
    strict.agent.delete_pod("uid-1")
    strict.process(101, 1, inner=8)
    strict.cards.run(101, used=500 * MIB)
    assert await reported(strict) == []
    strict.agent.add_pods(gpu_pod("uid-1", card=0))
    assert await reported(strict) == [("Pod", EVENT_NOT_HELD)]


async def test_an_unreadable_region_causes_no_event(strict: Node) -> None:
    strict.process(101, 1, inner=8)
    strict.cards.run(101, used=500 * MIB)
    cut(strict.state / directory_name(1) / REGION)
    assert await reported(strict) == []


async def test_while_nvml_fails_events_are_not_repeated(strict: Node) -> None:
    strict.process(101, 1, inner=8)
    strict.cards.run(101, used=500 * MIB)
    assert await reported(strict) == [("Pod", EVENT_NOT_HELD)]
    fail(strict.cards)
    await strict.look()
    strict.cards.run(101, used=500 * MIB)
    assert len(await reported(strict)) == 1


# --- the job ------------------------------------------------------------------------------------


async def test_without_limited_containers_nothing_is_sampled(node: Node) -> None:
    job = asyncio.ensure_future(node.pacer.run())
    try:
        await asyncio.sleep(0.05)
        assert node.cards.asked == 0
        path = node.limit(1)
        node.process(101, 1)
        node.cards.run(101)
        await until_paced(node, path)
    finally:
        job.cancel()


async def until_paced(node: Node, path: Path) -> None:
    async with asyncio.timeout(10):
        while not rate(path):
            node.now_ns += SECOND_NS
            spend(path, use(path)[3] + 1000)
            await asyncio.sleep(0.02)


async def test_a_bug_fails_one_round(node: Node) -> None:
    path = node.limit(1)
    node.process(101, 1)
    node.cards.run(101)
    answer, node.cards.found = node.cards.found, None  # type: ignore[assignment]
    job = asyncio.ensure_future(node.pacer.run())
    try:
        with capture_logs() as logs:
            async with asyncio.timeout(10):
                while not logs:
                    await asyncio.sleep(0.01)
        assert logs[0]["event"] == "pacing_failed"
        node.cards.found = answer
        await until_paced(node, path)
    finally:
        job.cancel()
