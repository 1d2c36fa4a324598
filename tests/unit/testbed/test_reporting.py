"""What the stub of NVML reports of the processes of the stub CUDA driver."""

from dataclasses import replace

from testbed.cuda.reporting import StubSample, processes
from testbed.cuda.stub import CudaUser
from testbed.nvml import GpuProcess

SECOND = 10**9
MIB = 1 << 20


def user(pid: int, *, used_mib: int, busy_ns: int = 0) -> CudaUser:
    return CudaUser(pid, (0, used_mib * MIB), (0, busy_ns))


def test_a_process_has_its_memory_and_its_part_of_the_time() -> None:
    before = StubSample(SECOND, {7: user(70, used_mib=3372, busy_ns=100_000_000)})
    now = StubSample(2 * SECOND, {7: user(70, used_mib=3372, busy_ns=400_000_000)})
    assert processes(1, before, now) == [GpuProcess(7, 3372, sm=30)]


def test_managed_memory_is_not_reported_for_a_process() -> None:
    """On a H200 with driver 580, 1000 MiB that the GPU has touched add nothing to the process."""
    now = StubSample(SECOND, {7: replace(user(70, used_mib=1372), managed=(0, 1000 * MIB))})
    assert processes(1, now, now) == [GpuProcess(7, 372, sm=0)]


def test_a_new_process_counts_from_its_start() -> None:
    now = StubSample(2 * SECOND, {7: user(70, used_mib=10, busy_ns=SECOND // 2)})
    assert processes(1, StubSample(SECOND, {}), now) == [GpuProcess(7, 10, sm=50)]


def test_a_process_without_memory_on_a_gpu_is_not_on_it() -> None:
    now = StubSample(2 * SECOND, {7: user(70, used_mib=10)})
    assert processes(0, now, now) == []


def test_queued_work_is_no_more_than_all_of_the_time() -> None:
    now = StubSample(2 * SECOND, {7: user(70, used_mib=1, busy_ns=3 * SECOND)})
    assert processes(1, StubSample(SECOND, {}), now) == [GpuProcess(7, 1, sm=100)]
