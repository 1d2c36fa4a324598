import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from subprocess import Popen

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.isolation.conftest import Make
from tests.support.isolation import MIB, PRELUDE, Container, needs_compiler, share

pytestmark = needs_compiler

# Reads a number of MiB to allocate, or -1 to free the latest, a line each; answers each.
WORKER = """
context()
held = []
for line in sys.stdin:
    mib = int(line)
    if mib < 0:
        say(free(held.pop()) if held else 0)
        continue
    v, at = alloc(mib)
    if v == 0: held.append(at)
    say(v)
"""


@contextmanager
def worker(container: Container) -> Iterator["Popen[str]"]:
    with container.start(WORKER) as process:
        yield process
        process.kill()


def ask(process: "Popen[str]", mib: int) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{mib}\n")
    process.stdin.flush()
    return int(json.loads(process.stdout.readline())[0])


def test_the_memory_of_the_killed_is_had_by_the_next(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    with worker(container) as first, worker(container) as second:
        assert ask(first, 3000) == 0
        assert ask(second, 3000) == 2
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert ask(second, 3000) == 0


def test_the_memory_of_a_zombie_is_free(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    with worker(container) as first, worker(container) as second:
        assert ask(first, 3000) == 0
        os.kill(first.pid, signal.SIGKILL)
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        assert ask(second, 3000) == 0


def test_a_forked_child_has_nothing_of_its_parents(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    code = """
context(); v, at = alloc(2000); say(v)
pid = os.fork()
if pid == 0:
    context(); say(alloc(2000)[0], alloc(2000)[0], left()[1]); os._exit(0)
os.waitpid(pid, 0); say(left()[1], free(at), left()[1])
"""
    lines = container.python(code).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [[0], [0, 2, 301], [2301, 0, 4301]]


def test_a_program_that_becomes_another_leaves_nothing_behind(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    code = """
context()
say(alloc(3000)[0])
if "again" not in os.environ:
    os.environ["again"] = "1"
    os.execv(sys.executable, [sys.executable, "-S", "-c", os.environ["CODE"]])
"""
    assert container.python(code, {"CODE": PRELUDE + code}).stdout == "[0]\n[0]\n"
    assert len(container.seen().processes) == 1


def test_threads_together_stay_within_the_limit(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    code = """
import threading
held = c.c_void_p(); cuda.cuDevicePrimaryCtxRetain(c.byref(held), 0)
def work():
    cuda.cuCtxSetCurrent(held)
    for i in range(300):
        v, at = alloc(700)
        if v == 0: assert free(at) == 0
        else: assert v == 2
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
context(); say(left()[1])
"""
    assert container.python(code).stdout == "[4301]\n"
    assert container.stub.peak(0) <= 4301 * MIB


def test_a_process_that_was_killed_with_the_lock_held_stops_nobody(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    busy = "context()\nsay(0)\nwhile True:\n v, at = alloc(100)\n if v == 0: free(at)"
    chance = random.Random(1)
    for _ in range(10):
        with container.start(busy) as process:
            assert process.stdout is not None
            process.stdout.readline()
            with pytest.raises(Exception, match="timed out"):
                process.wait(chance.random() / 20)
            process.kill()
    assert container.python("context(); say(alloc(4301)[0])").stdout == "[0]\n"


steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([-1, -1, 1, 500, 1500, 3000, 4301, 5000, None])),
    min_size=1,
    max_size=20,
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
def test_processes_that_come_and_go_never_exceed_the_limit(
    make: Make, steps: list[tuple[int, int | None]]
) -> None:
    container = make()
    container.limit(share(4, 15))
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(container)) for _ in range(3)]
        for who, mib in steps:
            if mib is None:
                workers[who].kill()
                workers[who].wait()
                workers[who] = stack.enter_context(worker(container))
            else:
                used = container.stub.used(0)
                verdict = ask(workers[who], mib)
                if mib >= 0:
                    assert verdict == (0 if used + mib * MIB <= 4301 * MIB else 2)
            assert container.stub.used(0) <= 4301 * MIB
    assert container.stub.peak(0) <= 4301 * MIB
    assert container.python("context(); say(alloc(4301)[0])").stdout == "[0]\n"
