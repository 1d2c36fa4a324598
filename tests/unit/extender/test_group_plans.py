"""Groups whole: each member gets the place that leaves room for the others, or the group has none."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from gpushare.extender.group_plans import LIFE_S, GroupPlans
from gpushare.model.objects import Pod
from gpushare.scheduling.events import Confirmed, PodDeleted, PodObserved, Reserved
from gpushare.scheduling.ledger import Ledger, apply, overcommitted
from tests.support.builders.scheduling import cluster, demand, node, pod, sound
from tests.support.steps import finished


def member(uid: str, units: int, group: str = "g") -> Pod:
    return replace(pod(uid, units), group=group)


def known(*members: Pod, now: list[float] | None = None) -> GroupPlans:
    """The plans of an extender that has seen these pods."""
    plans = GroupPlans(lambda: now[0]) if now else GroupPlans()
    for each in members:
        plans.see(each)
    return plans


def asked(plans: GroupPlans, ledger: Ledger, each: Pod, names: Sequence[str] = ()) -> str | None:
    """The node that filter returns for the member."""
    demanded = demand(each.demand.mem) if not hasattr(each.demand, "problem") else sound(each.demand)
    found = finished(plans.filter_steps(each, demanded, names or [*ledger.books], ledger))
    return found.passed[0] if found.passed else None


def answers(plans: GroupPlans, ledger: Ledger, members: Iterable[Pod]) -> list[str | None]:
    return [asked(plans, ledger, each) for each in members]


def filled(ledger: Ledger, units: int, at: str = "n", uid: str = "x") -> Ledger:
    """The ledger after another pod has been bound to GPU 0."""
    return apply(ledger, Reserved(pod(uid, units), demand(units), at, ((0, demand(units).per_card),)))


A, B = member("a", 10), member("b", 10)


def test_the_second_member_does_not_get_the_place_of_the_first() -> None:
    assert answers(known(A, B), cluster(node("n", 14)), (A, B)) == ["n", None]


def test_a_member_asked_again_begins_a_new_cycle() -> None:
    assert answers(known(A, B), cluster(node("n", 14)), (A, B, A)) == ["n", None, "n"]


def test_a_member_asked_twice_in_a_row_keeps_the_places_of_the_others() -> None:
    """The scheduler asks first for the node of a nomination, then for all."""
    plans, ledger = known(A, B), cluster(node("n", 14), node("m", 14))
    first = asked(plans, ledger, A)
    assert asked(plans, ledger, B, ["none"]) is None
    assert {first, asked(plans, ledger, B)} == {"m", "n"}


def test_the_rejection_names_the_group_only_where_the_member_would_fit_without_it() -> None:
    plans, ledger = known(A, B), cluster(node("n", 14), node("m", 4))
    asked(plans, ledger, A)
    found = finished(plans.filter_steps(B, demand(10), ["n"], ledger))
    text = "Insufficient GPU Memory in one device: asked 10, beside the other members of its pod group"
    assert found.failed == {"n": text}


def test_the_largest_member_chooses_first_in_any_order_of_requests() -> None:
    """In the order of the requests, the small ones would take both GPUs, and the large one had none."""
    small, other, large = member("s", 7), member("t", 7), member("z", 14)
    plans, ledger = known(small, other, large), cluster(node("n", 14), node("m", 16, placement="spread"))
    places = answers(plans, ledger, (small, other, large))
    assert None not in places
    reserved = plans.take(small, str(places[0]), ledger)
    assert reserved is not None
    assert len(reserved) == 3


def test_a_member_may_go_where_the_scheduler_allows_it() -> None:
    plans, ledger = known(A, B), cluster(node("n", 14, 14), node("m", 14))
    assert asked(plans, ledger, A, ["n"]) == "n"
    assert asked(plans, ledger, B, ["m"]) == "m"


def test_the_first_bind_reserves_all_places() -> None:
    plans, ledger = known(A, B), cluster(node("n", 14, 14))
    answers(plans, ledger, (A, B))
    reserved = plans.take(A, "n", ledger)
    assert reserved is not None
    assert [each.pod.uid for each in reserved] == ["a", "b"]


def test_no_member_is_bound_if_one_place_is_taken() -> None:
    plans, ledger = known(A, B), cluster(node("n", 14, 14))
    answers(plans, ledger, (A, B))
    assert plans.take(A, "n", filled(ledger, 10)) is None
    assert plans.take(B, "n", ledger) == ()  # no plan any more, even if the place is free again


def test_a_place_on_another_node_than_the_answer_is_no_plan() -> None:
    plans, ledger = known(A), cluster(node("n", 14), node("m", 14))
    asked(plans, ledger, A, ["n"])
    assert plans.take(A, "m", ledger) == ()


def test_a_deleted_member_gets_no_reservation() -> None:
    plans, ledger = known(A, B), cluster(node("n", 14, 14))
    answers(plans, ledger, (A, B))
    plans.forget("b")
    assert [each.pod.uid for each in plans.take(A, "n", ledger) or ()] == ["a"]


def test_a_gated_member_has_no_part_in_the_plan() -> None:
    """The scheduler does not ask about it, so that the others may have all units."""
    plans, ledger = known(A, replace(B, gated=True)), cluster(node("n", 14, 4))
    assert answers(plans, ledger, [A]) == ["n"]
    assert [each.pod.uid for each in plans.take(A, "n", ledger) or ()] == ["a"]


def test_a_pod_that_the_api_does_not_have_gets_no_reservation() -> None:
    """Any client of the port may ask filter about any pod."""
    plans, ledger = known(A), cluster(node("n", 14, 14))
    answers(plans, ledger, (A, member("made-up", 10)))
    assert [each.pod.uid for each in plans.take(A, "n", ledger) or ()] == ["a"]


def test_units_are_those_of_the_pod_not_of_the_request() -> None:
    plans, ledger = known(A, B), cluster(node("n", 14, 14))
    answers(plans, ledger, (A, replace(B, demand=demand(1))))
    reserved = plans.take(A, "n", ledger)
    assert reserved is not None
    assert [each.demand for each in reserved] == [demand(10), demand(10)]


def test_an_old_plan_ends() -> None:
    now = [1.0]
    plans, ledger = known(A, B, now=now), cluster(node("n", 14))
    asked(plans, ledger, A)
    now[0] += LIFE_S + 1
    assert asked(plans, ledger, B) == "n"
    assert plans.take(A, "n", ledger) == ()


@pytest.mark.parametrize(("there", "begun"), [(pod("b", 4, at="n", card=0), True), (pod("b", 4), False)])
def test_a_group_has_begun_once_a_member_with_units_has_a_node(there: Pod, *, begun: bool) -> None:
    other = replace(there, group="g")
    launcher = replace(pod("c", 0, at="n"), group="g")
    ledger = apply(cluster(node("n", 14)), PodObserved(other))
    assert known(A, other, launcher).begun(A, ledger) is begun


@pytest.mark.parametrize(
    ("free", "sizes", "only"),
    [((3, 4), (2, 2, 3), "largest first"), ((10, 11), (2, 9, 2, 8), "in the order of the requests")],
)
def test_a_group_is_bound_if_one_of_the_orders_fits(
    free: tuple[int, ...], sizes: tuple[int, ...], only: str
) -> None:
    members = [member(f"{index}", size) for index, size in enumerate(sizes)]
    assert fits_largest_first([*free], sizes) is (only == "largest first")
    plans, ledger = known(*members), cluster(node("n", *free))
    assert answers(plans, ledger, members) == ["n"] * len(sizes)
    assert len(plans.take(members[0], "n", ledger) or ()) == len(sizes)


def fits_largest_first(free: list[int], sizes: Iterable[int]) -> bool:
    """Whether all fit if the largest chooses first, and each takes the fullest GPU that it fits."""
    left = list(free)
    for size in sorted(sizes, reverse=True):
        rooms = [room for room in left if room >= size]
        if not rooms:
            return False
        left[left.index(min(rooms))] -= size
    return True


@given(
    free=st.lists(st.integers(1, 16), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 16), min_size=1, max_size=6),
    data=st.data(),
)
def test_a_group_that_fits_largest_first_is_planned_whole(
    free: list[int], sizes: list[int], data: st.DataObject
) -> None:
    members = [member(f"{index:02}", size) for index, size in enumerate(sizes)]
    ledger, plans = cluster(node("n", *free)), known(*members)
    places = answers(plans, ledger, data.draw(st.permutations(members)))
    if fits_largest_first(free, sizes):
        assert None not in places
    if None not in places:
        assert len(plans.take(members[0], "n", ledger) or ()) == len(members)


class Groups(RuleBasedStateMachine):
    """Two groups, other pods and deletes: a first bind never leaves half of a group that was whole."""

    waiting = Bundle("waiting")

    def __init__(self) -> None:
        super().__init__()
        self.plans, self.ledger = GroupPlans(), cluster(node("n", 14, 14), node("m", 14, 10))
        self.members: dict[str, dict[str, Pod]] = {"g": {}, "h": {}}
        self.number = 0

    def pending(self, group: str) -> list[Pod]:
        return [each for uid, each in self.members[group].items() if self.ledger.reservation(uid) is None]

    @rule(group=st.sampled_from("gh"), units=st.integers(1, 14))
    def create(self, group: str, units: int) -> None:
        self.number += 1
        made = member(f"{group}{self.number}", units, group)
        self.members[group][made.uid] = made
        self.plans.see(made)

    @precondition(lambda self: any(self.members.values()))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        all_members = {uid: group for group, of_group in self.members.items() for uid in of_group}
        uid = data.draw(st.sampled_from(sorted(all_members)))
        del self.members[all_members[uid]][uid]
        self.plans.forget(uid)
        self.ledger = apply(self.ledger, PodDeleted(uid))

    @rule(target=waiting, units=st.integers(1, 14), at=st.sampled_from("nm"))
    def fill(self, units: int, at: str) -> str:
        """Another pod is bound, if it fits GPU 0."""
        self.number += 1
        uid = f"x{self.number}"
        moved = filled(self.ledger, units, at, uid)
        if not [*overcommitted(moved)]:
            self.ledger = moved
        return uid

    @rule(uid=consumes(waiting))
    def end(self, uid: str) -> None:
        self.ledger = apply(self.ledger, PodDeleted(uid))

    @rule(group=st.sampled_from("gh"), data=st.data(), between=st.integers(0, 14))
    def cycle(self, group: str, data: st.DataObject, between: int) -> None:
        """Filter for each member, then the bind of another pod, then the binds if all members have passed."""
        pending = data.draw(st.permutations(self.pending(group)))
        places = answers(self.plans, self.ledger, pending)
        if between:
            self.fill(between, "n")
        if None in places:
            return
        bound = [
            self.bind(each, str(at))
            for each, at in data.draw(st.permutations([*zip(pending, places, strict=True)]))
        ]
        assert len({*bound}) <= 1

    def bind(self, each: Pod, at: str) -> bool:
        if self.ledger.reservation(each.uid) is None:
            self.ledger = apply(self.ledger, *(self.plans.take(each, at, self.ledger) or ()))
        found = self.ledger.reservation(each.uid)
        self.ledger = apply(self.ledger, Confirmed(each.uid)) if found else self.ledger
        return found is not None and found[0] == at

    @invariant()
    def no_gpu_is_overcommitted(self) -> None:
        assert not [*overcommitted(self.ledger)]


TestGroups = Groups.TestCase
