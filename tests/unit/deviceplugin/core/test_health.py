"""How the health of GPUs changes over time: polls, XID errors, inventories, starts of the driver."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.health import (
    Cordon,
    Health,
    HealthChange,
    HealthPolicy,
    cordon,
    health_changes,
)
from gpushare.model.hardware import Fault, GpuFacts, RecoveryAction

CARDS = ("GPU-0", "GPU-1")
OLD, NONE = GpuFacts(), GpuFacts(recovery=RecoveryAction.NONE)
"""Of a driver without recovery actions, and of a GPU that needs none."""
RESET = GpuFacts(recovery=RecoveryAction.GPU_RESET)
LOST = GpuFacts(failure="GPU is lost")
UNCONTAINED, CONTAINED = Fault("GPU-0", 95), Fault("GPU-0", 94)
BY_XID = {"GPU-0": "XID 95 (uncontained memory error); the GPU must be reset"}


def polled(health: Health, times: Iterable[float], *facts: GpuFacts) -> Health:
    """The health after polls at these times with these facts of the GPUs."""
    for now in times:
        health = health.after_poll(dict(zip(CARDS, facts, strict=False)), now)
    return health


HEALTHY = polled(Health.of(CARDS), [0], OLD, OLD)
"""On a driver without recovery actions."""
MODERN = polled(Health.of(CARDS), [0], NONE, NONE)


def test_gpus_are_healthy_at_the_start() -> None:
    assert Health.of(CARDS).unhealthy == HEALTHY.unhealthy == MODERN.unhealthy == {}


# --- recovery actions -------------------------------------------------------------------------------


def test_a_gpu_is_closed_from_the_first_poll_with_a_recovery_action_to_the_first_without() -> None:
    closed = polled(Health.of(CARDS), [0], RESET, NONE)
    assert list(closed.unhealthy) == ["GPU-0"]
    assert polled(closed, [1000, 2000], RESET, NONE).unhealthy == closed.unhealthy
    assert polled(closed, [5], NONE, NONE).unhealthy == {}


def test_an_xid_closes_no_gpu_before_the_driver_asks_for_a_recovery() -> None:
    noted = MODERN.after_fault(UNCONTAINED)
    assert noted.unhealthy == {}
    reason = (
        "the driver asks for a reset of the GPU (recovery action 1), after XID 95 (uncontained memory error)"
    )
    assert polled(noted, [5], RESET, NONE).unhealthy == {"GPU-0": reason}


def test_an_xid_is_forgotten_once_the_driver_asks_for_no_recovery() -> None:
    settled = polled(MODERN.after_fault(UNCONTAINED), [5], NONE, NONE)
    assert settled == polled(MODERN, [5], NONE, NONE)


def test_a_gpu_off_the_bus_is_closed_by_the_poll_that_its_xid_causes() -> None:
    lost = polled(MODERN.after_fault(Fault("GPU-0", 79)), [5], LOST, NONE)
    assert lost.unhealthy == {"GPU-0": "XID 79 (the GPU has fallen off the bus); the GPU must be reset"}
    assert lost.reset_xids == {"GPU-0": 79}
    back = polled(lost, [10], NONE, NONE)
    assert (back.unhealthy, back.reset_xids) == ({}, {})


def test_only_xids_that_close_a_gpu_are_recorded() -> None:
    assert MODERN.after_fault(UNCONTAINED).reset_xids == {}
    assert polled(MODERN.after_fault(UNCONTAINED), [5], RESET, NONE).reset_xids == {}
    assert HEALTHY.after_fault(CONTAINED).reset_xids == {}
    assert HEALTHY.after_fault(UNCONTAINED).reset_xids == {"GPU-0": 95}


# --- XIDs without a recovery action -------------------------------------------------------------------


def test_without_a_recovery_action_an_xid_closes_its_gpu_for_good() -> None:
    closed = HEALTHY.after_fault(UNCONTAINED)
    assert closed.unhealthy == BY_XID
    assert polled(closed, range(0, 100_000, 50), OLD, OLD).unhealthy == BY_XID


def test_a_driver_with_recovery_actions_decides_about_a_recorded_xid() -> None:
    restarted = Health.of(CARDS, xids={"GPU-0": 95})
    assert polled(restarted, [0], NONE, NONE).unhealthy == {}
    assert list(polled(restarted, [0], RESET, NONE).unhealthy) == ["GPU-0"]


def test_a_start_of_the_driver_opens_the_gpus() -> None:
    assert HEALTHY.after_fault(UNCONTAINED).after_driver_start().unhealthy == {}


def test_an_error_that_is_contained_in_a_program_closes_no_gpu() -> None:
    assert HEALTHY.after_fault(CONTAINED).unhealthy == {}


@pytest.mark.parametrize("health", [HEALTHY, MODERN])
def test_a_changed_recovery_action_closes_no_gpu_by_itself(health: Health) -> None:
    for xid in (154, None):
        assert health.after_fault(Fault("GPU-0", xid)) == health


def test_xids_can_be_ignored() -> None:
    lenient = polled(Health.of(CARDS, HealthPolicy(ignored=frozenset({79}))), [0], OLD, OLD)
    assert lenient.after_fault(Fault("GPU-0", 79)).unhealthy == {}
    assert lenient.after_fault(UNCONTAINED).unhealthy == BY_XID


def test_an_xid_without_a_gpu_closes_every_gpu() -> None:
    closed = HEALTHY.after_fault(Fault(None, 95)).unhealthy
    words = "XID 95 (uncontained memory error) on a GPU that the driver does not name; the GPU must be reset"
    assert closed == dict.fromkeys(CARDS, words)


def test_an_xid_of_an_unshared_gpu_closes_none() -> None:
    assert HEALTHY.after_fault(Fault("MIG-1", 79)).unhealthy == {}


def test_only_a_more_serious_xid_replaces_an_earlier_one() -> None:
    contained_first = HEALTHY.after_fault(CONTAINED).after_fault(UNCONTAINED)
    assert contained_first.unhealthy == BY_XID
    assert contained_first.after_fault(CONTAINED).unhealthy == BY_XID
    assert contained_first.after_fault(Fault("GPU-0", 79)).unhealthy == BY_XID


# --- polls that fail ------------------------------------------------------------------------------------


def test_a_gpu_is_marked_after_three_failed_polls_in_a_row() -> None:
    assert polled(HEALTHY, (0, 5), LOST, OLD).unhealthy == {}
    assert polled(HEALTHY, (0, 5, 10), LOST, OLD).unhealthy == {"GPU-0": "GPU is lost"}


def test_a_gpu_that_has_never_answered_is_marked_at_once() -> None:
    assert polled(Health.of(CARDS), [0], LOST, OLD).unhealthy == {"GPU-0": "GPU is lost"}


def test_a_successful_poll_resets_the_count() -> None:
    health = polled(polled(polled(HEALTHY, (0, 5), LOST, OLD), (10,), OLD, OLD), (15, 20), LOST, OLD)
    assert health.unhealthy == {}


def test_a_driver_that_does_not_respond_marks_every_gpu_after_three_polls() -> None:
    health = HEALTHY
    for now in (0, 5, 10):
        assert health.unhealthy == {}
        health = health.after_failed_poll("NVML does not answer", now)
    assert health.unhealthy == dict.fromkeys(CARDS, "NVML does not answer")


MARKED = polled(HEALTHY, (0, 5, 10), LOST, OLD)


def test_a_marked_gpu_recovers_after_sixty_seconds_and_no_sooner() -> None:
    assert polled(MARKED, (100, 159.9), OLD, OLD).unhealthy
    assert polled(MARKED, (100, 130, 160), OLD, OLD).unhealthy == {}


def test_a_single_successful_poll_is_no_recovery() -> None:
    assert polled(MARKED, (10_000,), OLD, OLD).unhealthy


def test_a_failed_poll_restarts_the_recovery() -> None:
    marked = polled(polled(MARKED, (20, 75), OLD, OLD), (77,), LOST, OLD)
    assert polled(marked, (79, 138), OLD, OLD).unhealthy == {"GPU-0": "GPU is lost"}
    assert polled(marked, (79, 139), OLD, OLD).unhealthy == {}


def test_a_gpu_that_does_not_answer_for_a_while_keeps_the_reset_that_it_needs() -> None:
    closed = polled(MODERN, [5], RESET, NONE)
    assert "asks for a reset" in polled(closed, (10, 15, 20), LOST, NONE).unhealthy["GPU-0"]


# --- inventories and changes ------------------------------------------------------------------------------


def test_an_inventory_drops_gpus_and_adds_others() -> None:
    changed = HEALTHY.after_inventory(["GPU-0", "GPU-2"], {"GPU-2": "MIG mode"})
    assert set(changed.conditions) == {"GPU-0", "GPU-2"}
    assert changed.unhealthy == {"GPU-2": "MIG mode"}


def test_an_inventory_without_a_gpu_that_waits_for_a_reset_forgets_no_xid() -> None:
    away = HEALTHY.after_fault(UNCONTAINED).after_inventory(["GPU-1"], {})
    assert away.reset_xids == {"GPU-0": 95}
    assert away.after_inventory(CARDS, {}).unhealthy == BY_XID


def test_a_poll_without_a_gpu_changes_nothing_about_it() -> None:
    assert polled(MODERN, [5], LOST).conditions["GPU-1"] == MODERN.conditions["GPU-1"]


def test_changes_are_gpus_that_failed_or_recovered() -> None:
    closed = polled(MODERN, [5], RESET, NONE)
    reason = "the driver asks for a reset of the GPU (recovery action 1)"
    assert health_changes(MODERN, MODERN) == ()
    assert health_changes(MODERN, closed) == (HealthChange("GPU-0", healthy=False, reason=reason),)
    assert health_changes(closed, MODERN) == (HealthChange("GPU-0", healthy=True, reason=reason),)


def test_only_a_new_reason_is_a_change() -> None:
    reset = polled(MODERN, [5], RESET, NONE)
    reboot = polled(reset, [10], GpuFacts(recovery=RecoveryAction.NODE_REBOOT), NONE)
    assert [change.healthy for change in health_changes(reset, reboot)] == [False]
    assert health_changes(reset, polled(reset, [10], RESET, NONE)) == ()


SHORT = HealthPolicy(ignored=frozenset({13}), failures=2, recovery_s=10.0)
moments = st.lists(
    st.tuples(
        st.integers(min_value=1, max_value=12),
        st.sampled_from([OLD, NONE, RESET, LOST, Fault("GPU-0", 13), Fault("GPU-0", 79), CONTAINED]),
    ),
    max_size=60,
)


@given(moments)
def test_a_gpu_that_needs_a_reset_opens_by_no_order_of_reports(
    story: list[tuple[int, GpuFacts | Fault]],
) -> None:
    """Whatever happens, it opens when the driver asks for no recovery, or has none and reported no XID."""
    health, now = Health.of(["GPU-0"], SHORT), 0
    asks_for_reset = False
    xid = False
    for pause, report in story:
        now += pause
        if isinstance(report, Fault):
            health = health.after_fault(report)
            xid = xid or report.xid == 79
        else:
            health = health.after_poll({"GPU-0": report}, now)
            asks_for_reset = asks_for_reset if report is LOST else report is RESET
            xid = xid and report is not NONE
        known = health.conditions["GPU-0"].facts
        if asks_for_reset or (xid and (report is LOST or known in (None, OLD))):
            assert health.unhealthy


@given(moments)
def test_a_restart_of_the_agent_opens_no_gpu_that_was_closed_by_an_xid(
    story: list[tuple[int, GpuFacts | Fault]],
) -> None:
    health, now = Health.of(["GPU-0"], SHORT), 0
    for pause, report in story:
        now += pause
        health = (
            health.after_fault(report)
            if isinstance(report, Fault)
            else health.after_poll({"GPU-0": report}, now)
        )
    restarted = Health.of(["GPU-0"], SHORT, health.reset_xids).after_poll({"GPU-0": OLD}, now)
    assert bool(health.reset_xids) == bool(restarted.unhealthy)


def test_gpus_are_cordoned_by_index() -> None:
    assert cordon(None, {0, 1}) == Cordon(frozenset())
    assert cordon("0, 2", {0, 1, 2}) == Cordon(frozenset({0, 2}))


def test_an_invalid_cordon_is_reported_and_has_no_effect() -> None:
    found = cordon("zero,1,7", {0, 1})
    assert found.cards == {1}
    assert found.problem == (
        "annotation gpushare.io/cordoned-cards: "
        "'zero' is not a GPU index, this node shares no GPU 7; write 0,2"
    )
