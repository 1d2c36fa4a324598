import json
from pathlib import Path
from typing import Any

import pytest

from tests.isolation.conftest import Make
from tests.isolation.test_ways_in import compiled
from tests.support.fixtures.isolation import MIB, Container, needs_compiler, share

pytestmark = needs_compiler


def reported(container: Container, code: str) -> list[Any]:
    return [json.loads(line) for line in container.python(code).stdout.splitlines()]


def test_a_request_beyond_the_limit_fails_with_code_2(container: Container) -> None:
    code = "context(); say(alloc(4301)[0], left()); say(alloc(1)[0])"
    assert reported(container, code) == [[0, [0, 0, 4301]], [2]]


def test_six_gib_do_not_fit_into_four(container: Container) -> None:
    assert reported(container, "context(); say(alloc(6144)[0], left())") == [[2, [0, 4301, 4301]]]
    assert container.seen().cards[0].refusals == 1
    assert container.stub.peak(0) == 0


def refused_mib(container: Container) -> tuple[int, int, int]:
    """Number of refusals, the largest size, and the limit that admits each of them; in MiB."""
    use = container.seen().cards[0]
    return use.refusals, use.refused // MIB, use.needed // MIB


def test_a_refusal_tells_its_size_and_the_limit_that_admits_it(make: Make) -> None:
    container = make(context_mib=121)
    code = "context(); v, at = alloc(3000); alloc(2000); free(at); alloc(4500); say(alloc(4180)[0])"
    assert reported(container, code) == [[0]]
    # 121 + 3000 + 2000 is more than 121 + 4500.
    assert refused_mib(container) == (2, 4500, 5121)
    code = "context(); say(alloc(6144)[0])"
    assert reported(container, code) == [[2]]
    assert refused_mib(container) == (3, 6144, 6144 + 121)
    container.limit(share(6265, 16130, context_mib=121))
    assert reported(container, code) == [[0]]


def test_a_refusal_that_the_gpu_could_not_hold_has_no_size(make: Make) -> None:
    container = make(context_mib=121)
    code = "context(); alloc(16130 - 121 + 1); v = alloc(2**43 - 1)[0]; say(v)"
    assert reported(container, code) == [[2]]
    assert refused_mib(container) == (2, 0, 0)


@pytest.mark.parametrize(
    "request_",
    [
        "cuda.cuMemAllocManaged(c.byref(at), c.c_size_t(5000 * MIB), 1)",
        "cuda.cuMemAllocPitch_v2(c.byref(at), c.byref(n), c.c_size_t(512), c.c_size_t(5000 * 2048), 4)",
        "cuda.cuMemAllocAsync(c.byref(at), c.c_size_t(5000 * MIB), None)",
        "cuda.cuMemCreate(c.byref(at), c.c_size_t(5000 * MIB), (c.c_int * 8)(1, 0, 1, 0), c.c_ulonglong(0))",
        "cuda.cuArray3DCreate_v2(c.byref(at), c.byref((c.c_size_t * 5)(1024, 1024, 1250, 1 << 32 | 32, 0)))",
    ],
    ids=lambda code: code.split("(")[0],
)
def test_each_kind_of_request_tells_its_size(container: Container, request_: str) -> None:
    code = f"at, n = c.c_uint64(), c.c_size_t(); context(); alloc(100); say({request_})"
    assert reported(container, code) == [[2]]
    assert refused_mib(container) == (1, 5000, 5100)


def test_the_gpu_is_as_large_as_the_limit(container: Container) -> None:
    code = "n = c.c_size_t(); say(cuda.cuDeviceTotalMem_v2(c.byref(n), 0), n.value)"
    assert reported(container, code) == [[0, 4509925376]]


@pytest.mark.parametrize("name", ["cuMemGetInfo", "cuMemGetInfo_v2"])
def test_a_program_that_asks_for_one_of_free_and_total_gets_its_share(
    container: Container, name: str
) -> None:
    container.limit(share(1, 15))
    code = f"""
n = c.c_uint64(); context(); alloc(100)
say(cuda.{name}(c.byref(n), None), n.value >> 20); say(cuda.{name}(None, c.byref(n)), n.value >> 20)
"""
    assert reported(container, code) == [[0, 975], [0, 1075]]


def test_contexts_of_all_processes_count(make: Make) -> None:
    container = make(context_mib=121)
    with container.start("context(); say(alloc(3072)[0]); sys.stdin.read()") as app:
        assert json.loads(app.stdout.readline()) == [0]
        assert container.seen().cards[0].used == 3193 * MIB
        assert reported(container, "context(); say(alloc(1024)[0])") == [[2]]
        assert reported(container, "context(); say(alloc(900)[0])") == [[0]]
        app.communicate("")


def test_a_context_that_does_not_fit_is_refused(make: Make) -> None:
    container = make(context_mib=121)
    container.limit(share(1, 1000, context_mib=121))
    assert reported(container, "say(context())") == [[2]]
    assert refused_mib(container) == (1, 121, 121)


def test_the_primary_context_counts_once(make: Make) -> None:
    container = make(context_mib=121)
    code = "context(); context(); say(left()); cuda.cuDevicePrimaryCtxRelease_v2(0); say(left())"
    code += "; cuda.cuDevicePrimaryCtxRelease_v2(0); say(left()[0])"
    assert reported(container, code) == [[[0, 4180, 4301]], [[0, 4180, 4301]], [201]]
    assert container.seen().cards[0].used == 0


def test_freed_memory_can_be_allocated_again(container: Container) -> None:
    code = "context()\nfor i in range(50):\n v, at = alloc(3000); say(v, free(at), left())"
    assert reported(container, code) == [[0, 0, [0, 4301, 4301]]] * 50


def test_a_second_free_releases_nothing(container: Container) -> None:
    code = "context(); v, a = alloc(1000); w, b = alloc(1000); say(free(a), free(a) != 0, left()[1])"
    code += "; say(free(c.c_uint64(12345)) != 0, left()[1])"
    assert reported(container, code) == [[0, True, 3301], [True, 3301]]


def test_memory_of_a_request_that_the_driver_refuses_is_not_counted(make: Make) -> None:
    container = make(total_mib=1000)
    assert reported(container, "context(); say(alloc(2000)[0], alloc(0)[0])") == [[2, 1]]
    assert container.seen().cards[0].used == 0


def test_without_a_context_the_driver_returns_its_error(container: Container) -> None:
    assert reported(container, "say(alloc(1)[0])") == [[201]]


def test_managed_memory_and_rows_count(container: Container) -> None:
    code = """
at, pitch = c.c_uint64(), c.c_size_t()
context()
say(cuda.cuMemAllocManaged(c.byref(at), c.c_size_t(1000 * MIB), 1), left()[1])
say(cuda.cuMemAllocPitch_v2(c.byref(at), c.byref(pitch), c.c_size_t(1), c.c_size_t(2048), 4), left()[1])
say(cuda.cuMemAllocManaged(c.byref(at), c.c_size_t(4000 * MIB), 1))
say(cuda.cuMemAllocPitch_v2(c.byref(at), c.byref(pitch), c.c_size_t(2**63), c.c_size_t(2**63), 4))
"""
    assert reported(container, code) == [[0, 3301], [0, 3300], [2], [2]]


def test_arrays_count_until_they_are_freed(container: Container) -> None:
    code = """
class Shape(c.Structure): _fields_ = [(n, c.c_size_t) for n in "whd"] + [(n, c.c_uint) for n in "fcx"]
context()
at = c.c_void_p()
say(cuda.cuArray3DCreate_v2(c.byref(at), c.byref(Shape(1024, 1024, 100, 32, 4, 0))), left()[1])
say(cuda.cuArrayDestroy(at), left()[1])
say(cuda.cuArray3DCreate_v2(c.byref(at), c.byref(Shape(1024, 1024, 1000, 32, 4, 0))), left()[1])
"""
    assert reported(container, code) == [[0, 2701], [0, 4301], [2, 4301]]


def test_all_levels_of_a_mipmap_count(container: Container) -> None:
    code = """
class Shape(c.Structure): _fields_ = [(n, c.c_size_t) for n in "whd"] + [(n, c.c_uint) for n in "fcx"]
context()
at = c.c_void_p()
say(cuda.cuMipmappedArrayCreate(c.byref(at), c.byref(Shape(1024, 1024, 64, 32, 4, 1)), 2), left()[1])
say(cuda.cuMipmappedArrayDestroy(at), left()[1])
"""
    assert reported(container, code) == [[0, 4301 - 1024 - 256], [0, 4301]]
    assert container.stub.peak(0) == (1024 + 256) * MIB


def test_a_gpu_without_a_limit_allows_no_memory(container: Container) -> None:
    container.limit()
    done = container.python("say(context())")
    assert done.stdout == "[2]\n"
    assert "has no limit for GPU GPU-00000000-1111-2222-3333-444444444444" in done.stderr


def test_memory_of_a_destroyed_context_is_released(make: Make) -> None:
    container = make(context_mib=121)
    code = """
for i in range(5):
    context(); say(alloc(2000)[0], alloc(2000)[0]); cuda.cuDevicePrimaryCtxReset_v2(0)
own = c.c_void_p()
cuda.cuCtxCreate_v2(c.byref(own), 0, 0); say(alloc(4000)[0]); say(cuda.cuCtxDestroy_v2(own))
context(); say(alloc(4180)[0])
"""
    assert reported(container, code) == [[0, 0]] * 5 + [[0], [0], [0]]


@pytest.mark.parametrize("name", ["cuCtxCreate_v2", "cuGLCtxCreate_v2", "cuVDPAUCtxCreate_v2"])
@pytest.mark.parametrize("end", ["cuCtxDestroy_v2", "cuCtxDetach"])
def test_a_context_counts_until_it_is_destroyed(make: Make, name: str, end: str) -> None:
    container = make(context_mib=121)
    code = f"""
own = c.c_void_p(); more = [0, None] if "VDPAU" in {name!r} else []
say(cuda.{name}(c.byref(own), 0, 0, *more), alloc(1000)[0], left()[1])
say(cuda.{end}(own)); context(); say(left()[1])
"""
    assert reported(container, code) == [[0, 0, 4301 - 1121], [0], [4301 - 121]]


def test_an_attached_context_counts_until_the_last_detach(make: Make) -> None:
    container = make(context_mib=121)
    code = """
own, same = c.c_void_p(), c.c_void_p()
cuda.cuCtxCreate_v2(c.byref(own), 0, 0); say(cuda.cuCtxAttach(c.byref(same), 0), alloc(1000)[0])
say(cuda.cuCtxDetach(own), left()[1]); say(cuda.cuCtxDetach(own), cuda.cuCtxDetach(own))
context(); say(left()[1])
"""
    assert reported(container, code) == [[0, 0], [0, 4301 - 1121], [0, 201], [4301 - 121]]


def test_a_context_with_the_address_of_one_just_destroyed_leaves_no_charge(
    make: Make, tmp_path: Path
) -> None:
    container = make(context_mib=121)
    source = "late_destroy.c"
    delay = compiled(tmp_path / "libdelay.so", source, "-DDELAY", "-shared", "-fPIC", "-ldl")
    program = compiled(tmp_path / "late", source, str(container.stub.library), "-lpthread")
    done = container.run([str(program)], LD_PRELOAD=f"{container.library}:{delay}")
    assert done.stdout == "1 121 0\n"
    assert container.seen().cards[0].used == 0


@pytest.mark.parametrize("what", ["array", "context"])
def test_what_ended_unseen_is_released_once_its_address_is_used_again(
    make: Make, tmp_path: Path, what: str
) -> None:
    container = make(context_mib=500)
    deep = compiled(tmp_path / "libdeep.so", "deep.c", "-shared", "-fPIC", str(container.stub.library))
    code = f"""
class Shape(c.Structure): _fields_ = [(n, c.c_size_t) for n in "whd"] + [(n, c.c_uint) for n in "fcx"]
deep = c.CDLL({str(deep)!r}, os.RTLD_DEEPBIND | os.RTLD_NOW)
def array(at): return cuda.cuArray3DCreate_v2(c.byref(at), c.byref(Shape(1024, 1024, 100, 32, 4, 0)))
def own(at): return cuda.cuCtxCreate_v2(c.byref(at), 0, 0), alloc(1000)[0]
context(); at = c.c_void_p(); addresses = set()
for i in range(20):
    say({"array(at)" if what == "array" else "*own(at)"}, deep.destroy_{what}(at)); addresses.add(at.value)
say(len(addresses) < 3)
"""
    lines = [json.loads(line) for line in container.python(code).stdout.splitlines()]
    assert lines == [[0, 0] if what == "array" else [0, 0, 0]] * 20 + [[True]]
