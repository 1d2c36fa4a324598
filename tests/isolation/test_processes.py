import json
import os
import random
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpushare.isolation import region
from gpushare.isolation.region_layout import HEADER, LAYOUT, SLOTS
from tests.isolation.conftest import Make
from tests.isolation.test_ways_in import compiled
from tests.support.fixtures.isolation import MIB, PRELUDE, Client, Container, needs_compiler

pytestmark = needs_compiler

# Reads one number per line: MiB to allocate, or -1 to free the last allocation. Prints each result.
WORKER = """
context()
allocated = []
for line in sys.stdin:
    mib = int(line)
    if mib < 0:
        say(free(allocated.pop()) if allocated else 0)
        continue
    v, at = alloc(mib)
    if v == 0: allocated.append(at)
    say(v)
"""

# The same in a thread, once the first thread has ended: the process is a zombie with threads then.
WITHOUT_FIRST_THREAD = f"""
import platform, threading
def state(): return open("/proc/self/stat").read().rpartition(")")[2].split()[0]
def work():
    while state() != "Z": pass
{indent(WORKER, "    ")}
threading.Thread(target=work).start()
c.CDLL(None).syscall({{"x86_64": 60, "aarch64": 93}}[platform.machine()], 0)
"""


def soon(process: Client, mib: int) -> int:
    """The answer to a request that is repeated until it is granted, for a few seconds."""
    deadline = time.monotonic() + 10
    while (verdict := ask(process, mib)) and time.monotonic() < deadline:
        pass
    return verdict


def used_slots(count: int) -> region.Write:
    """The number of used slots in the header."""
    return region.Write(HEADER.size - 8, struct.pack("<I", count))


@contextmanager
def worker(container: Container) -> Iterator[Client]:
    with container.start(WORKER) as process:
        yield process
        process.kill()


def ask(process: Client, mib: int) -> int:
    process.stdin.write(f"{mib}\n")
    process.stdin.flush()
    return int(json.loads(process.stdout.readline())[0])


def test_memory_of_a_killed_process_is_released(container: Container) -> None:
    with worker(container) as first, worker(container) as second:
        assert ask(first, 3000) == 0
        assert ask(second, 3000) == 2
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert ask(second, 3000) == 0


def test_memory_of_a_zombie_is_released(container: Container) -> None:
    with worker(container) as first, worker(container) as second:
        assert ask(first, 3000) == 0
        os.kill(first.pid, signal.SIGKILL)
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        assert ask(second, 3000) == 0


def test_a_process_whose_first_thread_has_ended_keeps_its_memory(container: Container) -> None:
    with container.start(WITHOUT_FIRST_THREAD) as first, worker(container) as second:
        assert ask(first, 3000) == 0
        assert ask(second, 3000) == 2
        assert ask(first, 1000) == 0
        assert [each.used[0] for each in container.seen().processes if each.pid == first.pid] == [4000 * MIB]
        first.kill()
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        assert ask(second, 3000) == 0


def test_a_process_whose_first_thread_has_ended_can_begin(container: Container) -> None:
    """It learns its own start after that thread has ended."""
    with container.start(WITHOUT_FIRST_THREAD) as process:
        assert ask(process, 3000) == 0
        (slot,) = container.seen().processes
        assert slot.start > 0
        process.kill()


def test_memory_of_a_process_whose_pid_is_reused_is_released(container: Container) -> None:
    with worker(container) as first, worker(container) as second:
        assert ask(first, 3000) == 0
        slot = next(each for each in container.seen().processes if each.pid == first.pid)
        # The PID of an earlier process, which now belongs to the first one.
        start_at = LAYOUT.slots_at + slot.slot * LAYOUT.slot + 8
        container.write(region.Write(start_at, (slot.start - 1).to_bytes(8, "little")))
        assert ask(second, 3000) == 0


def test_a_process_whose_slot_was_given_away_takes_another(make: Make) -> None:
    """So does one that others could not see, in its own PID namespace."""
    container = make(context_mib=121)
    with ExitStack() as stack:
        first = stack.enter_context(worker(container))
        assert ask(first, 3000) == 0
        (slot,) = container.seen().processes
        container.write(region.Write(LAYOUT.slots_at + slot.slot * LAYOUT.slot, bytes(LAYOUT.slot)))
        second = stack.enter_context(worker(container))
        assert ask(second, 1000) == 0
        (taken,) = container.seen().processes
        assert (taken.slot, taken.pid) == (slot.slot, second.pid)
        assert ask(first, 1) == 0
        used = {each.pid: each.used[0] // MIB for each in container.seen().processes}
        assert used == {first.pid: 3122, second.pid: 1121}
        assert container.seen().cards[0].used == (3122 + 1121) * MIB
        assert [ask(first, 100), ask(second, 100)] == [2, 2]
        assert [ask(first, -1), ask(first, -1)] == [0, 0]
        assert ask(second, 3000) == 0


def test_a_forked_child_is_not_charged_for_its_parent(container: Container) -> None:
    code = """
context(); v, at = alloc(2000); say(v)
pid = os.fork()
if pid == 0:
    context(); say(alloc(2000)[0], alloc(2000)[0], left()[1]); os._exit(0)
os.waitpid(pid, 0); say(left()[1], free(at), left()[1])
"""
    lines = container.python(code).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [[0], [0, 2, 301], [2301, 0, 4301]]


def test_exec_releases_the_memory_of_the_former_program(container: Container) -> None:
    code = """
context()
say(alloc(3000)[0])
if "again" not in os.environ:
    os.environ["again"] = "1"
    os.execv(sys.executable, [sys.executable, "-S", "-c", os.environ["CODE"]])
"""
    assert container.python(code, {"CODE": PRELUDE + code}).stdout == "[0]\n[0]\n"
    assert len(container.seen().processes) == 1
    assert container.stub.peak(0) == 3000 * MIB


def test_a_process_that_executes_a_program_without_cuda_holds_no_memory(container: Container) -> None:
    code = "context(); say(alloc(3000)[0]); os.read(0, 1); os.execvp('cat', ['cat'])"
    with container.start(code) as process, worker(container) as other:
        assert process.stdout.readline() == "[0]\n"
        assert [ask(other, 3000), ask(other, 1000)] == [2, 0]
        process.stdin.write(".here\n")
        process.stdin.flush()
        assert process.stdout.readline() == "here\n"
        assert container.stub.used(0) == 1000 * MIB
        assert soon(other, 3000) == 0
        assert container.python("context(); say(left()[1])").stdout == "[301]\n"
        assert process.pid not in {each.pid for each in container.seen().processes}
        assert container.stub.peak(0) == 4000 * MIB
        process.kill()


def test_a_slot_that_changes_hands_while_its_process_is_looked_up_stays(
    container: Container, tmp_path: Path
) -> None:
    looks = compiled(tmp_path / "liblook.so", "slow_look.c", "-shared", "-fPIC", "-ldl")
    at = LAYOUT.slots_at + 5 * LAYOUT.slot
    with worker(container) as other:
        assert ask(other, 1) == 0
        (living,) = container.seen().processes
        container.write(
            used_slots(6), region.Write(at, struct.pack("<3Q", 1 << 29, 1, 3000 * MIB))
        )  # has ended
        container.loaded_first = looks
        with container.start("context(); say(alloc(2000)[0], alloc(1000)[0])") as process:
            assert process.stdout.readline() == "looks\n"
            container.write(region.Write(at, struct.pack("<2Q", living.pid, living.start)))
            assert process.communicate("\n")[0] == "[2, 0]\n"


@pytest.mark.parametrize(("start", "used"), [(1, 4000), (0, 1000)])
def test_only_a_former_self_is_removed_from_the_region(container: Container, start: int, used: int) -> None:
    """A process with another start is another one, which has the same PID in its own namespace."""
    container.python("context()")
    with container.start("sys.stdin.readline(); context(); say(alloc(1000)[0]); sys.stdin.read()") as process:
        slot = struct.pack("<3Q", process.pid, start, 3000 * MIB)
        container.write(used_slots(6), region.Write(LAYOUT.slots_at + 5 * LAYOUT.slot, slot))
        assert ask(process, 0) == 0
        assert container.seen().cards[0].used == used * MIB
        process.kill()


def test_threads_together_stay_within_the_limit(container: Container) -> None:
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


def test_a_process_killed_with_the_lock_blocks_no_other(container: Container) -> None:
    busy = "context()\nsay(0)\nwhile True:\n v, at = alloc(100)\n if v == 0: free(at)"
    chance = random.Random(1)
    for _ in range(10):
        with container.start(busy) as process:
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
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
def test_processes_that_come_and_go_never_exceed_the_limit(
    make: Make, steps: list[tuple[int, int | None]]
) -> None:
    container = make()
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


# A child of vfork shares the memory of its parent, so it must not change the records of its parent.
VFORK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
    int (*alloc)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(library, "cuMemAlloc_v2");
    int (*give)(uint64_t) = (int (*)(uint64_t))dlsym(library, "cuMemFree_v2");
    uint64_t first, second;
    volatile int inside = -1;
    init(0), retain(&context, 0), set(context);
    int before = alloc(&first, 3000ul << 20);
    pid_t pid = vfork();
    if (pid == 0) {
        inside = alloc(&second, 1000ul << 20);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    printf("%d %d %d ", before, inside, alloc(&second, 2000ul << 20));
    int given = give(first);
    printf("%d %d\\n", given, alloc(&second, 4301ul << 20));
    return 0;
}
"""


def test_a_child_of_vfork_gets_no_memory_and_changes_no_usage(container: Container, tmp_path: Path) -> None:
    source = tmp_path / "vforks.c"
    source.write_text(VFORK)
    command = ["gcc", "-o", str(tmp_path / "vforks"), str(source), "-ldl"]
    subprocess.run(command, check=True, timeout=60)  # noqa: S603 - the compiler that PATH has
    assert container.run([str(tmp_path / "vforks")]).stdout == "0 2 2 0 0\n"


# A process that may neither signal nor, with hidepid, see another one: it has another user and group.
AS_ANOTHER_USER = WORKER.replace(
    "context()\n",
    "context(); os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n",
)
HIDDEN = ["unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]


@pytest.mark.needs("root", "unshare")
@pytest.mark.parametrize("wrapper", [[], HIDDEN], ids=["visible", "hidden"])
def test_memory_of_a_running_process_of_another_user_is_counted(
    container: Container, wrapper: list[str]
) -> None:
    with worker(container) as first, container.start(AS_ANOTHER_USER, *wrapper) as second:
        assert ask(first, 3000) == 0
        assert ask(second, 3000) == 2
        assert ask(second, 3000) == 2
        assert ask(first, -1) == 0
        assert ask(second, 3000) == 0
        second.kill()


@pytest.mark.needs("root", "unshare")
@pytest.mark.parametrize("wrapper", [[], HIDDEN], ids=["visible", "hidden"])
def test_memory_of_an_ended_process_of_another_user_is_free_at_once(
    container: Container, wrapper: list[str]
) -> None:
    with worker(container) as first, container.start(AS_ANOTHER_USER, *wrapper) as second:
        assert ask(first, 3000) == 0
        assert [ask(second, 3000), ask(second, 3000)] == [2, 2]
        first.kill()
        first.wait()
        assert ask(second, 3000) == 0
        second.kill()


# Starts processes that wait, prints how many of them got memory, and ends them with the input.
CROWD = """
def child(go):
    cuda.cuInit(0); v = context() or alloc(1)[0]
    os.write(told, bytes([v])); os.read(go, 1); os._exit(0)
heard, told = os.pipe(); go, end = os.pipe()
for i in range({count}):
    if os.fork() == 0: os.close(end); child(go)
say(sum(os.read(heard, 1) == b"\\0" for i in range({count})))
sys.stdin.read(); os.close(end)
"""


def test_three_hundred_processes_use_the_gpu_at_once(container: Container) -> None:
    with container.start(CROWD.format(count=300)) as crowd:
        assert crowd.stdout.readline() == "[300]\n"
        seen = container.seen()
        assert (len(seen.processes), seen.cards[0].used, seen.crowded) == (300, 300 * MIB, 0)
        assert container.python("context(); say(left()[1], alloc(4001)[0])").stdout == "[4001, 0]\n"
        crowd.communicate("")


def fill_slots(container: Container, living: region.ProcessUse) -> None:
    """Write a living process into all other slots."""
    writes = (
        region.Write(LAYOUT.slots_at + slot * LAYOUT.slot, struct.pack("<2Q", living.pid, living.start))
        for slot in range(SLOTS)
        if slot != living.slot
    )
    container.write(used_slots(SLOTS), *writes)


def test_a_process_without_a_slot_says_so_and_is_counted(container: Container) -> None:
    with worker(container) as other:
        assert ask(other, 1000) == 0
        fill_slots(container, container.seen().processes[0])
        code = "say(context(), context())"
        done = container.python(code)
        assert done.stdout == "[2, 2]\n"
        assert done.stderr.count(f"{SLOTS} processes of this container use GPUs") == 1
        assert done.stderr.count("\n") == 1
        container.python(code)
        seen = container.seen()
        assert (seen.crowded, seen.cards[0].refusals) == (2, 0)
        other.kill()
        other.wait()
    done = container.python("context(); say(alloc(4301)[0], alloc(1)[0])")
    assert (done.stdout, done.stderr) == ("[0, 2]\n", "")
    seen = container.seen()
    assert (seen.crowded, seen.cards[0].refusals) == (2, 1)


def test_refused_calls_look_at_other_processes_ten_times_a_second(container: Container) -> None:
    code = """
import time
def reads(): return int(open("/proc/self/io").read().split("syscr: ")[1].split()[0])
context(); before, begun = reads(), time.monotonic()
say(sum(alloc(5000)[0] for i in range(200)))
say(reads() - before, time.monotonic() - begun)
"""
    with container.start(CROWD.format(count=20)) as crowd:
        assert crowd.stdout.readline() == "[20]\n"
        verdicts, (reads, took_s) = map(json.loads, container.python(code).stdout.splitlines())
        assert verdicts == [400]
        assert reads <= 21 * (2 + took_s / 0.1) + 10
        crowd.communicate("")


def test_memory_of_a_process_that_ends_right_after_a_look_is_free_at_once(container: Container) -> None:
    code = """
import signal
heard, told = os.pipe(); verdicts = []
for i in range(5):
    child = os.fork()
    if child == 0:
        cuda.cuInit(0); context(); alloc(3000); os.write(told, b"."); signal.pause()
    os.read(heard, 1)
    if i == 0: cuda.cuInit(0); context()
    v, at = alloc(2000)
    os.kill(child, 9); os.waitpid(child, 0)
    w, at = alloc(2000); free(at)
    verdicts.append([v, w])
say(*verdicts)
"""
    assert json.loads(container.python(code).stdout) == [[2, 0]] * 5
