import json
from typing import Any

import pytest

from tests.isolation.conftest import Make
from tests.support.isolation import Container, needs_compiler, share

pytestmark = needs_compiler

VMM = """
class Prop(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("type", "handles", "where", "id")] + [("rest", c.c_char * 80)]
u64, size = c.c_uint64, c.c_size_t
context()
def create(mib, where=1):
    handle = u64()
    return cuda.cuMemCreate(c.byref(handle), size(mib * MIB), c.byref(Prop(1, 0, where, 0)), u64(0)), handle
def map_at(at, mib, handle): return cuda.cuMemMap(u64(at), size(mib * MIB), size(0), handle, u64(0))
def unmap(at, mib): return cuda.cuMemUnmap(u64(at), size(mib * MIB))
def room(): return left()[1]
"""
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
def room(): return left()[1]
"""


def told(container: Container, code: str) -> list[Any]:
    return [json.loads(line) for line in container.python(code).stdout.splitlines()]


@pytest.fixture
def container(make: Make) -> Container:
    made = make()
    made.limit(share(4, 15))
    return made


def test_physical_memory_is_limited(container: Container) -> None:
    code = f"{VMM}say(create(4302)[0], create(4301)[0], create(1)[0], room())"
    assert told(container, code) == [[2, 0, 2, 0]]


def test_a_released_handle_is_charged_while_it_is_mapped(container: Container) -> None:
    code = (
        VMM
        + """
v, h = create(1000)
say(map_at(0x10000000, 1000, h), cuda.cuMemRelease(h), room())
say(unmap(0x10000000, 1000), room())
"""
    )
    assert told(container, code) == [[0, 0, 3301], [0, 4301]]


def test_unmapped_memory_is_charged_while_it_has_a_handle(container: Container) -> None:
    code = (
        VMM
        + """
v, h = create(1000)
say(map_at(0x10000000, 1000, h), unmap(0x10000000, 1000), room())
say(cuda.cuMemRelease(h), room())
"""
    )
    assert told(container, code) == [[0, 0, 3301], [0, 4301]]


def test_a_handle_that_was_retained_by_address_counts_too(container: Container) -> None:
    code = (
        VMM
        + """
v, h = create(1000)
again = u64()
map_at(0x10000000, 1000, h); cuda.cuMemRelease(h)
say(cuda.cuMemRetainAllocationHandle(c.byref(again), c.c_void_p(0x10000000)))
say(unmap(0x10000000, 1000), room())
say(cuda.cuMemRelease(again), room())
"""
    )
    assert told(container, code) == [[0], [0, 3301], [0, 4301]]


def test_a_handle_that_is_released_twice_gives_nothing_more(container: Container) -> None:
    code = VMM + "v, h = create(1000); w, k = create(1000)\n"
    code += "say(cuda.cuMemRelease(h), cuda.cuMemRelease(h) != 0, room())"
    assert told(container, code) == [[0, True, 3301]]


def test_create_map_release_again_and_again_leaks_nothing(container: Container) -> None:
    code = (
        VMM
        + """
for i in range(200):
    v, h = create(4000); m = map_at(0x10000000, 4000, h); cuda.cuMemRelease(h)
    assert (v, m, unmap(0x10000000, 4000)) == (0, 0, 0), i
say(room())
"""
    )
    assert told(container, code) == [[4301]]


def test_a_pool_is_charged_by_what_it_holds(container: Container) -> None:
    code = f"{POOLS}v, at = take(100); say(v, room()); say(give(at), room())"
    assert told(container, code) == [[0, 4301 - 128], [0, 4301 - 128]]


def test_what_a_pool_holds_and_nobody_uses_goes_before_a_refusal(container: Container) -> None:
    code = f"{POOLS}v, at = take(4000); give(at); say(alloc(4200)[0], room())"
    assert told(container, code) == [[0, 101]]


def test_a_pool_gives_again_what_it_holds(container: Container) -> None:
    code = f"{POOLS}\nfor i in range(20):\n v, at = take(4000); say(v, give(at))"
    assert told(container, code) == [[0, 0]] * 20


def test_a_pool_beyond_the_limit_is_refused(container: Container) -> None:
    code = f"{POOLS}say(take(4302)[0], take(6000)[0], room()); say(take(4000)[0], take(400)[0])"
    assert told(container, code) == [[2, 2, 4301], [0, 2]]


def test_the_blocks_of_a_pool_must_fit_as_well(container: Container) -> None:
    code = f"{POOLS}v, at = alloc(4290); say(take(1)[0], room()); free(at); say(take(1)[0], room())"
    assert told(container, code) == [[2, 11], [0, 4301 - 32]]


def test_pools_of_one_s_own_count_and_end(container: Container) -> None:
    code = (
        POOLS
        + """
p = pool()
v, at = take(1000, p)
say(v, room()); say(take(4000, p)[0])
say(give(at), cuda.cuMemPoolDestroy(p), room())
"""
    )
    assert told(container, code) == [[0, 4301 - 1024], [2], [0, 0, 4301]]


def test_trimming_a_pool_shows(container: Container) -> None:
    code = (
        POOLS
        + """
p = pool()
v, at = take(1000, p); give(at)
say(room(), cuda.cuMemPoolTrimTo(p, c.c_size_t(0)), room())
"""
    )
    assert told(container, code) == [[4301 - 1024, 0, 4301]]


def test_memory_of_either_kind_may_be_freed_either_way(container: Container) -> None:
    code = f"{POOLS}v, a = take(64); w, b = alloc(1000); say(free(a), give(b), room())"
    assert told(container, code) == [[0, 0, 4301 - 64]]
