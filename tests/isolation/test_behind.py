"""What a real driver does that the stub does not: it calls the program back, and answers queries with errors.

A library between the isolation library and the stub does it.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.isolation.test_pools import GRAPHS, POOLS
from tests.isolation.test_vmm import VMM
from tests.isolation.test_ways_in import compiled
from tests.support.fixtures.isolation import Container, needs_compiler, share

pytestmark = needs_compiler
Run = Callable[[str], list[list[int]]]

# The functions of the process, so that a call goes through the library to the one behind it.
BEHIND = """
cuda = c.CDLL(None)
def set(name, value): c.c_int.in_dll(cuda, name).value = value
"""


@pytest.fixture
def run(container: Container, tmp_path: Path) -> Run:
    """Runs a client with that library, and returns its output."""
    behind = compiled(tmp_path / "libbehind.so", "behind.c", "-shared", "-fPIC", "-ldl")
    preload = f"{container.library}:{behind}:{container.stub.library}"
    container.timeout_s = 20

    def run(code: str) -> list[list[int]]:
        done = container.python(BEHIND + code, {"LD_PRELOAD": preload})
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_a_pool_stays_charged_while_the_driver_does_not_answer(run: Run) -> None:
    code = f"{POOLS}v, at = take(1000); set('fails', 700); say(unused()); set('fails', 0)"
    code += "; say(give(at), unused())"
    assert run(code) == [[4301 - 1024], [0, 4301 - 1024]]


@pytest.mark.parametrize("code", [1, 400])
def test_a_pool_that_the_driver_does_not_know_is_not_charged(run: Run, code: int) -> None:
    assert run(f"{POOLS}take(1000); set('fails', {code}); say(unused())") == [[4301]]


def test_graphs_stay_charged_while_the_driver_does_not_answer(run: Run) -> None:
    code = f"{GRAPHS}say(node(1000), run()); set('fails', 700); say(unused())"
    assert run(code) == [[0, 0], [3301]]


TRIMS = "\ndef trims(): return c.c_int.in_dll(cuda, 'trims').value\n"


def test_a_pool_close_to_the_limit_reuses_its_memory(run: Run) -> None:
    code = (
        f"{POOLS}{TRIMS}take(3900)\nfor i in range(3): v, at = take(300); say(v, give(at), unused(), trims())"
    )
    assert run(code) == [[0, 0, 4301 - 4224, 0]] * 3


def test_a_pool_whose_unused_memory_is_in_pieces_grows_after_others_release_theirs(run: Run) -> None:
    # The request needs 64 MiB more than the pool has unused.
    code = f"""{POOLS}{TRIMS}
p = pool(); v, at = take(256, p); give(at); take(3680); v, at = take(320); give(at)
c.c_long.in_dll(cuda, "extra").value = 64 * MIB
say(unused(), take(320)[0], unused(), trims())
"""
    assert run(code) == [[4301 - 4256, 0, 4301 - 4064, 2]]


def test_a_pool_that_cannot_grow_without_the_memory_of_others_gets_it(run: Run) -> None:
    code = f"{POOLS}{TRIMS}take(3900); v, at = take(300); give(at); set('out_of_memory', 2)"
    code += "; say(take(300)[0], trims())"
    assert run(code) == [[0, 1]]


def test_a_pool_in_pieces_beyond_the_limit_is_refused(run: Run) -> None:
    code = f"""{POOLS}{TRIMS}
take(3900); v, at = take(300); give(at); c.c_long.in_dll(cuda, "extra").value = 100 * MIB
say(take(300)[0], unused(), take(300)[0])
"""
    assert run(code) == [[2, 4301 - 3904, 0]]


def test_a_gpu_without_pools_is_told_by_the_driver(container: Container, run: Run) -> None:
    assert run(f"{POOLS}set('fails', 801); say(take(1)[0])") == [[801]]
    assert container.seen().cards[0].refusals == 0


def test_a_version_of_a_function_without_an_export_is_limited_and_called(run: Run) -> None:
    code = f"""{GRAPHS}
at, made = c.c_void_p(), c.c_void_p()
for version in 12030, 13040:
    cuda.cuGetProcAddress(b"cuGraphAddNode", c.byref(at), version, c.c_uint64(0))
    add = c.CFUNCTYPE(c.c_int, *[c.c_void_p] * 4, c.c_size_t, c.c_void_p)(at.value)
    nodes = [Any(10, (c.c_uint * 3)(), allocation(mib)) for mib in (1, 4302)]
    say(*[add(c.byref(made), None, None, None, 0, c.byref(node)) for node in nodes])
"""
    assert run(code) == [[0, 2], [13040, 2]]


@pytest.mark.parametrize("call", ["take(32)[0]", "create(32)[0]"])
def test_the_driver_may_call_the_program_back(run: Run, call: str) -> None:
    assert run(f"{POOLS}{VMM}set('calls_back', 1); say({call}, unused())") == [[0, 4301 - 32]]


@pytest.mark.parametrize(
    ("call", "left"), [("cuDevicePrimaryCtxRetain(to, 0)", 4180), ("cuCtxCreate_v2(to, 0, 0)", 4180 - 121)]
)
def test_the_driver_may_call_the_program_back_from_a_new_context(
    container: Container, run: Run, call: str, left: int
) -> None:
    container.limit(share(4, 15, context_mib=121))
    code = f"own = c.c_void_p(); to = c.byref(own); set('calls_back', 1); say(cuda.{call})"
    code += "; context(); say(left()[1])"
    assert run(code) == [[0], [left]]


ARRAYS = """
class Shape(c.Structure): _fields_ = [("w", c.c_size_t), ("h", c.c_size_t), ("f", c.c_uint), ("n", c.c_uint)]
def alloc(mib):
    at = c.c_void_p(); shape = Shape(512, 512 * mib, 32, 1)
    return cuda.cuArrayCreate_v2(c.byref(at), c.byref(shape)), at
def free(at): return cuda.cuArrayDestroy(at)
"""


@pytest.mark.parametrize("kind", ["", ARRAYS], ids=["linear", "array"])
def test_a_request_that_the_driver_refuses_is_not_charged(run: Run, kind: str) -> None:
    code = f"{kind}context(); set('fails', 700); v, at = alloc(1000); say(v); set('fails', 0); say(left()[1])"
    assert run(code) == [[700], [4301]]


@pytest.mark.parametrize("kind", ["", ARRAYS], ids=["linear", "array"])
def test_memory_that_the_driver_does_not_release_is_released_later(run: Run, kind: str) -> None:
    code = f"{kind}context(); v, at = alloc(1000); set('fails', 700); say(v, free(at), left()[1])"
    code += "; set('fails', 0); say(free(at), left()[1])"
    assert run(code) == [[0, 700, 3301], [0, 4301]]


def test_a_child_that_is_forked_while_a_context_is_created_has_its_own_contexts(run: Run) -> None:
    code = "own = c.c_void_p(); set('forks', 1); say(cuda.cuCtxCreate_v2(c.byref(own), 0, 0)); say(left()[0])"
    assert run(code) == [[0], [0]]
