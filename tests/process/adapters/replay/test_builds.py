"""Builds of the native kernel of ``replay``: with sanitizers, and one that keeps almost nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpushare.adapters.replay import kernel

SOURCES = Path(kernel.__file__).parent / "native"
COMPARED = """
import sys
from pathlib import Path
from random import Random
from gpushare.adapters.replay.kernel import KernelEngine, load
from gpushare.scheduling.placement.replay.engine import PlainEngine
from gpushare.scheduling.placement.replay.needs import Need, Priced, Room
from gpushare.scheduling.placement.replay.value import UNFIT

rng, engines = Random(1), (KernelEngine(load(Path(sys.argv[1]))), PlainEngine())

def need():
    gpus = rng.choice((0, 1, 1, 2, 4))
    return Need(rng.randrange(9), rng.randrange(9), gpus, gpus and rng.randrange(1, 17), rng.choice((0, 3)))

for lesson in range(6):
    sequences = [[Priced(need(), 1024 + rng.randrange(1024)) for _ in range(8)] for _ in range(lesson)]
    for engine in engines:
        engine.learn(sequences)
    for _ in range(20):
        node, wanted = rng.randrange(30), need()
        free = tuple(rng.randrange(17) for _ in range(rng.randrange(9)))
        cpu, memory, model = (rng.randrange(most) for most in (40, 40, 3))
        room = rng.choice((None, *[Room(cpu, memory, model, 16, free)] * 5))
        for engine in engines:
            engine.put(node, room)
        native, plain = ([*engine.losses(wanted, range(31))] for engine in engines)
        assert native == plain
        for node in [node for node, loss in enumerate(plain) if loss != UNFIT]:
            assert engines[0].gpus(wanted, node) == engines[1].gpus(wanted, node)
"""

pytestmark = pytest.mark.needs("compiler", "make")


def build(folder: Path, *flags: str) -> Path:
    command = ["make", "-s", "-C", str(SOURCES), f"OUT={folder}", f"EXTRA={' '.join(flags)}"]
    subprocess.run(command, check=True, timeout=120)  # noqa: S603 - our own Makefile
    return folder / kernel.LIBRARY


def runtime(name: str) -> str:
    command = ["gcc", f"-print-file-name={name}"]
    found = subprocess.check_output(command, text=True, timeout=60).strip()  # noqa: S603 - PATH's compiler
    if not Path(found).is_file():
        pytest.skip(f"the compiler has no {name}")
    return found


def compared(library: Path, preload: str = "") -> subprocess.CompletedProcess[str]:
    """Compare with the engine in Python, at random. Python does not free all its memory."""
    env = {"LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", COMPARED, str(library)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603


@pytest.mark.parametrize(("sanitizer", "name"), [("address", "libasan.so"), ("undefined", "libubsan.so")])
def test_sanitizers_find_no_error(tmp_path: Path, sanitizer: str, name: str) -> None:
    found = runtime(name)
    library = build(tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-g")
    done = compared(library, found)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_kernel_that_forgets_early_computes_the_same(tmp_path: Path) -> None:
    done = compared(build(tmp_path, "-DMOST_ROOMS=4", "-DMOST_PAIRS=4"))
    assert (done.returncode, done.stderr) == (0, "")
