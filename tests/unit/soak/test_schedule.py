"""The schedule of a soak is a value that its seed decides, and no fault outlives its round."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak import actions as a
from tests.soak.actions import ENDS, Action, Shape, Verb, active_faults
from tests.soak.schedule import CI_MINUTES, CI_SEED, ROUND_S, schedule

seeds = st.integers(0, 2**32)
durations = st.floats(0.1, 2)


@given(seeds, durations)
def test_the_same_seed_gives_the_same_schedule(seed: int, minutes: float) -> None:
    assert schedule(seed, minutes) == schedule(seed, minutes)


def test_another_seed_gives_another_schedule() -> None:
    assert schedule(1, 1) != schedule(2, 1)


@given(seeds, durations)
def test_actions_are_in_order_and_the_last_one_is_a_check_at_the_end(seed: int, minutes: float) -> None:
    found = schedule(seed, minutes)
    times = [each.at_s for each in found]
    assert times == sorted(times)
    assert found[-1].verb is Verb.CHECK
    assert found[-1].at_s == pytest.approx(minutes * 60)


@given(seeds, durations)
def test_at_every_check_everything_is_started_again(seed: int, minutes: float) -> None:
    found = schedule(seed, minutes)
    checks = [number for number, each in enumerate(found) if each.verb is Verb.CHECK]
    assert all(active_faults(found[:number]) == {} for number in checks)


@given(seeds, durations)
def test_checks_are_never_far_apart(seed: int, minutes: float) -> None:
    times = [0.0, *(each.at_s for each in schedule(seed, minutes) if each.verb is Verb.CHECK)]
    assert max(after - before for before, after in itertools.pairwise(times)) <= 1.5 * ROUND_S


@given(seeds, durations)
def test_a_pod_is_created_once_and_ends_at_most_once(seed: int, minutes: float) -> None:
    lives: dict[str, list[Verb]] = {}
    for each in schedule(seed, minutes):
        if each.verb in (Verb.CREATE, Verb.FINISH, Verb.DELETE):
            lives.setdefault(each.target, []).append(each.verb)
    whole = [Verb.CREATE, Verb.FINISH, Verb.DELETE]
    allowed = (whole, whole[:1], whole[:2], [Verb.CREATE, Verb.DELETE])
    assert all(each in allowed for each in lives.values())


@given(seeds)
def test_every_pod_fits_a_node_that_is_empty(seed: int) -> None:
    for each in schedule(seed, 2):
        if each.shape:
            assert each.shape.per_gpu <= a.SIZE
            assert all(units % each.shape.gpus == 0 for units in each.shape.containers)
            assert each.shape.gpus <= max(a.NODES.values())


@given(seeds)
def test_after_the_start_pods_want_more_units_than_there_are(seed: int) -> None:
    """Otherwise no pod would wait for the units of another one, and freed units would not be used again."""
    living: dict[str, int] = {}
    loads: list[float] = []
    for each in schedule(seed, 2):
        if each.shape:
            living[each.target] = each.shape.units
        elif each.verb in (Verb.FINISH, Verb.DELETE):
            living.pop(each.target, None)
        if each.at_s > 30:
            loads.append(sum(living.values()) / a.CAPACITY)
    assert max(loads) > 1
    assert sum(loads) / len(loads) > 0.9


def test_half_an_hour_has_every_kind_of_action_on_every_target() -> None:
    found = schedule(1, 30)
    assert {each.verb for each in found} == set(Verb)
    hit = {each.target for each in found if each.verb in ENDS}
    assert hit == {*a.PROCESSES, *a.LINKS, *a.CLOCKS, *a.NODES}
    assert {each.target for each in found if each.verb is Verb.REBOOT} == {*a.OWN_KERNEL}
    shapes = [each.shape for each in found if each.shape]
    assert {len(each.containers) for each in shapes} == {1, 2, 3}
    assert {each.gpus for each in shapes} == {1, 2}


def test_the_run_in_ci_hits_each_program_of_a_node_with_cgroup_v2() -> None:
    found = schedule(CI_SEED, CI_MINUTES)
    hit = {each.target for each in found if each.verb in (Verb.KILL, Verb.FREEZE, Verb.REBOOT)}
    assert hit >= {*a.UNITS, *a.OWN_KERNEL}
    assert CI_MINUTES >= 2


@pytest.mark.parametrize(
    ("target", "machine"),
    [
        ("v2-0", "v2-0"),
        ("v2-0.kubelet", "v2-0"),
        ("clock of v2-0.device-plugin", "v2-0"),
        # The proxy is on this machine.
        ("link of v2-0.device-plugin", "link of v2-0.device-plugin"),
        ("real-0.kubelet", "real-0.kubelet"),
    ],
)
def test_actions_on_a_node_with_its_own_kernel_need_its_machine(target: str, machine: str) -> None:
    assert a.machine_of(target) == machine


def test_a_soak_that_is_too_short_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"0.05 minutes is too short: use at least 0.1"):
        schedule(1, 0.05)


@pytest.mark.parametrize(
    ("verbs", "message"),
    [
        ((Verb.KILL, Verb.FREEZE), "kill has not ended"),
        ((Verb.START,), "there is nothing to end"),
        ((Verb.FREEZE, Verb.START), "there is nothing to end"),
    ],
)
def test_faults_that_do_not_fit_each_other_are_an_error(verbs: tuple[Verb, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        active_faults(Action(0, verb, "x") for verb in verbs)


def test_an_action_reads_as_one_line() -> None:
    assert (
        str(Action(1.5, Verb.CREATE, "pod-1", Shape((4, 8), 2))) == "    1.50 s  create pod-1 4+8 on 2 GPUs"
    )
    assert str(Action(61, Verb.STEP_CLOCK, "clock of x", value=-1)) == "   61.00 s  step clock clock of x -1"
