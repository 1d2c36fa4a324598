"""The native kernel computes the numbers of the engine in Python, to the last bit."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.adapters.replay import kernel
from gpushare.adapters.replay.kernel import KernelEngine
from gpushare.errors import KernelError
from gpushare.scheduling.placement.replay.engine import Engine, PlainEngine
from gpushare.scheduling.placement.replay.needs import Need, Priced, Room, Sequences
from gpushare.scheduling.placement.replay.value import UNFIT

pytestmark = pytest.mark.needs("compiler", "make")

CPU, MEMORY = st.integers(-2, 40), st.integers(0, 40)
UNITS = st.integers(1, 16)
MODELS = st.one_of(st.just(0), st.integers(1, 15), st.just(1 << 63))
NEEDS = st.one_of(
    st.builds(Need, st.integers(0, 12), st.integers(0, 12), st.just(0), st.just(0), MODELS),
    st.builds(Need, st.integers(0, 12), st.integers(0, 12), st.sampled_from((1, 1, 1, 2, 4)), UNITS, MODELS),
)
ROOMS = st.builds(
    Room,
    CPU,
    MEMORY,
    st.sampled_from((0, 1, 2, 3, 63)),
    st.integers(0, 16),
    st.lists(st.integers(0, 16), max_size=8).map(tuple),
)
SEQUENCES = st.lists(st.lists(st.builds(Priced, NEEDS, st.integers(1024, 2048)), max_size=8), max_size=4)


def answers(engine: Engine, count: int, needs: list[Need]) -> list[object]:
    """All losses, with an unknown node, and the GPUs wherever a pod fits."""
    found: list[object] = []
    for need in needs:
        losses = list(engine.losses(need, range(count + 1)))
        found += [losses, *(engine.gpus(need, n) for n, loss in enumerate(losses) if loss != UNFIT)]
    return found


@given(st.lists(ROOMS, min_size=1, max_size=6), st.lists(NEEDS, max_size=6), st.lists(SEQUENCES, max_size=3))
def test_losses_and_gpus_are_those_of_the_engine_in_python(
    rooms: list[Room], needs: list[Need], lessons: list[Sequences]
) -> None:
    engines = KernelEngine(), PlainEngine()
    for sequences in [(), *lessons]:
        if sequences:
            for engine in engines:
                engine.learn(sequences)
        for node, room in enumerate(rooms):
            for engine in engines:
                engine.put(node, room)
            native, plain = (answers(engine, len(rooms), needs) for engine in engines)
            assert native == plain
        for engine in engines:
            engine.put(0, None)
        assert answers(engines[0], len(rooms), needs) == answers(engines[1], len(rooms), needs)


def test_thousands_of_rooms_are_kept_and_forgotten() -> None:
    engines = KernelEngine(), PlainEngine()
    needs = [Need(cpu, 1, 1, 1 + cpu % 16) for cpu in range(30)]
    sequence = [Priced(need, 1024 + need.cpu) for need in needs]
    for engine in engines:
        for node in range(300):
            engine.put(node, Room(40 + node, 40, 0, 16, (16, node % 17, 3)))
        engine.learn([sequence])
    for need in needs:
        assert list(engines[0].losses(need, range(300))) == list(engines[1].losses(need, range(300)))


def test_an_absent_kernel_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_FOLDER", tmp_path)
    kernel.loaded.cache_clear()
    with pytest.raises(KernelError, match=rf"needs {tmp_path}/libgpushare-replay.so.*make setup"):
        KernelEngine()
    kernel.loaded.cache_clear()


def test_a_file_that_is_no_library_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(KernelError, match=r"cannot load .*/text\.so"):
        kernel.load(tmp_path / "text.so")
