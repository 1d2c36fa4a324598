from tests.fixtures.isolation import Container, needs_compiler, share
from tests.isolation.conftest import Make
from tests.isolation.test_memory import reported

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
def pool():
    made = c.c_void_p(); cuda.cuMemPoolCreate(c.byref(made), c.byref(Prop(1, 0, 1, 0))); return made
def unused(): return left()[1]
"""
# A graph of the stub's is the ns that it takes.
GRAPHS = """
class Node(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("type", "handles", "where", "id")] + [("rest", c.c_char * 72)]
    _fields_ += [("access", c.c_void_p), ("count", c.c_size_t), ("bytes", c.c_size_t), ("at", c.c_uint64)]
context()
def node(mib):
    made = c.c_void_p()
    return cuda.cuGraphAddMemAllocNode(
        c.byref(made), None, None, c.c_size_t(0), c.byref(Node(1, 0, 1, 0, b"", None, 0, mib * MIB, 0))
    )
def run(): return cuda.cuGraphLaunch(c.c_void_p(1), None)
def unused(): return left()[1]
"""


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
    code = (
        POOLS
        + """
p = pool()
v, at = take(1000, p)
say(v, unused()); say(take(4000, p)[0])
say(give(at), cuda.cuMemPoolDestroy(p), unused())
"""
    )
    assert reported(container, code) == [[0, 4301 - 1024], [2], [0, 0, 4301]]


def test_trimming_a_pool_reduces_its_charge(container: Container) -> None:
    code = (
        POOLS
        + """
p = pool()
v, at = take(1000, p); give(at)
say(unused(), cuda.cuMemPoolTrimTo(p, c.c_size_t(0)), unused())
"""
    )
    assert reported(container, code) == [[4301 - 1024, 0, 4301]]


def test_linear_and_pool_memory_can_be_freed_by_both_functions(container: Container) -> None:
    code = f"{POOLS}v, a = take(64); w, b = alloc(1000); say(free(a), give(b), unused())"
    assert reported(container, code) == [[0, 0, 4301 - 64]]


def test_a_graph_that_cannot_fit_is_refused(container: Container) -> None:
    assert reported(container, f"{GRAPHS}say(node(4302), unused()); say(node(4301), unused())") == [
        [2, 4301],
        [0, 4301],
    ]
    assert container.seen().cards[0].refusals == 1


def test_memory_of_graphs_is_charged_at_the_next_check(container: Container) -> None:
    code = f"{GRAPHS}say(node(1000), run(), unused()); say(alloc(3302)[0])"
    code += "; say(cuda.cuDeviceGraphMemTrim(0), unused())"
    assert reported(container, code) == [[0, 0, 3301], [0], [0, 4301 - 3302]]


def test_unused_memory_of_graphs_is_released_before_a_request_fails(container: Container) -> None:
    code = f"{GRAPHS}say(node(4000), run(), unused(), alloc(4000)[0], unused())"
    assert reported(container, code) == [[0, 0, 301, 0, 301]]
    assert container.stub.peak(0) == 4000 << 20


def test_memory_of_graphs_is_charged_before_a_later_allocation(container: Container) -> None:
    assert reported(container, f"{GRAPHS}say(node(4000), run(), alloc(4000)[0])") == [[0, 0, 0]]
    assert container.stub.peak(0) == 4000 << 20


def test_memory_of_graphs_is_charged_before_a_pool_grows(container: Container) -> None:
    code = f"{POOLS}{GRAPHS}say(node(4000), run(), take(4000)[0])"
    assert reported(container, code) == [[0, 0, 0]]
    assert container.stub.peak(0) == 4000 << 20


def test_memory_of_graphs_is_charged_before_a_further_context(make: Make) -> None:
    container = make(context_mib=500)
    container.limit(share(4, 15, context_mib=500))
    code = f"{GRAPHS}own = c.c_void_p(); say(node(3800), run(), cuda.cuCtxCreate_v2(c.byref(own), 0, 0))"
    assert reported(container, code) == [[0, 0, 0]]
    assert container.stub.peak(0) == 4300 << 20


def test_a_pool_that_was_first_used_without_a_context_is_usable(container: Container) -> None:
    code = POOLS.replace("context()\n", "p = c.c_void_p(); cuda.cuDeviceGetDefaultMemPool(c.byref(p), 0)\n")
    code += "say(take(100, p)[0]); context(); say(take(100)[0], take(100, p)[0], unused())"
    assert reported(container, code) == [[201], [0, 0, 4301 - 224]]
