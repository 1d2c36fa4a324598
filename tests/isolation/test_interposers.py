"""Programs that cancel threads, have wrong clocks, or whose stderr no one reads."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from gpushare.isolation import region
from tests.isolation.conftest import Make
from tests.isolation.test_stalled_lock import release, stopped_holder
from tests.isolation.test_ways_in import compiled
from tests.support.fixtures.isolation import Container, needs_compiler, share

pytestmark = needs_compiler
RATE = 100_000
DAY_S = 86_400


@pytest.mark.parametrize("beside", [True, False])
def test_a_cancelled_thread_keeps_no_lock(make: Make, tmp_path: Path, *, beside: bool) -> None:
    container = make().with_launches()
    container.limit(share(4, 15, core_percent=50))
    container.write(*region.rate_writes(0, RATE, time.monotonic_ns()))
    container.timeout_s = 20
    program = compiled(tmp_path / "cancelled", "cancelled.c", str(container.stub.library), "-lpthread")
    with container.start(f"context(); say({beside} and alloc(10)[0]); sys.stdin.read()") as other:
        other.stdout.readline()
        assert container.run([str(program)]).stdout == "0 2 2\n"
        other.communicate("")


def test_a_program_whose_messages_no_one_reads_continues(container: Container, tmp_path: Path) -> None:
    container.write_limit("invalid")
    client = compiled(tmp_path / "client", "client.c", "-ldl")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(  # noqa: S603 - just compiled
        [client, "dlsym", "1"],
        env=container.env,
        stdout=subprocess.PIPE,
        stderr=writer,
        timeout=20,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, b"201\n")


@pytest.fixture
def fake_time(make: Make, tmp_path: Path) -> Container:
    """A container whose programs have the library for wrong clocks."""
    container = make().with_launches()
    container.loaded_first = compiled(tmp_path / "libfake.so", "fake_time.c", "-shared", "-fPIC", "-ldl")
    container.timeout_s = 20
    return container


def test_a_wrong_clock_does_not_shorten_the_wait_for_the_lock(fake_time: Container) -> None:
    fake_time.limit(share(4, 15))
    code = "context(); say(0); sys.stdin.readline()"
    code += f"; os.environ['FAKE_SECONDS'] = '{-DAY_S}'; say(alloc(1)[0])"
    with fake_time.start(code) as client:
        client.stdout.readline()
        with stopped_holder(fake_time) as holder:
            client.stdin.write("\n")
            client.stdin.flush()
            time.sleep(0.5)
            release(holder)
            assert client.stdout.readline() == "[0]\n"


def test_a_wrong_clock_delays_no_launch_of_another_process(fake_time: Container) -> None:
    fake_time.limit(share(4, 15, core_percent=50))
    fake_time.write(*region.rate_writes(0, RATE, time.monotonic_ns()))
    code = "context()\nfor i in range(3): launch(1, 32 * RATE // 100)"
    fake_time.python(code.replace("RATE", str(RATE)), {"FAKE_SECONDS": str(DAY_S)})
    begin = time.monotonic()
    fake_time.python(code.replace("RATE", str(RATE)))
    assert time.monotonic() - begin < 5
