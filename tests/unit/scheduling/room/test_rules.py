"""Which pods may be evicted, and which only moved."""

from dataclasses import replace

import pytest

from gpushare.scheduling.room.rules import may_be_evicted, may_be_moved
from tests.support.builders.scheduling import pod


@pytest.mark.parametrize(
    ("owner", "safe", "evicted", "moved"),
    [
        ("ReplicaSet/a", None, True, True),
        ("ReplicaSet/a", False, True, False),
        ("StatefulSet/a", None, True, True),
        ("Job/a", None, True, False),
        ("Job/a", True, True, True),
        ("DaemonSet/a", None, False, False),
        ("Node/n", True, False, False),
        ("", None, False, False),
        ("", True, True, False),
        ("", False, False, False),
    ],
)
def test_controller_and_annotation_decide(
    *, owner: str, safe: bool | None, evicted: bool, moved: bool
) -> None:
    found = replace(pod("a", at="n", card=0), owner=owner, safe_to_evict=safe)
    assert (may_be_evicted(found), may_be_moved(found)) == (evicted, moved)


def test_a_pod_that_ends_is_not_moved() -> None:
    going = replace(pod("a", at="n", card=0, terminating=True), owner="ReplicaSet/a")
    assert not may_be_moved(going)


def test_a_member_of_a_pod_group_stays_beside_the_others() -> None:
    member = replace(pod("a", at="n", card=0), owner="ReplicaSet/a", safe_to_evict=True, group="g")
    assert (may_be_evicted(member), may_be_moved(member)) == (False, False)
