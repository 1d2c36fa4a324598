"""What the library assumes of the driver, asked of the driver of a real GPU without the library."""

import json
import sys
from typing import Any

import pytest

from tests.gpu.conftest import FAILING_KERNEL, ILLEGAL_ADDRESS
from tests.support.fixtures.isolation import Preloaded

INVALID_VALUE, INVALID_HANDLE = 1, 400
POOLS = """
class Prop(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("type", "handles", "where", "id")] + [("rest", c.c_char * 72)]
context()
stream, ignored = c.c_void_p(), c.c_uint64()
cuda.cuStreamCreate(c.byref(stream), 1)
def pool(kind=1, where=1):
    made = c.c_void_p()
    return cuda.cuMemPoolCreate(c.byref(made), c.byref(Prop(kind, 0, where, 0))), made
def take(pool, mib):
    at = c.c_uint64()
    return cuda.cuMemAllocFromPoolAsync(c.byref(at), c.c_size_t(mib * MIB), pool, stream), at
def wait(): return cuda.cuStreamSynchronize(stream)
def reserved(pool):
    value = c.c_uint64()
    return cuda.cuMemPoolGetAttribute(pool, 5, c.byref(value)), value.value // MIB
"""


def asked(container: Preloaded, code: str) -> Any:
    """The last line of a program without the library."""
    done = container.python(code, {"LD_PRELOAD": ""})
    return json.loads(done.stdout.splitlines()[-1])


def test_a_pool_keeps_its_memory_while_a_free_is_pending(container: Preloaded) -> None:
    code = f"""{POOLS}
import threading
_, p = pool(); _, at = take(p, 256); wait()
gate = threading.Event()
hold = c.CFUNCTYPE(None, c.c_void_p)(lambda _: gate.wait(10))
cuda.cuLaunchHostFunc(stream, hold, None)
freed, pending = cuda.cuMemFreeAsync(at, stream), reserved(p)
gate.set()
say(freed, *pending, wait())
"""
    assert asked(container, code) == [0, 0, 256, 0]


def test_memory_of_a_destroyed_pool_stays_until_it_is_freed(container: Preloaded) -> None:
    code = f"""{POOLS}
_, p = pool(); _, at = take(p, 256); wait(); before = left()[1]
destroyed, after = cuda.cuMemPoolDestroy(p), left()[1]
say(destroyed, after - before, cuda.cuMemFreeAsync(at, stream), wait())
"""
    destroyed, more, freed, waited = asked(container, code)
    assert (destroyed, freed, waited) == (0, 0, 0)
    assert more < 256


def test_an_unknown_pool_is_an_error(container: Preloaded) -> None:
    code, _ = asked(container, f"{POOLS}_, p = pool(); cuda.cuMemPoolDestroy(p); say(*reserved(p))")
    assert code in (INVALID_VALUE, INVALID_HANDLE)


@pytest.mark.parametrize(("version", "name"), [(12020, "cuGraphAddNode"), (12030, "cuGraphAddNode_v2")])
def test_a_name_means_another_function_in_a_later_version(
    container: Preloaded, version: int, name: str
) -> None:
    code = f"""
at = c.c_void_p()
found = cuda.cuGetProcAddress_v2(b"cuGraphAddNode", c.byref(at), {version}, c.c_uint64(0), None)
say(found, at.value == c.cast(cuda.{name}, c.c_void_p).value)
"""
    assert asked(container, code) == [0, True]


@pytest.mark.parametrize(("kind", "where", "takes"), [(1, 1, True), (1, 2, False)])
def test_default_pools_of_cuda_13_take_memory_of_their_place(
    container: Preloaded, kind: int, where: int, *, takes: bool
) -> None:
    code = f"""{POOLS}
class Place(c.Structure): _fields_ = [("type", c.c_uint), ("id", c.c_int)]
p, before = c.c_void_p(), left()[1]
if not hasattr(cuda, "cuMemGetDefaultMemPool"):
    say(None)
else:
    found = cuda.cuMemGetDefaultMemPool(c.byref(p), c.byref(Place({where}, 0)), {kind})
    taken, at = take(p, 256)
    say(found, taken, wait(), before - left()[1])
"""
    found, *rest = asked(container, code)
    if found is None:
        pytest.skip("the driver has none: it is older than CUDA 13")
    sys.stdout.write(f"kind {kind} in place {where}: {found}, {rest}\n")
    assert (found, rest[:2]) == (0, [0, 0])
    assert (rest[2] >= 200) is takes


def test_a_detached_context_ends(container: Preloaded) -> None:
    code = f"""{POOLS}
own, before = c.c_void_p(), left()[1]
made, during = cuda.cuCtxCreate_v2(c.byref(own), 0, 0), left()[1]
detached = cuda.cuCtxDetach(own)
context()
say(made, detached, before - during > 50, abs(before - left()[1]) < 50)
"""
    assert asked(container, code) == [0, 0, True, True]


def test_memory_of_a_pool_stays_charged_after_a_kernel_that_failed(container: Preloaded) -> None:
    """The driver still answers queries of pools then, but not of free memory."""
    code = f"{POOLS}_, p = pool(); _, at = take(p, 256); wait(){FAILING_KERNEL}"
    query = "say(wait(), cuda.cuMemGetInfo_v2(c.byref(ignored), c.byref(ignored)), *reserved(p))"
    assert asked(container, code + query) == [ILLEGAL_ADDRESS, ILLEGAL_ADDRESS, 0, 256]
    with container.start(f"{code}\n{query}; sys.stdin.read()") as app:
        assert app.stdout is not None
        assert json.loads(app.stdout.readline())[0] == ILLEGAL_ADDRESS
        assert container.seen().cards[0].used >= 256 << 20
        app.communicate("")
