"""The library with sanitizers.

AddressSanitizer and ThreadSanitizer cannot be loaded before a library that defines dlsym: their
initialization calls dlsym. They check the limit file's parser and the region in programs; UBSan checks the
whole library.
"""

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from gpushare.isolation import limits, region
from tests.fixtures.isolation import LAUNCH_LIBRARY, LIBRARY, NATIVE, build, needs_compiler, share
from tests.isolation.conftest import Make

pytestmark = needs_compiler

BUSY = """
import threading
held = c.c_void_p(); cuda.cuDevicePrimaryCtxRetain(c.byref(held), 0)
def work():
    cuda.cuCtxSetCurrent(held)
    for i in range(200):
        v, at = alloc(300 + i)
        if v == 0: free(at)
        w = cuda.cuMemAllocAsync(c.byref(at), c.c_size_t(MIB * 100), None)
        if w == 0: cuda.cuMemFreeAsync(at, None)
        left()
        launch(1)
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


@pytest.fixture(scope="session")
def watched(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    return build(tmp_path_factory.mktemp("watched"), files, *flags)


@pytest.mark.parametrize("name", [LIBRARY, LAUNCH_LIBRARY])
def test_a_busy_program_does_nothing_undefined(make: Make, watched: Path, name: str) -> None:
    container = make()
    preload = f"{runtime('libubsan.so')}:{watched.with_name(name)}"
    container.limit(share(4, 15, core_percent=50))
    container.write(*region.rate_writes(0, 100_000, time.monotonic_ns()))
    done = container.python(BUSY, {"LD_PRELOAD": preload})
    assert done.stdout == "[0]\n"
    assert done.stderr == ""


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
