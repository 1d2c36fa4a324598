"""The device plugin API over a real socket, called as by the kubelet."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from gpushare.adapters.kubelet.api import deviceplugin_pb2 as api
from gpushare.adapters.kubelet.services import DEVICE_PLUGIN, stub_of
from gpushare.deviceplugin.core.device_ids import MESSAGE_LIMIT
from gpushare.deviceplugin.core.interface import AllocateResponse, Device, Mount, Rejected
from gpushare.deviceplugin.kubelet.endpoint import Endpoint, listing, serving
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.errors import KubeletError
from tests.support.fakes.device_plugin import FakePlugin, sample

EMPTY = api.Empty()
ALLOCATIONS = "gpushare_device_plugin_allocations_total"
LATENCY = "gpushare_device_plugin_allocate_duration_seconds_count"


class Bench:
    """A served plugin, its metrics and a client of it."""

    def __init__(
        self, plugin: FakePlugin, metrics: PluginMetrics, endpoint: Endpoint, stub: SimpleNamespace
    ) -> None:
        self.plugin, self.metrics, self.endpoint, self.stub = plugin, metrics, endpoint, stub

    async def allocate(self, *containers: Sequence[str]) -> api.AllocateResponse:
        requests = [api.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        answer: api.AllocateResponse = await self.stub.Allocate(
            api.AllocateRequest(container_requests=requests)
        )
        return answer


@asynccontextmanager
async def served(folder: Path, plugin: FakePlugin | None = None) -> AsyncIterator[Bench]:
    plugin, metrics, socket = plugin or FakePlugin(), PluginMetrics(), folder / "plugin.sock"
    async with (
        serving(plugin, socket, metrics) as endpoint,
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        yield Bench(plugin, metrics, endpoint, stub_of(DEVICE_PLUGIN, channel))


def read(answer: api.ListAndWatchResponse) -> dict[str, str]:
    return {device.ID: device.health for device in answer.devices}


async def next_list(stream: Any) -> dict[str, str]:
    async with asyncio.timeout(5):
        return read(await stream.read())


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


async def test_the_options_request_preferences_and_no_pre_start(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        options = await bench.stub.GetDevicePluginOptions(EMPTY)
    assert options.get_preferred_allocation_available
    assert not options.pre_start_required


async def test_the_devices_come_at_once_with_health_and_numa(tmp_path: Path) -> None:
    plugin = FakePlugin([Device("a", numa=0), Device("b", healthy=False, numa=1), Device("c")])
    async with served(tmp_path, plugin) as bench:
        answer = await bench.stub.ListAndWatch(EMPTY).read()
    assert read(answer) == {"a": "Healthy", "b": "Unhealthy", "c": "Healthy"}
    assert [[node.ID for node in each.topology.nodes] for each in answer.devices] == [[0], [1], []]
    assert not answer.devices[2].HasField("topology")


async def test_every_change_is_sent_on_every_stream(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        streams = [bench.stub.ListAndWatch(EMPTY) for _ in range(3)]
        for stream in streams:
            assert len(await next_list(stream)) == 3
        bench.plugin.restock(Device("a"))
        assert [await next_list(stream) for stream in streams] == [{"a": "Healthy"}] * 3
        bench.plugin.restock(Device("a", healthy=False))
        assert [await next_list(stream) for stream in streams] == [{"a": "Unhealthy"}] * 3


async def test_a_change_during_a_write_is_sent_after_it() -> None:
    class Slow:
        """A stream that accepts messages when the test allows it."""

        def __init__(self) -> None:
            self.received: list[dict[str, str]] = []
            self.taken = asyncio.Event()

        async def write(self, answer: api.ListAndWatchResponse) -> None:
            self.received.append(read(answer))
            await self.taken.wait()

    plugin, stream = FakePlugin(), Slow()
    endpoint = Endpoint(plugin, PluginMetrics(), listing(plugin.devices()))
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        following = tasks.create_task(endpoint.follow())
        watching = tasks.create_task(endpoint.ListAndWatch(EMPTY, stream))
        while not stream.received:
            await asyncio.sleep(0)
        plugin.restock(Device("a"))
        while len(endpoint._listing.devices) != 1:
            await asyncio.sleep(0)
        stream.taken.set()
        while len(stream.received) < 2:
            await asyncio.sleep(0)
        following.cancel()
        watching.cancel()
    assert stream.received[1] == {"a": "Healthy"}


async def test_a_list_that_was_delivered_and_a_stream_that_ended_are_noticed(tmp_path: Path) -> None:
    async with served(tmp_path) as bench, asyncio.timeout(5):
        assert not bench.endpoint.opened.is_set()
        stream = bench.stub.ListAndWatch(EMPTY)
        await bench.endpoint.opened.wait()
        assert not bench.endpoint.ended.is_set()
        stream.cancel()
        await bench.endpoint.ended.wait()


async def test_each_container_gets_its_preference(tmp_path: Path) -> None:
    ask = api.ContainerPreferredAllocationRequest
    async with served(tmp_path) as bench:
        answer = await bench.stub.GetPreferredAllocation(
            api.PreferredAllocationRequest(
                container_requests=[
                    ask(available_deviceIDs=["c", "b", "a"], must_include_deviceIDs=["c"], allocation_size=2),
                    ask(available_deviceIDs=["c", "b"], allocation_size=1),
                ]
            )
        )
    assert [list(each.deviceIDs) for each in answer.container_responses] == [["c", "a"], ["b"]]


async def test_a_request_with_143771_free_devices_is_understood(tmp_path: Path) -> None:
    ids = [f"GPU-fef8089b-4820-abfc-e83e-94318197576e-_-{n:06d}" for n in range(143_771)]
    ask = api.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=1)
    request = api.PreferredAllocationRequest(container_requests=[ask])
    assert request.ByteSize() > MESSAGE_LIMIT
    async with served(tmp_path) as bench:
        answer = await bench.stub.GetPreferredAllocation(request)
    assert answer.container_responses[0].deviceIDs == ids[:1]


async def test_the_kubelet_receives_the_whole_response(tmp_path: Path) -> None:
    response = AllocateResponse(
        envs={"ALIYUN_COM_GPU_MEM_IDX": "1"},
        mounts=(Mount("/host/a", "/in/a"), Mount("/host/b", "/in/b", read_only=False)),
        cdi_devices=("nvidia.com/gpu=GPU-1",),
        devices=("/dev/none",),
    )
    async with served(tmp_path, FakePlugin(decide=lambda _: response)) as bench:
        answer = (await bench.allocate(["a"])).container_responses[0]
        assert sample(bench.metrics, ALLOCATIONS, result="ok") == 1
        assert sample(bench.metrics, LATENCY) == 1
    assert dict(answer.envs) == response.envs
    assert [(each.host_path, each.container_path, each.read_only) for each in answer.mounts] == [
        ("/host/a", "/in/a", True),
        ("/host/b", "/in/b", False),
    ]
    assert [each.name for each in answer.cdi_devices] == ["nvidia.com/gpu=GPU-1"]
    (device,) = answer.devices
    assert (device.host_path, device.container_path) == ("/dev/none", "/dev/none")


async def test_several_containers_of_one_call_are_answered_in_their_order(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        answer = await bench.allocate(["a", "b"], ["c"])
    assert [each.envs["IDS"] for each in answer.container_responses] == ["a,b", "c"]


async def test_a_rejection_is_a_status_and_counted_by_its_reason(tmp_path: Path) -> None:
    refused = Rejected("no_room", "GPU 0 of node n has 1 of 4 units free")
    async with served(tmp_path, FakePlugin(decide=lambda _: refused)) as bench:
        assert await refusal(bench.allocate(["a"])) == (grpc.StatusCode.FAILED_PRECONDITION, refused.text)
        assert sample(bench.metrics, ALLOCATIONS, result="no_room") == 1
        assert sample(bench.metrics, ALLOCATIONS, result="ok") is None


async def test_one_rejected_container_rejects_the_call(tmp_path: Path) -> None:
    plugin = FakePlugin(decide=lambda ids: Rejected("no_room", "full") if "b" in ids else AllocateResponse())
    async with served(tmp_path, plugin) as bench:
        code, _ = await refusal(bench.allocate(["a"], ["b"]))
    assert code == grpc.StatusCode.FAILED_PRECONDITION


async def test_an_internal_error_is_returned_and_the_next_call_is_served(tmp_path: Path) -> None:
    def broken(ids: Sequence[str]) -> AllocateResponse:
        raise LookupError(f"no card for {ids[0]}")

    async with served(tmp_path, FakePlugin(decide=broken)) as bench:
        code, text = await refusal(bench.allocate(["a"]))
        assert code == grpc.StatusCode.INTERNAL
        assert text == "internal error of the node agent, see its log: LookupError: no card for a"
        assert sample(bench.metrics, ALLOCATIONS, result="error") == 1
        bench.plugin.decide = lambda _: AllocateResponse(envs={"X": "1"})
        assert (await bench.allocate(["a"])).container_responses[0].envs["X"] == "1"


async def test_a_fault_in_a_preference_leaves_the_choice_to_the_kubelet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = FakePlugin()
    monkeypatch.setattr(plugin, "prefer", lambda *_: 1 / 0)
    request = api.PreferredAllocationRequest(
        container_requests=[api.ContainerPreferredAllocationRequest(allocation_size=1)]
    )
    async with served(tmp_path, plugin) as bench:
        answer = await bench.stub.GetPreferredAllocation(request)
    assert not answer.container_responses


async def test_pre_start_is_answered_nevertheless(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        request = api.PreStartContainerRequest(devices_ids=["a"])
        assert await bench.stub.PreStartContainer(request) == api.PreStartContainerResponse()


async def test_an_allocation_is_dropped_when_the_kubelet_disconnects(tmp_path: Path) -> None:
    gone = asyncio.Event()

    class Slow(FakePlugin):
        async def allocate(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
            try:
                return await super().allocate(ids)
            finally:
                gone.set()

    async with served(tmp_path, Slow(slow=asyncio.Event())) as bench, asyncio.timeout(5):
        call = asyncio.create_task(bench.allocate(["a"]))
        await bench.plugin.allocating.wait()
        call.cancel()
        await gone.wait()
        await asyncio.gather(call, return_exceptions=True)


async def test_a_stop_answers_calls_closes_streams_and_removes_the_socket(tmp_path: Path) -> None:
    answerable = asyncio.Event()
    plugin = FakePlugin(slow=answerable)
    socket = tmp_path / "plugin.sock"

    async def answer_late() -> None:
        while socket.exists():
            await asyncio.sleep(0.002)
        answerable.set()

    async with (
        asyncio.timeout(5),
        asyncio.TaskGroup() as tasks,
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        stub = stub_of(DEVICE_PLUGIN, channel)
        async with serving(plugin, socket, PluginMetrics()):
            tasks.create_task(answer_late())
            stream = stub.ListAndWatch(EMPTY)
            await stream.read()
            request = api.ContainerAllocateRequest(devices_ids=["a"])
            call = stub.Allocate(api.AllocateRequest(container_requests=[request]))
            await plugin.allocating.wait()
        assert (await call).container_responses[0].envs["IDS"] == "a"
        assert await stream.read() is grpc.aio.EOF
    assert not socket.exists()


async def test_a_socket_that_another_process_left_is_taken_over(tmp_path: Path) -> None:
    async with served(tmp_path) as first, served(tmp_path) as second:
        first.plugin.restock(Device("old"))
        second.plugin.restock(Device("fresh"))
        assert "fresh" in await next_list(second.stub.ListAndWatch(EMPTY))


async def test_the_error_for_a_directory_without_sockets_names_it(tmp_path: Path) -> None:
    with pytest.raises(KubeletError, match=f"{tmp_path}/none/plugin.sock: cannot listen"):
        async with served(tmp_path / "none"):
            pass


async def test_a_fault_of_the_plugin_while_it_follows_changes_is_not_swallowed(tmp_path: Path) -> None:
    plugin = FakePlugin()

    async def break_down() -> None:
        async with served(tmp_path, plugin) as bench, asyncio.timeout(5):
            plugin.devices = lambda: 1 // 0  # type: ignore[method-assign,assignment,return-value]
            plugin.restock()
            await bench.endpoint.ended.wait()

    with pytest.raises(ZeroDivisionError):
        await break_down()


async def test_a_list_is_made_beside_the_loop(tmp_path: Path) -> None:
    """Half a second of work for a node of MiB, in which calls must be answered."""
    plugin, threads = FakePlugin(), set[int]()

    def devices() -> Iterator[Device]:
        threads.add(threading.get_ident())
        yield Device("a")

    plugin.devices = devices  # type: ignore[method-assign,assignment]
    async with served(tmp_path, plugin) as bench, asyncio.timeout(5):
        plugin.restock()
        await bench.stub.GetDevicePluginOptions(EMPTY)
    assert threads
    assert threading.get_ident() not in threads


async def test_a_response_that_signals_a_failure_is_not_counted_as_ok(tmp_path: Path) -> None:
    plugin = FakePlugin(
        decide=lambda _: AllocateResponse({"NVIDIA_VISIBLE_DEVICES": "no-gpu"}, result="record")
    )
    async with served(tmp_path, plugin) as bench:
        await bench.allocate(["a"])
    assert sample(bench.metrics, ALLOCATIONS, result="record") == 1
    assert sample(bench.metrics, ALLOCATIONS, result="ok") is None


@pytest.mark.parametrize(("number", "length"), [(67_650, 49), (199_728, 8)])
def test_the_largest_list_fits_into_a_message_of_the_kubelet(number: int, length: int) -> None:
    devices = [Device(f"{n:0{length}d}") for n in range(number)]
    one_more = listing([*devices, Device("0" * length)])
    assert listing(devices).ByteSize() <= MESSAGE_LIMIT < one_more.ByteSize()
