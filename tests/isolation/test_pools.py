from pathlib import Path

import pytest

from gpushare.isolation import limits
from testbed.cuda import CudaCard, CudaStub
from tests.isolation.conftest import Make
from tests.isolation.test_memory import reported
from tests.support.fixtures.isolation import (
    LAUNCH_LIBRARY,
    LIBRARY,
    MIB,
    UUID,
    Container,
    card,
    needs_compiler,
    share,
)

pytestmark = needs_compiler

POOLS = """
class Prop(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("type", "handles", "where", "id")] + [("rest", c.c_char * 72)]
context()
def take(mib, pool=None):
    at = c.c_uint64()
    if pool is None: return cuda.cuMemAllocAsync(c.byref(at), c.c_size_t(mib * MIB), None), at
    return cuda.cuMemAllocFromPoolAsync(c.byref(at), c.c_size_t(mib * MIB), pool, None), at
def give(at): return cuda.cuMemFreeAsync(at, None)
def pool(where=1):
    made = c.c_void_p(); cuda.cuMemPoolCreate(c.byref(made), c.byref(Prop(1, 0, where, 0))); return made
def unused(): return left()[1]
def reserved():
    default, value = c.c_void_p(), c.c_uint64(); cuda.cuDeviceGetDefaultMemPool(c.byref(default), 0)
    return cuda.cuMemPoolGetAttribute(default, 5, c.byref(value)) or value.value // MIB
"""
# A graph of the stub's is the ns that it takes.
GRAPHS = """
class Node(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("type", "handles", "where", "id")] + [("rest", c.c_char * 72)]
    _fields_ += [("access", c.c_void_p), ("count", c.c_size_t), ("bytes", c.c_size_t), ("at", c.c_uint64)]
context()
class Any(c.Structure):
    _fields_ = [("kind", c.c_uint), ("reserved", c.c_uint * 3), ("node", Node), ("rest", c.c_uint64 * 15)]
def allocation(mib, where=1): return Node(1, 0, where, 0, b"", None, 0, mib * MIB, 0)
def node(mib, where=1):
    made = c.c_void_p(); of = c.byref(allocation(mib, where))
    return cuda.cuGraphAddMemAllocNode(c.byref(made), None, None, c.c_size_t(0), of)
def any_node(mib, name, kind=10):
    edges = [None] if name.endswith("_v2") else []
    made = c.c_void_p(); of = c.byref(Any(kind, (c.c_uint * 3)(), allocation(mib)))
    return getattr(cuda, name)(c.byref(made), None, None, *edges, c.c_size_t(0), of)
def run(): return cuda.cuGraphLaunch(c.c_void_p(1), None)
def run_unseen(): return cuda.stub_graph_launch_on_device(0)
def upload(): return cuda.cuGraphUpload(c.c_void_p(1), None)
def unused(): return left()[1]
"""
RUNS = ["run()", "run_unseen()"]
"""A launch by the host, and one by a kernel, which the library does not see."""


def test_a_pool_is_charged_for_its_reserved_memory(container: Container) -> None:
    code = f"{POOLS}v, at = take(100); say(v, unused()); say(give(at), unused())"
    assert reported(container, code) == [[0, 4301 - 128], [0, 4301 - 128]]


def test_unused_memory_of_a_pool_is_released_before_a_request_fails(container: Container) -> None:
    code = f"{POOLS}v, at = take(4000); give(at); say(alloc(4200)[0], unused())"
    assert reported(container, code) == [[0, 101]]


def test_a_pool_reuses_its_reserved_memory(container: Container) -> None:
    code = f"{POOLS}\nfor i in range(20):\n v, at = take(4000); say(v, give(at))"
    assert reported(container, code) == [[0, 0]] * 20


def test_a_pool_beyond_the_limit_is_refused(container: Container) -> None:
    code = f"{POOLS}say(take(4302)[0], take(6000)[0], unused()); say(take(4000)[0], take(400)[0])"
    assert reported(container, code) == [[2, 2, 4301], [0, 2]]


def test_the_blocks_of_a_pool_must_fit_too(container: Container) -> None:
    code = f"{POOLS}v, at = alloc(4290); say(take(1)[0], unused()); free(at); say(take(1)[0], unused())"
    assert reported(container, code) == [[2, 11], [0, 4301 - 32]]


def test_created_pools_are_charged_until_destroyed(container: Container) -> None:
    code = f"""{POOLS}
p = pool()
v, at = take(1000, p)
say(v, unused()); say(take(4000, p)[0])
say(give(at), cuda.cuMemPoolDestroy(p), unused())
"""
    assert reported(container, code) == [[0, 4301 - 1024], [2], [0, 0, 4301]]


def test_memory_of_a_destroyed_pool_stays_charged_while_it_is_used(container: Container) -> None:
    code = f"{POOLS}p = pool(); v, at = take(1000, p); w, b = take(500, p); give(b)"
    code += "; say(cuda.cuMemPoolDestroy(p), unused(), take(1, p)[0]); say(give(at), unused())"
    seen = reported(container, code)
    assert seen == [[0, 3301, 400], [0, 3301]]
    assert container.stub.used(0) == 0


def test_a_pool_in_memory_of_the_host_is_not_limited(container: Container) -> None:
    code = f"{POOLS}p = pool(2); v, at = take(5000, p); say(v, unused(), take(4302)[0], take(4301 - 32)[0])"
    code += "; say(give(at), cuda.cuMemPoolDestroy(p), unused())"
    assert reported(container, code) == [[0, 4301, 2, 0], [0, 0, 13]]


def test_trimming_a_pool_reduces_its_charge(container: Container) -> None:
    code = f"""{POOLS}
p = pool()
v, at = take(1000, p); give(at)
say(unused(), cuda.cuMemPoolTrimTo(p, c.c_size_t(0)), unused())
"""
    assert reported(container, code) == [[4301 - 1024, 0, 4301]]


def test_linear_and_pool_memory_can_be_freed_by_both_functions(container: Container) -> None:
    code = f"{POOLS}v, a = take(64); w, b = alloc(1000); say(free(a), give(b), unused())"
    assert reported(container, code) == [[0, 0, 4301 - 64]]


def test_a_graph_that_cannot_fit_is_refused(container: Container) -> None:
    assert reported(container, f"{GRAPHS}say(node(4302), unused()); say(node(4301), unused())") == [
        [2, 4301],
        [0, 4301],
    ]
    (use,) = container.seen().cards
    assert (use.refusals, use.refused, use.needed) == (1, 4302 * MIB, 4302 * MIB)


def test_memory_of_graphs_is_charged_at_the_next_check(container: Container) -> None:
    code = f"{GRAPHS}say(node(1000), run(), unused()); say(alloc(3302)[0])"
    code += "; say(cuda.cuDeviceGraphMemTrim(0), unused())"
    assert reported(container, code) == [[0, 0, 3301], [0], [0, 4301 - 3302]]


def test_unused_memory_of_graphs_is_released_before_a_request_fails(container: Container) -> None:
    code = f"{GRAPHS}say(node(4000), run(), unused(), alloc(4000)[0], unused())"
    assert reported(container, code) == [[0, 0, 301, 0, 301]]
    assert container.stub.peak(0) == 4000 << 20


@pytest.mark.parametrize("run", RUNS)
def test_memory_of_graphs_is_charged_before_a_later_allocation(container: Container, run: str) -> None:
    assert reported(container, f"{GRAPHS}say(node(4000), {run}, alloc(4000)[0])") == [[0, 0, 0]]
    assert container.stub.peak(0) == 4000 << 20


@pytest.mark.parametrize("run", RUNS)
def test_memory_of_graphs_is_charged_before_a_pool_grows(container: Container, run: str) -> None:
    code = f"{POOLS}{GRAPHS}say(node(4000), {run}, take(4000)[0])"
    assert reported(container, code) == [[0, 0, 0]]
    assert container.stub.peak(0) == 4000 << 20


@pytest.mark.parametrize("run", RUNS)
def test_memory_of_graphs_is_charged_before_a_further_context(make: Make, run: str) -> None:
    container = make(context_mib=500)
    code = f"{GRAPHS}own = c.c_void_p(); say(node(3800), {run}, cuda.cuCtxCreate_v2(c.byref(own), 0, 0))"
    assert reported(container, code) == [[0, 0, 0]]
    assert container.stub.peak(0) == 4300 << 20


@pytest.mark.parametrize("name", ["cuGraphAddNode", "cuGraphAddNode_v2"])
def test_nodes_added_by_their_parameters_are_limited_and_charged(container: Container, name: str) -> None:
    code = f"{GRAPHS}def add(*words): return any_node(words[0], {name!r}, *words[1:])\n"
    code += "say(add(4302), add(4302, 5), unused()); say(add(1000), run(), unused())"
    assert reported(container, code) == [[2, 0, 4301], [0, 0, 3301]]
    assert container.stub.peak(0) == 1000 << 20


def test_nodes_in_a_part_of_a_gpu_are_limited(container: Container) -> None:
    code = f"{GRAPHS}of = allocation(4302, 6); of.id = 1 << 8; made = c.c_void_p()"
    code += "; say(cuda.cuGraphAddMemAllocNode(c.byref(made), None, None, c.c_size_t(0), c.byref(of)))"
    assert reported(container, code) == [[2]]


def test_nodes_in_memory_of_the_host_are_not_limited(container: Container) -> None:
    assert reported(container, f"{GRAPHS}say(node(4302, 2), run(), unused())") == [[0, 0, 4301]]


@pytest.mark.parametrize("kind", ["", "_ptsz"])
@pytest.mark.parametrize("verb", ["cuGraphLaunch", "cuGraphUpload", "cuGraphInstantiateWithParams"])
@pytest.mark.parametrize("build", [LIBRARY, LAUNCH_LIBRARY])
def test_memory_of_graphs_is_charged_before_other_processes_allocate(
    container: Container, build: str, verb: str, kind: str
) -> None:
    container.library = container.library.with_name(build)
    words = "c.c_void_p(1), None"
    if "Instantiate" in verb:  # with a flag to upload
        words = "c.byref(c.c_void_p()), c.c_void_p(1), c.byref((c.c_uint64 * 4)(2))"
    code = f"{GRAPHS}say(node(4000), cuda.{verb}{kind}({words})); sys.stdin.read()"
    with container.start(code) as process:
        assert process.stdout.readline() == "[0, 0]\n"
        assert reported(container, "context(); say(alloc(4000)[0], alloc(301)[0])") == [[2, 0]]
        process.communicate("")
    assert container.stub.peak(0) == 4301 << 20


# A stream that captures adds nodes to a graph.
CAPTURE = f"""{POOLS}
def begin(): return cuda.cuStreamBeginCapture_v2(None, 0)
def run():
    graph = c.c_void_p()
    return cuda.cuStreamEndCapture(None, c.byref(graph)) or cuda.cuGraphLaunch(graph, None)
"""


def test_a_captured_allocation_is_charged_when_its_graph_is_launched(container: Container) -> None:
    code = f"{CAPTURE}begin(); say(take(4302)[0], take(1000)[0], unused()); say(run(), unused())"
    assert reported(container, code) == [[2, 0, 4301], [0, 3301]]
    assert container.stub.peak(0) == 1000 << 20
    assert container.seen().cards[0].refusals == 1


@pytest.mark.parametrize(
    "call", ["cuMemAllocAsync_ptsz(to, size, None)", "cuMemAllocFromPoolAsync(to, size, p, None)"]
)
def test_every_captured_allocation_is_charged(container: Container, call: str) -> None:
    code = f"""{CAPTURE}
p = pool(); at = c.c_uint64(); to = c.byref(at); size = c.c_size_t(1000 * MIB)
begin(); say(cuda.{call}); say(run(), alloc(4000)[0], unused())
"""
    assert reported(container, code) == [[0], [0, 0, 301]]
    assert container.stub.peak(0) == 4000 << 20


def test_captured_allocations_are_charged_before_other_processes_allocate(container: Container) -> None:
    with container.start(f"{CAPTURE}begin(); say(take(4000)[0], run()); sys.stdin.read()") as process:
        assert process.stdout.readline() == "[0, 0]\n"
        assert reported(container, "context(); say(alloc(4000)[0])") == [[2]]
        process.communicate("")


def test_a_captured_allocation_that_was_freed_during_the_capture_counts(container: Container) -> None:
    code = f"{CAPTURE}begin(); v, at = take(1000); say(v, give(at)); say(run(), unused())"
    assert reported(container, code) == [[0, 0], [0, 3301]]


def test_a_capture_releases_no_memory_and_its_launch_releases_that_of_pools(container: Container) -> None:
    code = f"{CAPTURE}v, at = take(4000); give(at); begin()"
    code += "; say(take(3000)[0], unused()); say(run(), unused())"
    assert reported(container, code) == [[0, 301], [0, 1301]]
    assert container.stub.used(0) == 0


def test_other_threads_use_memory_while_a_stream_captures(container: Container) -> None:
    code = f"""{CAPTURE}import threading
v, at = take(64); begin()
def work(): say(give(at))
thread = threading.Thread(target=work); thread.start(); thread.join()
say(take(1000)[0], run(), unused())
"""
    assert reported(container, code) == [[0], [0, 0, 3301 - 64]]


def test_a_capture_beyond_used_memory_is_refused(container: Container) -> None:
    code = f"{CAPTURE}v, at = alloc(4000); w, a = take(64); begin()"
    code += "; say(take(238)[0], take(237)[0], run(), unused())"
    assert reported(container, code) == [[2, 0, 0, 0]]


# Locations of memory, and default pools since CUDA 13.
PLACES = f"""{POOLS}
HOST, NOWHERE, PINNED, MANAGED = 2, 0, 1, 2
class Place(c.Structure): _fields_ = [("type", c.c_uint), ("id", c.c_int)]
def default(kind, place, name="cuMemGetDefaultMemPool"):
    found = c.c_void_p(); cuda[name](c.byref(found), c.byref(Place(place, 0)), kind); return found
"""


def test_a_pool_that_was_first_used_without_a_context_is_usable(container: Container) -> None:
    code = PLACES.replace("context()\n", "") + "p = default(MANAGED, NOWHERE)\n"
    code += "say(take(100, p)[0]); context(); say(take(100)[0], take(100, p)[0], unused())"
    assert reported(container, code) == [[201], [0, 0, 4301 - 256]]


@pytest.mark.parametrize("name", ["cuMemGetDefaultMemPool", "cuMemGetMemPool"])
def test_the_default_pool_of_the_host_is_not_limited(container: Container, name: str) -> None:
    code = f"{PLACES}say(take(5000, default(PINNED, HOST, {name!r}))[0], unused())"
    assert reported(container, code) == [[0, 4301]]


@pytest.mark.parametrize("place", ["HOST", "NOWHERE"])
@pytest.mark.parametrize("made", [True, False])
def test_a_managed_pool_without_a_gpu_is_limited(container: Container, place: str, *, made: bool) -> None:
    create = f"p = c.c_void_p(); cuda.cuMemPoolCreate(c.byref(p), c.byref(Prop(MANAGED, 0, {place}, 0)))"
    code = f"{PLACES}{create if made else f'p = default(MANAGED, {place})'}"
    code += "\nsay(take(4302, p)[0], take(4000, p)[0], unused())"
    assert reported(container, code) == [[2, 0, 301]]


def test_a_pool_in_a_part_of_a_gpu_is_limited(container: Container) -> None:
    code = f"{POOLS}p = c.c_void_p(); cuda.cuMemPoolCreate(c.byref(p), c.byref(Prop(1, 0, 6, 1 << 8)))"
    code += "; say(take(4302, p)[0], take(4000, p)[0], unused())"
    assert reported(container, code) == [[2, 0, 301]]


@pytest.mark.parametrize("name", ["cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool"])
def test_the_pool_of_another_gpu_is_charged_there(
    files: Path, library: Path, tmp_path: Path, name: str
) -> None:
    second = UUID.replace("GPU-0", "GPU-1")
    stub = CudaStub(tmp_path / "stub", cards=[card(), CudaCard(second, 16130)])
    container = Container(files, library, stub)
    # The order of the limits is not that of the driver.
    container.limit(limits.CardLimit(second, 16130, 1, 15, 0, 0), share(4, 15))
    code = f"{POOLS}p = c.c_void_p(); cuda.{name}(c.byref(p), 1)"
    code += "; say(take(1000, p)[0], take(1076, p)[0], take(4000)[0])"
    assert reported(container, code) == [[0, 2, 0]]
    assert [card.used >> 20 for card in container.seen().cards] == [1024, 4000]


# Starts a request that waits in the driver until another thread frees memory.
WAITS = f"""{POOLS}
import threading, time
cuda.stub_pools_wait(1)
def wait_for(mib, *own):
    def work(): context(); seen.append(take(mib, *own)[0])
    before = cuda.stub_pools_waiting()
    seen = []; thread = threading.Thread(target=work, daemon=True); thread.start()
    while cuda.stub_pools_waiting() == before: time.sleep(0.001)
    def ended(): thread.join(30); return seen
    return ended
"""


@pytest.mark.parametrize(
    "calls",
    ["", "left(); ", "v, b = alloc(1); free(b); ", "take(8); ", "pool(); ", "v, b = take(1); free(b); "],
)
def test_a_request_that_waits_for_memory_blocks_no_other_thread(make: Make, calls: str) -> None:
    container = make(total_mib=1000)
    container.timeout_s = 40
    code = (
        f"{WAITS}x, at = take(600); w, more = take(1); ended = wait_for(600); {calls}say(give(at), ended())"
    )
    answers, (reserved,) = reported(container, f"{code}; left(); say(reserved())")
    assert answers == [0, [0]]
    assert container.seen().cards[0].used == reserved * MIB


def test_two_threads_may_wait_in_one_pool(make: Make) -> None:
    container = make(total_mib=1000)
    container.timeout_s = 40
    code = f"{WAITS}v, a = take(400); w, b = take(400); one = wait_for(390)"
    code += "; two = wait_for(390); say(give(a), give(b), one(), two())"
    assert reported(container, code) == [[0, 0, [0], [0]]]
    assert container.seen().cards[0].used == 800 * MIB


def test_a_request_waits_for_the_destruction_of_another_pool(make: Make) -> None:
    container = make(total_mib=1000)
    container.timeout_s = 40
    code = f"{WAITS}p = pool(); v, at = take(600, p); q = pool(); ended = wait_for(600, q)"
    code += "; say(give(at), cuda.cuMemPoolDestroy(p), ended())"
    assert reported(container, code) == [[0, 0, [0]]]
    assert container.seen().cards[0].used == 608 * MIB


def test_a_gpu_that_waits_for_memory_does_not_stop_another(
    files: Path, library: Path, tmp_path: Path
) -> None:
    second = UUID.replace("GPU-0", "GPU-1")
    stub = CudaStub(tmp_path / "stub", cards=[card(1000), CudaCard(second, 16130)])
    container = Container(files, library, stub)
    container.limit(share(4, 15), limits.CardLimit(second, 16130, 4, 15, 0, 0))
    container.timeout_s = 40
    code = f"""{WAITS}
v, at = take(600); ended = wait_for(600)
other = c.c_void_p(); cuda.cuDevicePrimaryCtxRetain(c.byref(other), 1); cuda.cuCtxSetCurrent(other)
w, b = take(4000); say(w, give(b), take(4302)[0], left()[1]); say(give(at), ended())
"""
    assert reported(container, code) == [[0, 0, 2, 4301], [0, [0]]]


def test_the_charge_is_exact_after_requests_of_many_threads(container: Container) -> None:
    code = f"""{POOLS}
import random, threading
def work(seed):
    context(); dice, mine = random.Random(seed), []
    for i in range(300):
        if mine and dice.random() < 0.5: give(mine.pop(dice.randrange(len(mine))))
        elif len(mine) < 4:
            v, at = take(dice.choice((1, 20, 60, 100)))
            verdicts.append(v)
            if v == 0: mine.append(at)
    for at in mine: give(at)
verdicts = []; threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[each.start() for each in threads]; [each.join() for each in threads]
say(set(verdicts) == {{0}}, unused() + reserved())
"""
    assert reported(container, code) == [[True, 4301]]
    assert container.seen().cards[0].peak <= 4301 * MIB


def test_unused_memory_that_a_request_expects_is_given_to_no_other(container: Container) -> None:
    code = f"{WAITS}v, at = take(3968); give(at); alloc(333); cuda.stub_pools_hold(1); ended = wait_for(1984)"
    code += "; say(alloc(2400)[0], alloc(1984)[0]); cuda.stub_pools_let(1); say(ended())"
    assert reported(container, code) == [[2, 0], [[0]]]
    assert container.stub.peak(0) == 4301 * MIB


def test_a_request_whose_expected_memory_went_to_another_gets_what_that_one_was_charged(
    container: Container,
) -> None:
    code = f"""{WAITS}
v, at = take(512); give(at); alloc(4301 - 1024); cuda.stub_pools_hold(1)
charged = wait_for(512); claims = wait_for(512); cuda.stub_pools_let(1); say(charged())
say(alloc(512)[0]); cuda.stub_pools_let(1); say(claims())
"""
    assert reported(container, code) == [[[0]], [2], [[0]]]
    assert container.stub.peak(0) == 4301 * MIB


def test_many_threads_at_the_limit_never_exceed_it(container: Container) -> None:
    code = f"""{POOLS}
import random, threading
pools = [None, pool(), pool()]
def work(seed):
    context(); dice, mine = random.Random(seed), []
    for i in range(400):
        if mine and dice.random() < 0.5: give(mine.pop(dice.randrange(len(mine))))
        else:
            v, at = take(dice.choice((32, 192, 512)), dice.choice(pools))  # whole blocks
            verdicts.append(v)
            if v == 0: mine.append(at)
    for at in mine: give(at)
verdicts = []; threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
[each.start() for each in threads]; [each.join() for each in threads]
say(set(verdicts) == {{0, 2}}); say(alloc(4301)[0])
"""
    assert reported(container, code) == [[True], [0]]
    assert container.stub.peak(0) <= 4301 * MIB
