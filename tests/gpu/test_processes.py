"""Many processes, and processes of several users, in one container on a real GPU."""

import json
import os

import pytest

from gpushare.isolation.limits import CardLimit
from gpushare.model.hardware import Gpu
from tests.gpu.conftest import ESTIMATE_MIB, LIMIT_MIB, OUT_OF_MEMORY, TIMEOUT_S
from tests.gpu.test_driver import line, report
from tests.support.fixtures.isolation import Preloaded

MOST = 300
CROWD = """
heard, told = os.pipe(); go, end = os.pipe()
for i in range({count}):
    if os.fork() == 0:
        os.close(end); cuda.cuInit(0); v = context() or alloc(1)[0]
        os.write(told, bytes([min(v, 255)])); os.read(go, 1); os._exit(0)
say(sum(os.read(heard, 1) == b"\\0" for i in range({count})))
sys.stdin.read(); os.close(end)
"""
"""Forks processes that wait, and counts those that got a context and a MiB."""
REFUSED = """
import time
context(); alloc(1 << 30); begun = time.perf_counter()
for i in range(100): v, at = alloc(1 << 30)
say(v, (time.perf_counter() - begun) * 10)
"""
"""The answer to a request that is too large, and its time in ms."""
AS_NOBODY = """
context(); os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
for ask in sys.stdin: say(alloc(int(ask))[0])
"""


@pytest.mark.timeout(3 * TIMEOUT_S)
def test_hundreds_of_processes_use_the_gpu_at_once(container: Preloaded, gpu: Gpu) -> None:
    """As many as their contexts leave room for, up to 300."""
    container.limit(CardLimit(gpu.uuid, gpu.mib, gpu.mib, gpu.mib, ESTIMATE_MIB))
    count = min(MOST, gpu.mib // (ESTIMATE_MIB + 50) - 2)
    with container.start(CROWD.format(count=count)) as crowd:
        assert line(crowd) == [count]
        assert len(container.seen().processes) == count
        verdict, ms = json.loads(container.python(REFUSED).stdout)
        report(gpu, f"beside {count} processes a refused request takes {ms:.2f} ms")
        assert verdict == OUT_OF_MEMORY
        crowd.communicate("")


@pytest.mark.needs("root")
def test_memory_of_a_process_of_another_user_is_counted(container: Preloaded) -> None:
    with container.start(AS_NOBODY) as other:
        assert other.stdin is not None
        other.stdin.write(f"{LIMIT_MIB - ESTIMATE_MIB - 1000}\n")
        other.stdin.flush()
        assert line(other) == [0]
        assert json.loads(container.python("say(context(), alloc(1000)[0])").stdout) == [0, OUT_OF_MEMORY]
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert json.loads(container.python("context(); say(alloc(2500)[0])").stdout) == [0]
