"""The lock of the region while a process that holds it is stopped: nothing that was freed stays charged."""

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.isolation.conftest import Make
from tests.isolation.test_region import LOCKED
from tests.support.fixtures.isolation import MIB, Client, Container, needs_compiler

pytestmark = needs_compiler

# Prints the result of each line of its input, a Python expression.
CLIENT = "context(); blocks = [alloc(1000)[1] for _ in range(3)]\nfor line in sys.stdin: say(eval(line))"


@contextmanager
def stopped_holder(container: Container) -> Iterator[Client]:
    """A process that holds the lock and is stopped; at the next line of input it releases the lock."""
    unlock = "c.CDLL(None).pthread_mutex_unlock(c.c_void_p(c.addressof(c.c_char.from_buffer(view)) + 24))"
    code = f"{LOCKED}\nview = lock({str(container.shared)!r}); say(0)\nfor line in sys.stdin: say({unlock})"
    with container.start(code) as holder:
        holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED)
        try:
            yield holder
        finally:
            holder.kill()


@contextmanager
def client_of(container: Container) -> Iterator[Client]:
    with container.start(CLIENT) as client:
        try:
            assert answer(client, "len(blocks)") == 3
            yield client
        finally:
            client.kill()


def answer(process: Client, line: str) -> object:
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())[0]


def release(holder: Client) -> None:
    holder.send_signal(signal.SIGCONT)
    assert answer(holder, "") == 0


def used_mib(container: Container) -> int:
    return container.seen().cards[0].used >> 20


def test_memory_freed_while_the_lock_is_stalled_is_released_at_the_next_call(make: Make) -> None:
    container = make(context_mib=121)
    with client_of(container) as client:
        assert answer(client, "left()[1]") == 4301 - 3000 - 121
        with stopped_holder(container) as holder:
            assert answer(client, "free(blocks.pop())") == 0
            assert answer(client, "free(blocks.pop())") == 0
            assert used_mib(container) == 3121
            release(holder)
            assert answer(client, "free(blocks.pop())") == 0
            assert used_mib(container) == 121


def test_managed_memory_freed_while_the_lock_is_stalled_is_not_managed_any_more(make: Make) -> None:
    container = make(context_mib=121)
    with client_of(container) as client:
        code = "cuda.cuMemAllocManaged(c.byref(at := c.c_uint64()), c.c_size_t(500 * MIB), 1)"
        assert answer(client, code) == 0
        assert container.seen().processes[0].managed[0] == 500 * MIB
        with stopped_holder(container) as holder:
            assert answer(client, "free(at)") == 0
            release(holder)
            assert answer(client, "free(blocks.pop())") == 0
            (one,) = container.seen().processes
            assert (one.used[0] // MIB, one.managed[0]) == (2121, 0)


def test_contexts_destroyed_while_the_lock_is_stalled_are_released(make: Make) -> None:
    container = make(context_mib=121)
    with client_of(container) as client:
        assert answer(client, "[free(each) for each in blocks]") == [0, 0, 0]
        with stopped_holder(container) as holder:
            assert answer(client, "cuda.cuDevicePrimaryCtxReset_v2(0)") == 0
            release(holder)
            assert answer(client, "context()") == 0
            assert used_mib(container) == 121


def test_a_call_waits_its_full_time_again_after_a_stalled_lock_was_released(make: Make) -> None:
    container = make(context_mib=121)
    with client_of(container) as client:
        with stopped_holder(container) as holder:
            assert answer(client, "alloc(1)[0]") == 2
            release(holder)
            assert answer(client, "alloc(1)[0]") == 0
        with stopped_holder(container):
            began = time.monotonic()
            assert answer(client, "alloc(1)[0]") == 2
            assert time.monotonic() - began > 4


@contextmanager
def locked_file(container: Container) -> Iterator[int]:
    """The region with a lock on its file, as while another process initialises it."""
    file = os.open(container.shared, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def test_a_file_that_stays_locked_allows_no_memory(make: Make) -> None:
    container = make(context_mib=121)
    with locked_file(container):
        began = time.monotonic()
        done = container.python("say(context())")
        assert 4 < time.monotonic() - began < 15
        assert done.stdout == "[2]\n"
        assert "it is locked" in done.stderr


def test_signals_do_not_end_the_wait_for_the_file(make: Make) -> None:
    """The timer is quicker than the pause between two attempts, so that each pause is interrupted."""
    container = make(context_mib=121)
    code = """
import signal
signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
say(0); say(context(), alloc(1)[0])
"""
    with locked_file(container) as file, container.start(code) as client:
        client.stdout.readline()
        time.sleep(0.3)
        fcntl.flock(file, fcntl.LOCK_UN)
        assert client.stdout.readline() == "[0, 0]\n"
