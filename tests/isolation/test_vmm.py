import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.isolation.test_memory import reported
from tests.support.fixtures.isolation import Container, needs_compiler, share

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
def unused(): return left()[1]
"""
SHARE = """
def give(handle):
    file = c.c_int()
    assert cuda.cuMemExportToShareableHandle(c.byref(file), handle, 1, u64(0)) == 0
    return file.value
def take(file):
    handle = u64()
    assert cuda.cuMemImportFromShareableHandle(c.byref(handle), c.c_void_p(file), 1) == 0
    return handle
def file_of(process, number): return os.open(f"/proc/{process}/fd/{number}", os.O_RDONLY)
"""


def test_physical_memory_is_limited(container: Container) -> None:
    code = f"{VMM}say(create(4302)[0], create(4301)[0], create(1)[0], unused())"
    assert reported(container, code) == [[2, 0, 2, 0]]


def test_physical_memory_in_a_part_of_a_gpu_is_limited(container: Container) -> None:
    code = f"{VMM}part = Prop(1, 0, 6, 1 << 8); handle = u64(); to = c.byref(handle)"
    code += (
        "\nfor mib in 4302, 4000: say(cuda.cuMemCreate(to, size(mib * MIB), c.byref(part), u64(0)), unused())"
    )
    assert reported(container, code) == [[2, 4301], [0, 301]]


def test_a_released_handle_is_charged_while_it_is_mapped(container: Container) -> None:
    code = f"""{VMM}
v, h = create(1000)
say(map_at(0x10000000, 1000, h), cuda.cuMemRelease(h), unused())
say(unmap(0x10000000, 1000), unused())
"""
    assert reported(container, code) == [[0, 0, 3301], [0, 4301]]


def test_unmapped_memory_is_charged_while_it_has_a_handle(container: Container) -> None:
    code = f"""{VMM}
v, h = create(1000)
say(map_at(0x10000000, 1000, h), unmap(0x10000000, 1000), unused())
say(cuda.cuMemRelease(h), unused())
"""
    assert reported(container, code) == [[0, 0, 3301], [0, 4301]]


def test_a_handle_that_was_retained_by_address_counts_too(container: Container) -> None:
    code = f"""{VMM}
v, h = create(1000)
again = u64()
map_at(0x10000000, 1000, h); cuda.cuMemRelease(h)
say(cuda.cuMemRetainAllocationHandle(c.byref(again), c.c_void_p(0x10000000)))
say(unmap(0x10000000, 1000), unused())
say(cuda.cuMemRelease(again), unused())
"""
    assert reported(container, code) == [[0], [0, 3301], [0, 4301]]


def test_a_second_release_of_a_handle_frees_nothing(container: Container) -> None:
    code = VMM + "v, h = create(1000); w, k = create(1000)\n"
    code += "say(cuda.cuMemRelease(h), cuda.cuMemRelease(h) != 0, unused())"
    assert reported(container, code) == [[0, True, 3301]]


def test_repeated_create_map_release_leaks_nothing(container: Container) -> None:
    code = f"""{VMM}
for i in range(200):
    v, h = create(4000); m = map_at(0x10000000, 4000, h); cuda.cuMemRelease(h)
    assert (v, m, unmap(0x10000000, 4000)) == (0, 0, 0), i
say(unused())
"""
    assert reported(container, code) == [[4301]]


def test_memory_that_is_mapped_twice_is_charged_until_both_are_gone(container: Container) -> None:
    code = f"""{VMM}
v, h = create(1000)
say(map_at(0x10000000, 1000, h), map_at(0x90000000, 1000, h), cuda.cuMemRelease(h), unused())
say(unmap(0x10000000, 1000), unused())
say(unmap(0x90000000, 1000), unused())
"""
    assert reported(container, code) == [[0, 0, 0, 3301], [0, 3301], [0, 4301]]


def test_one_call_may_end_several_mappings_but_no_part_of_one(container: Container) -> None:
    code = f"""{VMM}
for at in 0x10000000, 0x10000000 + 100 * MIB:
    v, h = create(100); map_at(at, 100, h); cuda.cuMemRelease(h)
say(unmap(0x10000000, 150) != 0, unused())
say(unmap(0x10000000, 200), unused())
"""
    assert reported(container, code) == [[True, 4101], [0, 4301]]


verbs = st.sampled_from(["create", "release", "map", "unmap", "retain", "take"])
PLAYER = (
    VMM
    + SHARE
    + """
handles, maps = [], []
def do(verb, which):
    if verb == "create":
        v, h = create(700)
        if v == 0: handles.append(h)
    elif verb in ("map", "release", "take") and handles:
        h = handles[which % len(handles)]
        if verb == "map":
            at = 0x10000000 + 1000 * MIB * which
            if map_at(at, 700, h) == 0: maps.append(at)
        elif verb == "take":
            handles.append(take(give(h)))
        else: assert cuda.cuMemRelease(handles.pop(which % len(handles))) == 0
    elif verb in ("unmap", "retain") and maps:
        at = maps[which % len(maps)]
        if verb == "unmap":
            maps.remove(at); assert unmap(at, 700) == 0
        else:
            again = u64(); assert cuda.cuMemRetainAllocationHandle(c.byref(again), c.c_void_p(at)) == 0
            handles.append(again)
for line in sys.stdin:
    do(*json.loads(line)); say(0)
"""
)


@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(st.tuples(verbs, st.integers(0, 7)), min_size=5, max_size=60))
def test_the_count_matches_the_driver_after_any_calls(
    container: Container, steps: list[tuple[str, int]]
) -> None:
    container.limit(share(4, 15))
    with container.start(PLAYER) as player:
        for step in steps:
            player.stdin.write(json.dumps(step) + "\n")
            player.stdin.flush()
            assert player.stdout.readline() == "[0]\n", step
            assert container.seen().cards[0].used == container.stub.used(0), step
        player.communicate("")
