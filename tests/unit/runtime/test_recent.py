"""Events of a key within a period."""

from gpushare.runtime.recent import RecentEvents


def test_events_are_counted_until_they_are_too_old() -> None:
    recent: RecentEvents[str] = RecentEvents(10)
    assert [recent.add("a", at) for at in (0, 4, 9)] == [1, 2, 3]
    assert recent.times("a", 9) == (0, 4, 9)
    assert recent.times("a", 10) == (4, 9)
    assert recent.times("a", 20) == ()
    assert recent.add("a", 20) == 1


def test_each_key_counts_alone_and_old_ones_are_forgotten() -> None:
    recent: RecentEvents[str] = RecentEvents(10)
    recent.add("a", 0)
    recent.add("b", 5)
    assert (recent.times("a", 6), recent.times("b", 6), recent.times("c", 6)) == ((0,), (5,), ())
    recent.add("c", 12)
    assert recent._times.keys() == {"b", "c"}
