import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.isolation.conftest import Make
from tests.support.isolation import Container, build, needs_compiler, share

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
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
pid = os.fork()
if pid == 0: context(); alloc(100); os._exit(0)
say(os.waitpid(pid, 0)[1])
"""


def runtime(name: str) -> Path:
    command = ["gcc", f"-print-file-name={name}"]
    found = subprocess.check_output(command, text=True, timeout=60).strip()  # noqa: S603 - PATH's compiler
    return Path(found)


@pytest.fixture(params=["address,undefined", "undefined"])
def sanitized(request: pytest.FixtureRequest, make: Make, tmp_path: Path) -> Iterator[Container]:
    name = "libasan.so" if "address" in request.param else "libubsan.so"
    if not runtime(name).is_file():
        pytest.skip(f"the compiler has no {name}")
    made = make()
    flags = (f"-fsanitize={request.param}", "-fno-sanitize-recover=all")
    ours = build(tmp_path / "library", made.folder, *flags)
    yield Container(made.folder, Path(f"{runtime(name)}:{ours}"), made.stub)


def test_nothing_is_found_in_a_busy_program(sanitized: Container) -> None:
    sanitized.limit(share(4, 15))
    done = sanitized.python(BUSY, {"ASAN_OPTIONS": "detect_leaks=0"})
    assert done.stdout == "[0]\n"
    assert done.stderr == ""


def test_nothing_is_found_in_noise(sanitized: Container) -> None:
    sanitized.limit(share(4, 15))
    for text in (b"", b"gpushare-limit 1\n", b"gpushare-limit 1\ncard=" + b"G" * 100, b"\xff" * 9000):
        sanitized.write_limit(text)
        assert sanitized.python("say(context())", {"ASAN_OPTIONS": "detect_leaks=0"}).stdout == "[2]\n"
