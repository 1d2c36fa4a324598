import subprocess
import sys
from pathlib import Path

from gpushare.mps.ready_lock import ReadyLock, is_ready

HOLD = """
import sys, time
from pathlib import Path
from gpushare.mps.ready_lock import ReadyLock
mark = ReadyLock(Path(sys.argv[1]))
print(mark.take(), flush=True)
time.sleep(60)
"""


def test_a_mark_is_held_from_taking_to_dropping(tmp_path: Path) -> None:
    path = tmp_path / "up"
    mark = ReadyLock(path)
    assert (mark.held, is_ready(path)) == (False, False)
    assert mark.take()
    assert (mark.held, is_ready(path)) == (True, True)
    mark.drop()
    assert (mark.held, is_ready(path)) == (False, False)


def test_a_mark_has_one_holder(tmp_path: Path) -> None:
    first, second = ReadyLock(tmp_path / "up"), ReadyLock(tmp_path / "up")
    assert first.take()
    assert not second.take()
    first.drop()
    assert second.take()
    second.drop()


def test_looking_does_not_take_it(tmp_path: Path) -> None:
    mark = ReadyLock(tmp_path / "up")
    mark.take()
    mark.drop()
    assert not is_ready(tmp_path / "up")
    assert mark.take()
    mark.drop()


def test_the_kernel_drops_the_mark_of_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "up"
    argv = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:  # noqa: S603 - our own program
        assert holder.stdout
        assert holder.stdout.readline() == b"True\n"
        assert is_ready(path)
        holder.kill()
    assert not is_ready(path)
