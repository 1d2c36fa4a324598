"""The choice among nodes, and when the engine learns."""

from gpushare.scheduling.placement.replay.engine import PlainEngine
from gpushare.scheduling.placement.replay.needs import Need, Room, Sequences
from gpushare.scheduling.placement.replay.policy import TIE, Replay, first_of_best
from gpushare.scheduling.placement.replay.value import UNFIT

HALF = Need(0, 0, 1, 500)
EMPTY = Room(64_000, 64_000, 0, 1000, (1000,))


class Recording(PlainEngine):
    """Counts its lessons."""

    def __init__(self) -> None:
        super().__init__()
        self.lessons: list[Sequences] = []

    def learn(self, sequences: Sequences) -> None:
        self.lessons.append(sequences)
        super().learn(sequences)


def test_the_first_loss_within_the_tie_wins() -> None:
    assert first_of_best([TIE + 1, TIE, 0]) == 1
    assert first_of_best([UNFIT, -5, -4]) == 1


def test_no_node_is_chosen_if_none_fits() -> None:
    assert first_of_best([]) is None
    assert first_of_best([UNFIT, UNFIT]) is None


def test_the_candidates_decide_the_order_of_equal_nodes() -> None:
    engine = PlainEngine()
    for node in (3, 4):
        engine.put(node, EMPTY)
    replay = Replay(engine)
    assert (replay.choose(HALF, [4, 3]), replay.choose(HALF, [3, 4])) == (4, 3)
    engine.put(4, None)
    assert replay.choose(HALF, [4]) is None


def test_before_the_first_lesson_the_fullest_node_is_chosen() -> None:
    engine = PlainEngine()
    engine.put(0, EMPTY)
    engine.put(1, EMPTY._replace(free=(600,)))
    assert Replay(engine).choose(HALF, [0, 1]) == 1


def test_a_lesson_shows_where_what_stays_free_is_of_use() -> None:
    engine = PlainEngine()
    engine.put(0, EMPTY._replace(free=(600,)))
    engine.put(1, EMPTY._replace(free=(900,)))
    replay, third = Replay(engine), HALF._replace(units=300)
    assert replay.choose(third, [0, 1]) == 0
    for _ in range(25):
        replay.see(HALF, lambda: [EMPTY])
    # 600 are still enough for a half with what 900 leave, and 300 are not.
    assert replay.choose(third, [0, 1]) == 1


def test_the_engine_learns_at_25_and_50_pods() -> None:
    engine = Recording()
    replay = Replay(engine)
    for _ in range(60):
        replay.see(HALF, lambda: [EMPTY])
    assert len(engine.lessons) == 2
