"""When a version mismatch means that the driver was replaced."""

from collections.abc import Sequence

import pytest

from gpushare.adapters.nvml.replacement import Mismatch, ReplacementPolicy

POLICY = ReplacementPolicy(opened_s=10, unopened_s=600)


def confirmed(readings: Sequence[tuple[float, bool]], *, opened: bool = True) -> bool:
    """Whether readings (time, mismatched) confirm a replacement after the last one."""
    state = Mismatch()
    for now, mismatched in readings:
        state = state.after(now, mismatched=mismatched)
    return state.is_confirmed(readings[-1][0], POLICY, opened=opened)


@pytest.mark.parametrize(
    ("readings", "replaced"),
    [
        ([(0, True)], False),
        ([(0, True), (20, True)], False),
        ([(0, True), (5, True), (9, True)], False),
        ([(0, True), (5, True), (10, True)], True),
        ([(0, True), (5, True), (6, False), (10, True), (15, True), (19, True)], False),
        ([(0, True), (5, True), (6, False), (10, True), (15, True), (20, True)], True),
    ],
)
def test_several_mismatches_in_a_row_over_some_seconds_confirm_a_replacement(
    readings: Sequence[tuple[float, bool]], *, replaced: bool
) -> None:
    assert confirmed(readings) is replaced


def test_a_process_that_never_had_the_driver_waits_longer() -> None:
    readings = [(float(second), True) for second in range(0, 600, 5)]
    assert not confirmed(readings, opened=False)
    assert confirmed([*readings, (600, True)], opened=False)
