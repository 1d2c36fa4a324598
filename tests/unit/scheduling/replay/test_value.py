"""What nodes are worth, what they lose, and which GPUs lose least."""

from gpushare.scheduling.placement.replay.needs import (
    Lesson,
    Need,
    Priced,
    Room,
    after,
    fits,
    fullest,
    lesson_of,
)
from gpushare.scheduling.placement.replay.value import (
    MILLI,
    SEVERAL,
    UNFIT,
    WORTH,
    best,
    loss,
    usable_by_several,
    value,
)

HALF = Need(1000, 1000, 1, 500)
WHOLE = Need(4000, 4000, 1, 1000)
PAIR = Need(8000, 8000, 2, 1000)
CPU_ONLY = Need(4000, 1000, 0, 0)
PLACES = ((1000, 1000), (1000, 1000, 1000), (1000, 500))


def room(*free: int, cpu: int = 64_000, model: int = 0, gpu: int = 1000) -> Room:
    return Room(cpu, 64_000, model, gpu, free)


def sequence(*needs: Need, worth: int = WORTH) -> list[Priced]:
    return [Priced(need, worth) for need in needs]


def test_a_pod_fits_by_cpu_memory_model_and_gpus() -> None:
    assert fits(room(1000, 1000), PAIR)
    assert not fits(room(1000, 999), PAIR)
    assert not fits(room(1000, 1000, cpu=7999), PAIR)
    assert not fits(room(1000, 1000)._replace(memory=7999), PAIR)
    assert not fits(room(1000, 1000, model=1), PAIR._replace(models=0b101))
    assert fits(room(1000, 1000, model=2), PAIR._replace(models=0b101))
    assert fits(room(), CPU_ONLY)


def test_pods_take_the_fullest_gpus_that_fit() -> None:
    assert fullest(room(1000, 600, 400), HALF) == (1,)
    assert fullest(room(1000, 400, 1000, 1000), PAIR) == (0, 2)
    assert after(room(1000, 600), HALF, (1,)) == room(1000, 100, cpu=63_000)._replace(memory=63_000)


def test_the_value_is_what_each_sequence_could_use_by_its_worth() -> None:
    assert value(room(1000), lesson_of([sequence(HALF, WHOLE, HALF)])) == 1000 * WORTH
    assert value(room(1000), lesson_of([sequence(HALF, WHOLE), sequence(WHOLE, HALF)])) == 1500 * WORTH
    assert value(room(1000), lesson_of([sequence(WHOLE, worth=2 * WORTH)])) == 2000 * WORTH


def test_a_pod_without_gpus_costs_the_gpus_that_lose_their_cpu() -> None:
    lesson = lesson_of([sequence(WHOLE)])
    assert loss(room(1000, cpu=4000), CPU_ONLY, lesson) == 1000 * WORTH
    assert loss(room(1000, cpu=8000), CPU_ONLY, lesson) == 0
    assert loss(room(0, cpu=4000), CPU_ONLY, lesson) == 0


def test_a_loss_is_in_thousandths_of_the_nodes_own_gpu() -> None:
    eight = Need(0, 0, 1, 8)
    lesson = lesson_of([sequence(eight, eight)])
    assert loss(room(16, gpu=16), eight, lesson) == MILLI // 2 * WORTH
    assert loss(room(16, gpu=80), eight, lesson) == MILLI // 10 * WORTH


def test_the_gpu_that_loses_least_is_chosen_and_the_fullest_of_equal_ones() -> None:
    third = Need(0, 0, 1, 300)
    assert best(room(1000, 700), third, lesson_of([sequence(WHOLE)])) == (0, (1,))
    assert best(room(700, 500), third, lesson_of([sequence(third._replace(units=700))])) == (0, (1,))
    # Best fit would take the GPU with 600, which then has no place for the half.
    assert best(room(900, 600), third, lesson_of([sequence(HALF, HALF, HALF)]))[1] == (0,)


def test_pods_with_several_gpus_could_use_the_gpus_with_enough_for_one_of_them() -> None:
    halves = Need(0, 0, 2, 500)
    assert usable_by_several(room(1000, 600, 400), {halves: 1}) == 1600
    assert usable_by_several(room(1000, 400, 400), {halves: 1}) == 0
    assert usable_by_several(room(1000, 1000), {}) == 0


def test_they_count_by_how_often_they_are_seen_on_any_node() -> None:
    four = PAIR._replace(gpus=4)
    assert usable_by_several(room(1000, 1000), {PAIR: 3, four: 1}) == 1500
    assert lesson_of([sequence(PAIR, HALF, four), sequence(PAIR, WHOLE)]).several == {PAIR: 2, four: 1}


def test_a_pod_that_takes_the_place_of_pods_with_several_gpus_costs_more() -> None:
    lesson = lesson_of([sequence(WHOLE, WHOLE, PAIR)])
    alone = lesson._replace(several={})
    extra = {free: loss(room(*free), HALF, lesson) - loss(room(*free), HALF, alone) for free in PLACES}
    assert extra == {(1000, 1000): 2000 * SEVERAL, (1000, 1000, 1000): 1000 * SEVERAL, (1000, 500): 0}


def test_a_pod_that_does_not_fit_has_no_loss() -> None:
    assert best(room(400), HALF, lesson_of([sequence(HALF)])) == (UNFIT, ())


def test_before_anything_is_learned_the_loss_is_what_stays_free() -> None:
    assert loss(room(1000, 600), HALF, Lesson()) == 1100 * WORTH
    assert best(room(1000, 600), HALF, Lesson())[1] == (1,)
