"""Reasons that are reported once."""

from gpushare.runtime.reasons import Reasons


def test_a_reason_is_new_until_it_repeats() -> None:
    reasons = Reasons()
    found = [reasons.is_new(each) for each in ("full", "full", "read-only", "full")]
    assert found == [True, False, True, True]


def test_a_reason_that_has_ended_is_new_again() -> None:
    reasons = Reasons()
    assert not reasons.end()
    reasons.is_new("full")
    assert reasons.end()
    assert reasons.is_new("full")


def test_each_thing_has_its_own_reason() -> None:
    reasons = Reasons()
    assert reasons.is_new("full", "a")
    assert reasons.is_new("full", "b")
    reasons.keep({"a"})
    assert (reasons.is_new("full", "a"), reasons.is_new("full", "b")) == (False, True)
