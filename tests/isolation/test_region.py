import json
import subprocess
from pathlib import Path

import pytest

from gpushare.errors import SourceError
from gpushare.isolation import limits, region
from tests.isolation.conftest import Make
from tests.support.isolation import MIB, NATIVE, UUID, needs_compiler, share

pytestmark = needs_compiler

# Takes the region's lock as a process of the container may, then does what follows.
LOCKED = """
import mmap
def lock(path):
    fd = os.open(path, os.O_RDWR)
    view = mmap.mmap(fd, 0)
    at = c.addressof(c.c_char.from_buffer(view))
    c.CDLL(None).pthread_mutex_lock(c.c_void_p(at + 24))
    return view
"""


def test_the_library_and_the_reader_agree_on_the_layout(tmp_path: Path) -> None:
    program = tmp_path / "layout"
    source = Path(__file__).parent / "native" / "layout.c"
    subprocess.run(  # noqa: S603 - the compiler that PATH has
        ["gcc", f"-I{NATIVE}", "-o", str(program), str(source)],  # noqa: S607
        check=True,
        timeout=60,
    )
    found = json.loads(subprocess.check_output([program], timeout=60))  # noqa: S603 - just compiled
    assert found == {
        "size": region.SIZE,
        "sequence": 16,
        "lock": 24,
        "cards": region._CARDS_AT,
        "card": region._CARD.size,
        "slots": region._SLOTS_AT,
        "slot": region._SLOT.size,
        "slot_count": region.SLOTS,
        "max_cards": region.MAX_CARDS,
        "magic": region.MAGIC,
        "version": region.VERSION,
    }
    assert limits.MAX_CARDS == region.MAX_CARDS


def test_the_region_says_who_uses_what(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    with container.start("context(); alloc(1000); alloc(5000); say(0); sys.stdin.read()") as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen = container.seen()
        assert seen.cards == (region.CardUse(UUID, 4301 * MIB, 1000 * MIB, 1000 * MIB, 1),)
        (one,) = seen.processes
        assert one.pid == process.pid
        assert one.used[0] == 1000 * MIB
        process.communicate("")


def test_a_holder_that_died_half_way_is_recounted(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    used = region._CARDS_AT + 48 + 8
    code = f"""{LOCKED}
context(); alloc(1000)
view = lock({str(container.shared)!r})
view[16:24] = (7).to_bytes(8, "little")
view[{used}:{used + 8}] = (2**40).to_bytes(8, "little")
os.kill(os.getpid(), 9)
"""
    with container.start(code) as holder:
        assert holder.wait(60) == -9
    assert container.python("context(); say(alloc(4301)[0])").stdout == "[0]\n"
    assert container.seen().cards[0].used == 4301 * MIB


def test_a_lock_that_is_not_given_back_is_told(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    container.python("context()")
    code = f"{LOCKED}\nview = lock({str(container.shared)!r}); say(0); sys.stdin.read()"
    with container.start(code) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        done = container.python("say(context())")
        assert done.stdout == "[2]\n"
        assert "its lock is not given back" in done.stderr
        holder.communicate("")


def test_a_region_that_nobody_has_begun_says_nothing() -> None:
    assert region.read(region.empty) is None


@pytest.mark.parametrize("content", [b"", b"x" * region.SIZE, bytes([1]) + bytes(region.SIZE - 1)])
def test_bytes_that_are_no_region_are_refused(content: bytes) -> None:
    with pytest.raises(SourceError):
        region.read(lambda: content)


def test_a_region_that_is_being_written_is_looked_at_again() -> None:
    odd = bytearray(region.empty())
    odd[16] = 1
    views = [bytes(odd), region.empty(), region.empty(), *[region.empty()] * 3]
    assert region.read(lambda: views.pop(0)) is None
    with pytest.raises(SourceError, match="all the time"):
        region.read(lambda: bytes(odd))


def test_an_empty_region_is_as_large_as_a_whole_one(make: Make) -> None:
    container = make()
    container.limit(share(4, 15))
    container.python("context()")
    assert container.shared.stat().st_size == len(region.empty())
