"""The library with sanitizers.

They check the whole library in a client in Python, and the limit file's parser and the region in separate
programs. Programs that are built with a sanitizer run with the library too: they call dlsym, which the
library replaces, before they are initialized.
"""

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from gpushare.isolation import limits, region
from tests.isolation.conftest import Make
from tests.isolation.test_ways_in import compiled
from tests.support.fixtures.isolation import (
    LAUNCH_LIBRARY,
    LIBRARY,
    NATIVE,
    Container,
    build,
    needs_compiler,
    share,
)

pytestmark = needs_compiler

BUSY = """
import threading
held = c.c_void_p(); cuda.cuDevicePrimaryCtxRetain(c.byref(held), 0)
class Prop(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("type", "handles", "where", "id")] + [("rest", c.c_char * 80)]
shape = (c.c_size_t * 5)(1024, 1024, 1, 32 | 4 << 32, 0)
places = iter(range(1 << 40, 1 << 41, MIB))
def more():
    own, pool, array = c.c_void_p(), c.c_void_p(), c.c_void_p()
    handle, at, u64, size = c.c_uint64(), next(places), c.c_uint64, c.c_size_t(MIB)
    if cuda.cuCtxCreate_v2(c.byref(own), 0, 0) == 0: alloc(1); cuda.cuCtxDestroy_v2(own)
    cuda.cuDevicePrimaryCtxRetain(c.byref(own), 0); cuda.cuDevicePrimaryCtxRelease_v2(0)
    cuda.cuCtxSetCurrent(held)
    if cuda.cuArray3DCreate_v2(c.byref(array), shape) == 0: cuda.cuArrayDestroy(array)
    if cuda.cuMemCreate(c.byref(handle), size, c.byref(Prop(1, 0, 1, 0)), u64(0)) == 0:
        cuda.cuMemMap(u64(at), size, c.c_size_t(0), handle, u64(0)); cuda.cuMemRelease(handle)
        cuda.cuMemUnmap(u64(at), size)
    cuda.cuMemPoolCreate(c.byref(pool), c.byref(Prop(1, 0, 1, 0)))
    if cuda.cuMemAllocFromPoolAsync(c.byref(handle), size, pool, None) == 0: cuda.cuMemFree_v2(handle)
    cuda.cuMemPoolDestroy(pool)
def work():
    cuda.cuCtxSetCurrent(held)
    for i in range(200):
        v, at = alloc(300 + i)
        if v == 0: free(at)
        w = cuda.cuMemAllocAsync(c.byref(at), c.c_size_t(MIB * 100), None)
        if w == 0: cuda.cuMemFreeAsync(at, None)
        left()
        launch(1)
        if i % 10 == 0: more()
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
pid = os.fork()
if pid == 0: context(); alloc(100); os._exit(0)
say(os.waitpid(pid, 0)[1])
"""


def runtime(name: str) -> Path:
    command = ["gcc", f"-print-file-name={name}"]
    found = subprocess.check_output(command, text=True, timeout=60).strip()  # noqa: S603 - PATH's compiler
    if not Path(found).is_file():
        pytest.skip(f"the compiler has no {name}")
    return Path(found)


@pytest.fixture(scope="session", params=["undefined", "address", "thread"])
def watched(request: pytest.FixtureRequest, files: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The libraries to load: the runtime of a sanitizer, and ours with its checks."""
    flags = (f"-fsanitize={request.param}", "-fno-sanitize-recover=all", "-Wno-tsan")
    library = build(tmp_path_factory.mktemp("watched"), files, *flags)
    short = {"undefined": "ubsan", "address": "asan", "thread": "tsan"}[request.param]
    return f"{runtime(f'lib{short}.so')}:{library}"


@pytest.mark.parametrize("name", [LIBRARY, LAUNCH_LIBRARY])
def test_a_busy_program_has_no_errors(container: Container, watched: str, name: str) -> None:
    container.limit(share(4, 15, core_percent=50))
    container.write(*region.rate_writes(0, 100_000, time.monotonic_ns()))
    # Python does not free all its memory.
    env = {"LD_PRELOAD": watched.replace(LIBRARY, name), "ASAN_OPTIONS": "detect_leaks=0"}
    done = container.python(BUSY, env)
    assert done.stdout == "[0]\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("flags", "needed"),
    [
        (("-fsanitize=address", "-static-libasan"), "libasan.a"),
        (("-fsanitize=thread", "-static-libtsan"), "libtsan.a"),
        (("-fsanitize=thread",), "libtsan.so"),
    ],
)
def test_a_program_with_a_sanitizer_is_limited(
    make: Make, tmp_path: Path, flags: tuple[str, ...], needed: str
) -> None:
    runtime(needed)
    container = make()
    client = compiled(tmp_path / "client", "client.c", "-ldl", *flags)
    done = container.run([str(client), "dlsym", "4302"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


@pytest.mark.parametrize(("sanitizer", "library"), [("thread", "tsan"), ("address,undefined", "asan")])
def test_concurrent_use_of_a_region_has_no_errors(tmp_path: Path, sanitizer: str, library: str) -> None:
    runtime(f"lib{library}.so")
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-g", "-O1", f"-iquote{NATIVE}", "-w"]
    sources = [
        NATIVE / f"{name}.c" for name in ("region", "mapping", "maps", "pace", "alive", "report", "elf")
    ]
    sources.append(Path(__file__).parent / "native" / "hammer.c")
    command = ["gcc", *flags, "-o", str(tmp_path / "hammer"), *map(str, sources), "-lpthread"]
    subprocess.run(command, check=True, timeout=60)  # noqa: S603 - the compiler that PATH has
    (tmp_path / "region").write_bytes(region.empty())
    done = subprocess.run(  # noqa: S603 - just compiled
        [tmp_path / "hammer", tmp_path / "region"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "0 128000\n"), done.stderr


def test_no_mutation_of_a_limit_file_breaks_its_reader(tmp_path: Path) -> None:
    runtime("libasan.so")
    program = tmp_path / "parse"
    flags = [
        *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", f"-I{NATIVE}"),
        f"-DGPUSHARE_OWNER={os.getuid()}",
    ]
    sources = [str(Path(__file__).parent / "native" / "parse.c"), str(NATIVE / "limit.c")]
    command = ["gcc", *flags, "-o", str(program), *sources]
    subprocess.run(command, check=True, timeout=60)  # noqa: S603 - the compiler that PATH has
    chance = random.Random(7)
    good = limits.text([share(4, 15)]).encode()
    paths = []
    for number in range(400):
        text = bytearray(good * chance.choice([1, 1, 1, 40]))
        for _ in range(chance.randint(0, 6)):
            at = chance.randrange(len(text))
            text[at : at + chance.randint(0, 9)] = chance.randbytes(chance.randint(0, 9))
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(bytes(text))
        paths[-1].chmod(0o400)
    done = subprocess.run(  # noqa: S603 - just compiled
        [program, *paths], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    verdicts = done.stdout.split()
    assert len(verdicts) == 400
    assert {"1", "-1"} <= set(verdicts) <= {"1", "0", "-1"}
