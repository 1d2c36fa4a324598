"""When a GPU is marked unhealthy, and when it is healthy again."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.health import (
    IGNORED_XIDS,
    NEED_RESET,
    Cordon,
    Health,
    HealthChange,
    HealthPolicy,
    cordon,
    health_changes,
    parse_xids,
)
from gpushare.errors import ConfigError
from gpushare.model.hardware import Fault

CARDS = ("GPU-0", "GPU-1")
HEALTHY = Health.of(CARDS)
PASSING = 94
"""A contained memory error: the GPU stays usable."""


def polled(health: Health, times: Iterable[float], faults: dict[str, str] | None = None) -> Health:
    for now in times:
        health = health.after_poll(faults or {}, now)
    return health


def test_gpus_are_healthy_at_the_start() -> None:
    assert HEALTHY.unhealthy == {}


@pytest.mark.parametrize("xid", sorted(IGNORED_XIDS))
def test_an_application_error_marks_no_gpu(xid: int) -> None:
    assert HEALTHY.after_fault(Fault("GPU-0", xid)) == HEALTHY


@pytest.mark.parametrize("xid", [48, 63, 64, 74, 79, 94, 95, 119, 999])
def test_any_other_xid_marks_its_gpu_at_once(xid: int) -> None:
    after = HEALTHY.after_fault(Fault("GPU-1", xid))
    assert list(after.unhealthy) == ["GPU-1"]
    assert after.unhealthy["GPU-1"].startswith(f"XID {xid}")


def test_the_list_of_ignored_xids_is_a_setting() -> None:
    strict = Health.of(CARDS, HealthPolicy(ignored=frozenset({79})))
    assert strict.after_fault(Fault("GPU-0", 79)).unhealthy == {}
    assert strict.after_fault(Fault("GPU-0", 13)).unhealthy == {"GPU-0": "XID 13"}


def test_an_xid_without_a_gpu_marks_every_gpu() -> None:
    reason = f"XID {PASSING} on a GPU that the driver does not name"
    assert HEALTHY.after_fault(Fault(None, PASSING)).unhealthy == dict.fromkeys(CARDS, reason)


def test_an_xid_of_an_unshared_gpu_marks_none() -> None:
    assert HEALTHY.after_fault(Fault("MIG-1", 79)).unhealthy == {}


def test_a_gpu_is_marked_after_three_failed_polls_in_a_row() -> None:
    lost = {"GPU-0": "GPU is lost"}
    assert polled(HEALTHY, (0, 5), lost).unhealthy == {}
    assert polled(HEALTHY, (0, 5, 10), lost).unhealthy == lost


def test_a_successful_poll_resets_the_count() -> None:
    lost = {"GPU-0": "GPU is lost"}
    health = polled(polled(polled(HEALTHY, (0, 5), lost), (10,)), (15, 20), lost)
    assert health.unhealthy == {}


def test_a_driver_that_does_not_respond_marks_every_gpu_after_three_polls() -> None:
    health = HEALTHY
    for now in (0, 5, 10):
        assert health.unhealthy == {}
        health = health.after_silence("NVML does not answer", now)
    assert health.unhealthy == dict.fromkeys(CARDS, "NVML does not answer")


def test_a_marked_gpu_recovers_after_sixty_seconds_and_no_sooner() -> None:
    marked = HEALTHY.after_fault(Fault("GPU-0", PASSING))
    assert polled(marked, (100, 159.9)).unhealthy
    assert polled(marked, (100, 130, 160)).unhealthy == {}


def test_a_single_successful_poll_is_no_recovery() -> None:
    assert polled(HEALTHY.after_fault(Fault("GPU-0", PASSING)), (10_000,)).unhealthy


def test_a_failed_poll_restarts_the_recovery() -> None:
    marked = polled(HEALTHY.after_fault(Fault("GPU-0", PASSING)), (0, 55))
    marked = marked.after_poll({"GPU-0": "no answer"}, 57)
    assert polled(marked, (59, 118)).unhealthy == {"GPU-0": f"XID {PASSING}"}
    assert polled(marked, (59, 119)).unhealthy == {}


def test_a_further_fault_restarts_the_recovery() -> None:
    marked = polled(HEALTHY.after_fault(Fault("GPU-0", PASSING)), (0, 55)).after_fault(
        Fault("GPU-0", PASSING)
    )
    assert polled(marked, (60, 115)).unhealthy
    assert polled(marked, (60, 120)).unhealthy == {}


@pytest.mark.parametrize("xid", sorted(NEED_RESET))
def test_a_gpu_that_needs_a_reset_never_recovers(xid: int) -> None:
    health = polled(HEALTHY.after_fault(Fault("GPU-0", xid)), range(0, 100_000, 50))
    assert health.unhealthy == {
        "GPU-0": f"XID {xid}; it needs a reset, and then a restart of the agent",
    }


@pytest.mark.parametrize("xid", sorted(NEED_RESET))
def test_a_later_fault_does_not_replace_a_reset(xid: int) -> None:
    marked = HEALTHY.after_fault(Fault("GPU-0", xid)).after_fault(Fault("GPU-0", PASSING))
    assert polled(marked, range(0, 100_000, 50)).unhealthy == marked.unhealthy


def test_only_a_more_serious_fault_replaces_the_reason() -> None:
    marked = HEALTHY.after_fault(Fault("GPU-0", PASSING)).after_fault(Fault("GPU-0", 79))
    assert marked.unhealthy["GPU-0"].startswith("XID 79;")
    assert marked.after_fault(Fault("GPU-0", PASSING)).unhealthy == marked.unhealthy
    assert marked.after_fault(Fault("GPU-0", 48)).unhealthy == marked.unhealthy


def test_changes_are_gpus_that_failed_or_recovered() -> None:
    marked = HEALTHY.after_fault(Fault("GPU-0", PASSING))
    healed = polled(marked, (0, 60))
    assert health_changes(HEALTHY, HEALTHY) == ()
    assert health_changes(HEALTHY, marked) == (HealthChange("GPU-0", healthy=False, reason=f"XID {PASSING}"),)
    assert health_changes(marked, healed) == (HealthChange("GPU-0", healthy=True, reason=f"XID {PASSING}"),)


def test_only_a_new_reason_is_a_change() -> None:
    marked = HEALTHY.after_fault(Fault("GPU-0", PASSING))
    graver = marked.after_fault(Fault("GPU-0", 79))
    assert [turn.reason[:6] for turn in health_changes(marked, graver)] == ["XID 79"]
    assert health_changes(marked, marked.after_fault(Fault("GPU-0", PASSING))) == ()


SHORT = HealthPolicy(ignored=frozenset({13}), failures=2, recovery_s=10.0)
moments = st.lists(
    st.tuples(
        st.integers(min_value=1, max_value=12),
        st.one_of(
            st.just(("good", 0)),
            st.just(("bad", 0)),
            st.just(("silent", 0)),
            st.sampled_from([("xid", 13), ("xid", PASSING), ("xid", 79), ("anyone", PASSING)]),
        ),
    ),
    max_size=60,
)


@given(moments)
def test_a_gpu_recovers_only_after_ten_seconds_without_faults(
    story: list[tuple[int, tuple[str, int]]],
) -> None:
    health, now, dead = Health.of(["GPU-0"], SHORT), 0, False
    good_since: int | None = None
    failures = 0
    for pause, (kind, xid) in story:
        before, now = health, now + pause
        trouble = kind in ("bad", "silent") or (kind in ("xid", "anyone") and xid != 13)
        match kind:
            case "good":
                health = health.after_poll({}, now)
                failures = 0
                good_since = now if good_since is None else good_since
            case "bad":
                health = health.after_poll({"GPU-0": "lost"}, now)
            case "silent":
                health = health.after_silence("silent", now)
            case _:
                health = health.after_fault(Fault("GPU-0" if kind == "xid" else None, xid))
        if trouble:
            good_since = None
            failures += kind in ("bad", "silent")
        dead = dead or xid == 79
        was, marked = bool(before.unhealthy), bool(health.unhealthy)
        if was and not marked:
            assert good_since is not None
            assert now - good_since >= SHORT.recovery_s
            assert not dead
        if trouble and kind in ("xid", "anyone"):
            assert marked
        if failures >= SHORT.failures or dead:
            assert marked
        if not was and marked:
            assert trouble


@pytest.mark.parametrize(("text", "xids"), [("31,43,45", {31, 43, 45}), (" 31 , 43,", {31, 43}), ("", set())])
def test_xids_are_written_as_a_list(text: str, xids: set[int]) -> None:
    assert parse_xids(text) == xids


@pytest.mark.parametrize("text", ["31,x", "-1", "31;43", "0x1f"])
def test_an_xid_that_is_not_a_number_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a number; write them as 31,43,45"):
        parse_xids(text)


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
