import json
import os
import signal
import time
from pathlib import Path

import pytest

from gpushare.isolation import region
from gpushare.isolation.region_layout import KINDS
from tests.isolation.conftest import Make
from tests.isolation.test_memory import reported
from tests.isolation.test_ways_in import compiled, exports
from tests.support.fixtures.isolation import LAUNCH_LIBRARY, Container, Regulator, needs_compiler, share

pytestmark = needs_compiler
NAMES = {
    f"{name}{kind}"
    for name in ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch")
    for kind in ("", "_ptsz")
}
MS = 1_000_000
# Both launch in an endless loop and print a line first: one kernels of 2 ms, one sometimes longer kernels.
LIKE = "context()\nsay(launch(1))\nwhile True: launch(2_000_000)"
UNLIKE = """
context()
say(launch(1))
while True:
    for i in range(7): launch(300_000, threads=320)
    launch(5_000_000, threads=64)
"""


def limited(container: Container, percent: int = 25) -> Container:
    container.limit(share(4, 15, core_percent=percent))
    return container


def rate(container: Container, threads: int) -> None:
    """So many threads in a second; of all kinds, each costs a token."""
    container.write(
        region.price_write(0, [1 << 20] * KINDS), *region.rate_writes(0, threads, time.monotonic_ns())
    )


def work(container: Container) -> int:
    return sum(container.seen().cards[0].work)


def test_the_build_with_launch_control_also_exports_launches(library: Path) -> None:
    assert exports(library.with_name(LAUNCH_LIBRARY)) == exports(library) | NAMES


@pytest.mark.parametrize("way", ["dlsym", "dlvsym", "address", "address_v2", "direct", "next"])
def test_launches_are_counted_for_each_way_of_loading_the_driver(
    launcher: Container, tmp_path: Path, way: str
) -> None:
    limited(launcher)
    linked = ["-DLINKED", str(launcher.stub.library)] if way in ("direct", "next") else []
    client = compiled(tmp_path / "client", "client.c", *linked, "-ldl")
    assert launcher.run([str(client), way, "4302", "1"]).stdout == "2\n0\n"
    assert work(launcher) == 64


def test_every_kind_of_launch_is_counted(launcher: Container) -> None:
    limited(launcher)
    code = """
class Config(c.Structure):
    _fields_ = [(n, c.c_uint) for n in "abcdefg"] + [("s", c.c_void_p), ("l", c.c_void_p), ("n", c.c_uint)]
context()
shape = (2, 3, 1, 32, 2, 2)
for kind in ("", "_ptsz"):
    at = c.c_void_p(1000)
    say(getattr(cuda, "cuLaunchKernel" + kind)(at, *shape, 0, None, None, None))
    say(getattr(cuda, "cuLaunchCooperativeKernel" + kind)(at, *shape, 0, None, None))
    say(getattr(cuda, "cuLaunchKernelEx" + kind)(c.byref(Config(*shape, 0, None, None, 0)), at, None, None))
    say(getattr(cuda, "cuGraphLaunch" + kind)(at, None))
"""
    assert reported(launcher, code) == [[0]] * 8
    assert work(launcher) == 2 * (3 * 2 * 3 * 32 * 2 * 2 + 2**25)
    assert sum(launcher.stub.busy_ns(0).values()) == 8000


def test_per_thread_streams_have_launches_of_their_own(launcher: Container) -> None:
    limited(launcher)
    code = """
at = c.c_void_p()
for name in ("cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch", "cuLaunchCooperativeKernel"):
    for flags, kind in ((0, ""), (2, "_ptsz")):
        cuda.cuGetProcAddress(name.encode(), c.byref(at), 12000, c.c_uint64(flags))
        say(at.value == c.cast(getattr(cuda, name + kind), c.c_void_p).value)
"""
    assert reported(launcher, code) == [[True]] * 8


@pytest.mark.parametrize("era", [418, 580])
def test_only_launches_of_the_driver_are_visible(make: Make, era: int) -> None:
    made = make(era=era)
    container = limited(made.with_launches())
    code = f"say([hasattr(cuda, n) for n in {sorted(NAMES)}])"
    alone = container.python(code, {"LD_PRELOAD": ""}).stdout
    assert container.python(code).stdout == alone
    assert ("false" in alone) == (era == 418)


def test_memory_is_limited_with_launches_too(launcher: Container) -> None:
    limited(launcher)
    assert reported(launcher, "context(); say(alloc(4302)[0], alloc(4301)[0])") == [[2, 0]]


def test_two_containers_get_their_compute_shares(make_two: tuple[Container, Container]) -> None:
    small, large = (
        Regulator(limited(each, n), contended=True) for each, n in zip(make_two, (25, 75), strict=True)
    )
    with small.container.start(LIKE) as one, large.container.start(UNLIKE) as two:
        try:
            for each in (one, two):
                each.stdout.readline()
            for _ in range(10):
                advance(small, large)
            begin = time.monotonic_ns()
            before = small.busy_ns(), large.busy_ns()
            while time.monotonic_ns() - begin < 3000 * MS:
                advance(small, large)
            busy = small.busy_ns() - before[0], large.busy_ns() - before[1]
            elapsed = time.monotonic_ns() - begin
        finally:
            one.kill()
            two.kill()
    assert 100 * busy[0] / elapsed <= 30
    assert 100 * busy[1] / elapsed <= 80
    assert 20 <= 100 * busy[0] / sum(busy) <= 30


def advance(*regulators: Regulator) -> None:
    time.sleep(0.1)
    for each in regulators:
        each.step()


def test_without_new_samples_the_last_rate_applies(launcher: Container) -> None:
    limited(launcher)
    launcher.python("context()")
    rate(launcher, 3200)
    code = """
import time
context(); launch(1); begin = time.monotonic()
say([launch(1000) for i in range(120)] == [0] * 120, time.monotonic() - begin > 0.9)
"""
    assert reported(launcher, code) == [[True, True]]
    assert launcher.seen().cards[0].rate == 3200
    assert sum(launcher.stub.busy_ns(0).values()) == 120 * 1000 + 1


def test_a_lower_rate_applies_at_once(launcher: Container) -> None:
    limited(launcher)
    launcher.python("context()")
    rate(launcher, 10**12)
    launcher.python("context(); launch(1); launch(1)")
    rate(launcher, 3200)
    code = "import time; context(); begin = time.monotonic(); [launch(1) for i in range(120)]"
    assert reported(launcher, f"{code}; say(time.monotonic() - begin > 0.9)") == [[True]]


def test_before_the_first_sample_nothing_waits(launcher: Container) -> None:
    limited(launcher)
    assert reported(launcher, "context(); say(max(launch(1) for i in range(10000)))") == [[0]]
    assert work(launcher) == 320_000


@pytest.mark.parametrize("percent", [0, 100])
def test_a_container_with_a_full_compute_share_is_not_limited(launcher: Container, percent: int) -> None:
    limited(launcher, percent)
    rate(launcher, 1)
    assert reported(launcher, "context(); say(max(launch(1) for i in range(10000)))") == [[0]]
    assert work(launcher) == 0


def test_a_process_killed_while_it_waits_blocks_no_other(launcher: Container) -> None:
    limited(launcher)
    launcher.python("context()")
    rate(launcher, 100_000)
    code = "context(); launch(1); say(launch(1, threads=50_016)); launch(1); say(0)"
    for _ in range(3):
        with launcher.start(code) as waiting:
            waiting.stdout.readline()
            os.kill(waiting.pid, signal.SIGKILL)
            assert waiting.wait() == -signal.SIGKILL
    assert reported(launcher, "context(); say([launch(1) for i in range(20)])") == [[[0] * 20]]


def test_threads_and_children_share_one_bucket(launcher: Container) -> None:
    limited(launcher)
    launcher.python("context()")
    rate(launcher, 20 * 3200)
    code = """
import threading, time
context(); held = c.c_void_p(); cuda.cuCtxGetCurrent(c.byref(held))
def work():
    cuda.cuCtxSetCurrent(held)
    for i in range(100): assert launch(1) == 0
begin = time.monotonic()
pid = os.fork()
if pid == 0:
    context()
    for i in range(200): assert launch(1) == 0
    os._exit(0)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
say(os.waitpid(pid, 0)[1], time.monotonic() - begin > 0.25)
"""
    assert reported(launcher, code) == [[0, True]]
    assert work(launcher) == 1000 * 32


def test_captured_launches_do_not_wait(launcher: Container) -> None:
    limited(launcher)
    launcher.python("context()")
    rate(launcher, 1)
    code = """
context(); launch(1); launch(1, threads=3200); say(cuda.cuStreamBeginCapture_v2(None, 0))
say([launch(1000) for i in range(100)] == [0] * 100)
graph = c.c_void_p(); say(cuda.cuStreamEndCapture(None, c.byref(graph)), graph.value); sys.stdin.readline()
say(cuda.cuGraphLaunch(graph, None))
"""
    with launcher.start(code) as process:
        answers = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert answers == [[0], [True], [0, 100_000]]
        assert work(launcher) == 3232
        rate(launcher, 10**9)
        assert process.communicate("\n")[0] == "[0]\n"


def test_captured_launches_take_no_tokens(launcher: Container) -> None:
    limited(launcher)
    launcher.python("context()")
    rate(launcher, 10**9)
    launcher.python("context(); cuda.cuStreamBeginCapture_v2(None, 0); launch(1); launch(1)")
    assert work(launcher) == 0


def test_a_truncated_region_delays_no_launch(launcher: Container) -> None:
    limited(launcher)
    cut = f"os.truncate({str(launcher.shared)!r}, 10); time.sleep(0.01)"
    done = launcher.python(f"import time; context(); say(launch(1)); {cut}; say(launch(1))")
    assert done.stdout == "[0]\n[0]\n"
    assert "it was truncated" in done.stderr


def test_a_program_without_a_limit_calls_the_driver_directly(container: Container) -> None:
    limited(container)
    rate(container, 1)
    assert reported(container, "context(); say(max(launch(1) for i in range(100)))") == [[0]]
    assert work(container) == 0
