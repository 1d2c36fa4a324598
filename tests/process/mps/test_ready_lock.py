import subprocess
import sys
from pathlib import Path

from gpushare.mps.ready_lock import ReadyLock, is_ready

HOLD = """
import sys, time
from pathlib import Path
from gpushare.mps.ready_lock import ReadyLock
lock = ReadyLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
time.sleep(60)
"""


def test_a_lock_lasts_from_acquire_to_release(tmp_path: Path) -> None:
    path = tmp_path / "up"
    lock = ReadyLock(path)
    assert (lock.locked, is_ready(path)) == (False, False)
    assert lock.acquire()
    assert (lock.locked, is_ready(path)) == (True, True)
    lock.release()
    assert (lock.locked, is_ready(path)) == (False, False)


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    first, second = ReadyLock(tmp_path / "up"), ReadyLock(tmp_path / "up")
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


def test_is_ready_does_not_acquire_the_lock(tmp_path: Path) -> None:
    lock = ReadyLock(tmp_path / "up")
    lock.acquire()
    lock.release()
    assert not is_ready(tmp_path / "up")
    assert lock.acquire()
    lock.release()


def test_the_kernel_releases_the_lock_of_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "up"
    argv = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own program
        assert process.stdout
        assert process.stdout.readline() == b"True\n"
        assert is_ready(path)
        process.kill()
    assert not is_ready(path)
